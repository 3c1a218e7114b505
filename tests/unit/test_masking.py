# SPDX-License-Identifier: Apache-2.0


"""No secret of a transport URL is shown, whatever the URL looks like."""

from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from amqp1_driver import masking, options
from amqp1_driver.masking import masked, masked_option, scrubbed


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://u:pw@h", "amqp://u:***@h"),
        ("amqp://u:pw@h:5672/vh", "amqp://u:***@h:5672/vh"),
        ("amqp://u:pw@h1:1,v:pw@h2:2/", "amqp://u:***@h1:1,v:***@h2:2/"),
        ("amqp+oslo://u:p%2Fw%40@[::1]:5672/a%2Fb", "amqp+oslo://u:***@[::1]:5672/a%2Fb"),
        ("amqp://u:p:w@h", "amqp://u:***@h"),
        ("amqp://u:@h", "amqp://u:***@h"),
        ("amqp://:pw@h", "amqp://:***@h"),
        ("amqp://u@h1,v@h2", "amqp://u@h1,v@h2"),
        # nothing to hide
        (
            "amqp://h1,h2:5672/vh?ssl=true&ssl_ca_file=/etc/ca.pem",
            "amqp://h1,h2:5672/vh?ssl=true&ssl_ca_file=/etc/ca.pem",
        ),
        ("amqp://", "amqp://"),
        ("amqp:", "amqp:"),
        ("amqp:?pre_settled=rpc-cast", "amqp:?pre_settled=rpc-cast"),
        ("proton:amqp://u:pw@h", "proton:amqp://u:***@h"),
        # options
        ("amqp://h?ssl_key_password=pw&ssl=1", "amqp://h?ssl_key_password=***"),
        ("amqp://h?ssl=1&proxy=http%3A//u%3Apw%40p%3A1", "amqp://h?ssl=1&proxy=***"),
        ("amqp://h?ssl_key_pasword=pw", "amqp://h?ssl_key_pasword=***"),
        ("amqp:?ssl_key_password=pw", "amqp:?ssl_key_password=***"),
        ("amqp://h?pw", "amqp://h?***"),
        ("amqp://h?x=p w", "amqp://h?x=***"),
        ("amqp://h?secret_file=/x&password_file=pw", "amqp://h?secret_file=***"),
        ("amqp://h?", "amqp://h?***"),
        # no URLs: a password may be anywhere
        ("amqp://u:p/w@h", "amqp://***"),
        ("amqp://u:12/34@h", "amqp://***"),
        ("amqp://u:12?34@h", "amqp://***"),
        ("amqp://u:12#34@h", "amqp://***"),
        ("amqp://u:p@w@h", "amqp://***"),
        ("amqp://u:12,34@h", "amqp://***"),
        ("amqp://u:p w@h", "amqp://***"),
        ("amqp://u:pässword@h", "amqp://***"),
        ("u:pw@h", "***"),
        ("u:pw://x@h", "***"),
        ("", "***"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url, shown):
    assert masked(url) == shown


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ("oslo_messaging_amqp.ssl_key_password=x", "oslo_messaging_amqp.ssl_key_password=***"),
        ("oslo_messaging_amqp.idle_timeout=5", "oslo_messaging_amqp.idle_timeout=5"),
        ("L:oslo_messaging_amqp.proxy=x", "L:oslo_messaging_amqp.proxy=***"),
        ("nonsense", "***"),
        ("a b=c", "***"),
        ("=c", "***"),
    ],
)
def test_an_option_is_shown_without_its_secret(option, shown):
    assert masked_option(option) == shown


def test_every_secret_option_of_the_driver_is_masked():
    secret = [opt.dest for opt in options.OPTS if opt.secret]
    assert {"ssl_key_password", "proxy"} <= set(secret)
    assert [masked_option(f"{name}=x") for name in secret] == [f"{name}=***" for name in secret]
    shown = ("ssl_key_file", "token_life", "token_scope", "token_provider", "passive")
    assert [masked_option(f"{name}=x") for name in shown] == [f"{name}=x" for name in shown]


def test_a_url_within_a_text():
    url = "amqp://u:p/w@h"
    assert scrubbed(f"no scheme in {url!r}", url) == "no scheme in 'amqp://***'"
    assert scrubbed("as it is", "") == "as it is"


#: begins with what is nowhere else in a URL
SECRETS = st.text(max_size=12).map(lambda text: "Zq" + text)
QUOTED = st.sampled_from([lambda text: text, quote, quote_plus, lambda t: quote(t, safe="")])
USERS = st.sampled_from(["", "nova", "a%40b", "no va"])
PLACES = st.sampled_from(["h", "h1:5672", "[::1]:5672", "", "10.0.0.1:x", "a b", "h/"])
OPTIONS = st.sampled_from(["ssl_key_password", "proxy", "SSL_KEY_PASSWORD", "ssl_key_passwort"])


@st.composite
def urls(draw):
    """A URL, proper or not, with a secret at least in one place, and all spellings of it."""
    secret = draw(SECRETS)
    spelled = draw(QUOTED)(secret)
    hosts = [draw(PLACES) for _ in range(draw(st.integers(0, 3)))]
    at = draw(st.integers(0, len(hosts)))
    hosts.insert(at, f"{draw(USERS)}:{spelled}@{draw(PLACES)}")
    query = draw(st.sampled_from(["", "?ssl=true", "?ssl", "?x=a&y=b"]))
    if draw(st.booleans()):
        if draw(st.booleans()):
            hosts.pop(at)
        query += f"{'&' if query else '?'}{draw(OPTIONS)}={spelled}"
        query += draw(st.sampled_from(["", "&ssl=true"]))
    scheme = draw(
        st.sampled_from(
            ["amqp://", "amqp+oslo://", "rabbit://", "proton:amqp://", "amqp:", "", "://"]
        )
    )
    path = draw(st.sampled_from(["", "/", "/vh", "/a%2Fb", "/a b"]))
    return scheme + ",".join(hosts) + path + query, secret, spelled


@given(urls())
@example(("amqp://u:12,Zq@h", "12,Zq", "12,Zq"))
@example(("amqp://u:Zq@h,b:c@h", "Zq@h,b:c", "Zq@h,b:c"))
def test_no_secret_is_ever_shown(made):
    url, secret, spelled = made
    shown = masked(url)
    assert secret not in shown
    assert spelled not in shown
    # nor does a mask make room for more at the second time
    assert secret not in masked(shown)


@given(st.text(), st.text(min_size=3))
def test_no_text_is_too_odd(text, secret):
    url = f"amqp://user:{secret}@{text}"
    assume(secret not in "amqp://user:***@" + text)
    assert secret not in masked(url)
    masked(text)


# -- values that lie elsewhere -----------------------------------------------------------------


def test_a_value_may_lie_in_the_environment_or_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("BUS", "amqp://u:pw@h")
    (tmp_path / "url").write_text("amqp://u:pw@h2\n")
    assert masking.given("env:BUS") == "amqp://u:pw@h"
    assert masking.given(f"file:{tmp_path}/url") == "amqp://u:pw@h2"
    assert masking.given("amqp://h") == "amqp://h"


def test_what_is_not_there_is_named(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="env:NOBODY_SETS_THIS: there is no such variable"):
        masking.given("env:NOBODY_SETS_THIS")
    with pytest.raises(ValueError, match="file:/nowhere: No such file or directory"):
        masking.given("file:/nowhere")
    with pytest.raises(ValueError, match="bytes: no UTF-8"):
        masking.given(f"file:{tmp_path}/bytes")
