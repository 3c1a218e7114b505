# SPDX-License-Identifier: Apache-2.0


"""Tokens: expected values were made with openssl, not with the code under test."""

import datetime
import random

import pytest

from amqp1_driver.policy import tokens

RESOURCE = "amqp://ns.servicebus.windows.net/queue"
SIGNED = "SharedAccessSignature sr=amqp%3A%2F%2Fns.servicebus.windows.net%2Fqueue&sig="


def test_a_shared_access_signature():
    token = tokens.sas(RESOURCE, "Root Rule", "c2VjcmV0+key=", 1700000000.9, 3600)
    assert token.text == (
        SIGNED + "WinunZjr9wMBgj%2FTZTO9Df5oX%2B5yU82Wt0LkBrGs0p0%3D&se=1700003600&skn=Root+Rule"
    )
    assert (token.type, token.expires) == ("servicebus.windows.net:sastoken", 1700003600.0)


def test_a_token_lives_for_a_second_at_least():
    assert tokens.sas(RESOURCE, "r", "k", 100.0, 0.2).expires == 101.0


def test_a_token_is_not_shown():
    assert "sig=" not in repr(tokens.sas(RESOURCE, "r", "k", 100.0, 60))


def test_renewal_comes_after_two_thirds_to_three_quarters_of_the_life():
    rng = random.Random(1)
    times = [tokens.renewal(1100.0, 1000.0, rng) for _ in range(200)]
    assert min(times) >= 67.5
    assert max(times) <= 75.0
    assert max(times) - min(times) > 5


def test_what_has_expired_is_renewed_at_once():
    assert tokens.renewal(1000.0, 1001.0, random.Random(1)) == 0.0


@pytest.mark.parametrize(
    ("left", "delay", "expected"),
    [(900, 4.0, 4.0), (6, 4.0, 2.0), (0.03, 4.0, 0.05), (-1, 4.0, 0.05)],
)
def test_a_failed_renewal_is_tried_again_before_the_end(left, delay, expected):
    assert tokens.after_failure(1000.0 + left, 1000.0, delay) == pytest.approx(expected)


EXPIRY = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (("t", "jwt", 1700000000), tokens.Token("t", "jwt", 1700000000.0)),
        ((b"t", "jwt", 1.5), tokens.Token("t", "jwt", 1.5)),
        (("t", "jwt", EXPIRY), tokens.Token("t", "jwt", 1767225600.0)),
    ],
)
def test_what_a_provider_may_return(answer, expected):
    assert tokens.checked(answer) == expected


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "must return .token, type, expiry."),
        (("t", "jwt"), "must return .token, type"),
        (("", "jwt", 1), "as text"),
        (("t", None, 1), "as text"),
        ((1, "jwt", 1), "as text"),
        (("t", "", 1), "as text"),
        (("t", "jwt", "soon"), "seconds since 1970"),
        (("t", "jwt", True), "seconds since 1970"),
        (("t", "jwt", float("inf")), "seconds since 1970"),
        (("t", "jwt", float("nan")), "seconds since 1970"),
        (("t", "jwt", 10**400), "seconds since 1970"),
        (("t", "jwt", -1.0), "seconds since 1970"),
    ],
)
def test_what_it_may_not(answer, reason):
    with pytest.raises(ValueError, match=reason):
        tokens.checked(answer)


def test_a_provider_is_named_by_its_path():
    assert tokens.provider("datetime:datetime.fromisoformat")("2026-01-01").year == 2026


@pytest.mark.parametrize(
    "path",
    ["no.such.module:function", "datetime:nothing", "datetime", "", ":x", "datetime:MINYEAR"],
)
def test_a_provider_that_is_none(path):
    with pytest.raises(ValueError, match=path or "can't be loaded"):
        tokens.provider(path)
