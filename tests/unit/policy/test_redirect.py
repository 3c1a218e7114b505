# SPDX-License-Identifier: Apache-2.0

"""Where a redirect leads (2.8.16, 2.8.18), and which are followed."""

import pytest

from amqp1_driver.options import Host
from amqp1_driver.policy.redirect import Destinations, Redirect, Trail

HERE = Host("here", 5672, "user", "secret")


@pytest.mark.parametrize(
    ("info", "redirect"),
    [
        (
            {
                "hostname": "vm",
                "network-host": "10.0.0.1",
                "port": 5671,
                "address": "q",
                "scheme": "amqps",
            },
            Redirect("vm", "10.0.0.1", 5671, "q", "amqps"),
        ),
        ({}, Redirect()),
        (None, Redirect()),
        ("nonsense", Redirect()),
        ({"hostname": 7, "port": "x", "address": ""}, Redirect()),
        ({"port": 0}, Redirect()),
        ({"port": 65536}, Redirect()),
        ({b"hostname": memoryview(b"vm"), "network-host": b"\xff"}, Redirect("vm", "\ufffd")),
    ],
)
def test_whatever_the_peer_has_sent_is_read(info, redirect):
    assert Redirect.parse(info) == redirect


@pytest.mark.parametrize(
    ("redirect", "host"),
    [
        (Redirect(), HERE),
        (Redirect(address="elsewhere"), HERE),
        (Redirect(port=5673), Host("here", 5673, "user", "secret")),
        (Redirect(network_host="there"), Host("there", 5672, "user", "secret")),
        (Redirect("vm"), Host("vm", 5672, "user", "secret")),
        (Redirect("vm", "10.0.0.1", 5671), Host("vm", 5671, "user", "secret", "10.0.0.1")),
        (Redirect("vm", "vm"), Host("vm", 5672, "user", "secret")),
    ],
)
def test_what_it_leaves_out_is_as_here(redirect, host):
    assert redirect.target(HERE) == host
    assert redirect.elsewhere(HERE) is (host != HERE)


def test_a_port_alone_keeps_the_network_host_too():
    there = Host("vm", 5672, network="10.0.0.1")
    assert Redirect(port=1).target(there) == Host("vm", 1, network="10.0.0.1")
    assert Redirect("other").target(there) == Host("other", 5672)


@pytest.mark.parametrize(
    ("scheme", "tls", "reason"),
    [
        (None, False, None),
        (None, True, None),
        ("amqp", False, None),
        ("amqps", True, None),
        ("WSS", True, None),
        ("ws", False, None),
        ("amqp", True, "it leads away from TLS (scheme amqp)"),
        ("ws", True, "it leads away from TLS (scheme ws)"),
        ("amqps", False, "it wants TLS (scheme amqps), which is not configured"),
        ("mqtt", True, "its scheme mqtt is unknown"),
    ],
)
def test_it_never_leads_away_from_tls(scheme, tls, reason):
    assert Redirect(scheme=scheme).refusal(tls) == reason


def test_a_trail_does_not_lead_in_a_circle():
    trail = Trail()
    assert trail.step("a", "a", 0.0) == "it leads in a circle"
    assert trail.step("a", "b", 0.0) is None
    assert trail.step("b", "c", 1.0) is None
    assert trail.step("c", "a", 2.0) == "it leads in a circle"
    assert trail.step("c", "b", 2.0) == "it leads in a circle"
    # a minute later that is no circle any more
    assert trail.step("c", "a", 60.0) is None


def test_a_trail_is_not_without_end():
    trail = Trail()
    for number in range(5):
        assert trail.step(str(number), str(number + 1), 0.0) is None
    assert trail.step("5", "6", 59.9) == "there were 5 within 60 s already"
    assert trail.step("5", "6", 60.0) is None


URL = (Host("here", 5672, "user", "secret"), Host("There", 5671, "other", "word"))


@pytest.mark.parametrize(
    ("tls", "patterns", "target", "admitted"),
    [
        # a host of the URL gets its own credentials, whoever names it
        (False, (), Host("there", 5671, "user", "secret"), Host("there", 5671, "other", "word")),
        (
            False,
            (),
            Host("here", 5672, "x", "y", foreign=True),
            Host("here", 5672, "user", "secret"),
        ),
        (False, (), Host("there", 5672), None),
        (False, (), Host("else", 5672), None),
        # without TLS nothing proves the name, so that where it is has to be permitted too
        (False, (), Host("here", 5672, network="else"), None),
        (
            False,
            ("else",),
            Host("here", 5672, network="else"),
            Host("here", 5672, network="else", foreign=True),
        ),
        (False, ("else",), Host("name", 5672, network="else"), None),
        (
            True,
            (),
            Host("here", 5672, network="else"),
            Host("here", 5672, "user", "secret", network="else"),
        ),
        (True, ("else",), Host("name", 5672, network="else"), None),
        (
            True,
            ("name",),
            Host("name", 5672, network="else"),
            Host("name", 5672, network="else", foreign=True),
        ),
        # patterns
        (
            True,
            ("*.Example.org",),
            Host("A.example.ORG", 1),
            Host("A.example.ORG", 1, foreign=True),
        ),
        (True, ("a:5671",), Host("a", 5671), Host("a", 5671, foreign=True)),
        (True, ("a:5671",), Host("a", 5672), None),
        (True, ("x", "*"), Host("a", 5672), Host("a", 5672, foreign=True)),
        (True, ("10.0.?.*",), Host("10.0.11.2", 5672), None),
    ],
)
def test_where_a_redirect_may_lead(tls, patterns, target, admitted):
    assert Destinations(URL, patterns, tls).admit(target) == admitted


def test_a_target_stays_foreign_as_long_as_nothing_else_is_said():
    assert Redirect(port=1).target(Host("a", 2, foreign=True)) == Host("a", 1, foreign=True)
