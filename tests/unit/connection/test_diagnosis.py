# SPDX-License-Identifier: Apache-2.0

"""Failures of connections in words: amqp1_driver.connection.diagnosis."""

import pytest

from amqp1_driver.connection.diagnosis import (
    for_log,
    plain_words,
    while_connecting,
    while_opening,
)
from amqp1_driver.exceptions import (
    AuthenticationFailed,
    ConnectionFailed,
    ConnectionLost,
    TlsFailed,
)
from amqp1_driver.options import Host, default_settings

LOST = ConnectionLost("connection lost: Connection reset by peer", host="bus:5671")


def test_without_a_common_mechanism_the_allowed_ones_are_named():
    settings = default_settings(sasl_mechanisms="GSSAPI SCRAM-SHA-256")
    assert plain_words("Authentication failed [mech=none]", settings, Host("bus", 5672)) == (
        "no SASL mechanism in common with the peer; allowed here: GSSAPI SCRAM-SHA-256"
    )


@pytest.mark.parametrize(
    ("options", "foreign", "text"),
    [
        (
            {"sasl_allow_insecure_mechs": False},
            False,
            "SCRAM-SHA-512 SCRAM-SHA-256 SCRAM-SHA-1; "
            "PLAIN only with TLS (sasl_allow_insecure_mechs)",
        ),
        (
            {"sasl_allow_insecure_mechs": False, "sasl_mechanisms": "PLAIN"},
            False,
            "none; PLAIN only with TLS (sasl_allow_insecure_mechs)",
        ),
        ({}, True, "SCRAM-SHA-512 SCRAM-SHA-256 SCRAM-SHA-1; PLAIN only with TLS (redirect_hosts)"),
    ],
)
def test_where_plain_is_not_allowed_the_reason_is_named(options, foreign, text):
    host = Host("bus", 5672, "me", "secret", foreign=foreign)
    assert plain_words("[mech=none]", default_settings(**options), host) == (
        "no SASL mechanism in common with the peer; allowed here: " + text
    )


@pytest.mark.parametrize("text", [None, "", "Authentication failed [mech=PLAIN]"])
def test_other_descriptions_stay_as_they_are(text):
    assert plain_words(text, default_settings(), Host("bus", 5672)) == text


@pytest.mark.parametrize("first", [b"", b"\x15"], ids=["no word", "TLS alert"])
def test_a_peer_that_hangs_up_on_our_header_may_want_tls(first):
    found = while_opening(LOST, default_settings(), first)
    assert isinstance(found, ConnectionFailed)
    assert str(found) == (
        "connection lost: Connection reset by peer; is this a TLS port? (host=bus:5671)"
    )
    assert found.__cause__ is LOST


@pytest.mark.parametrize(
    ("ssl", "first"), [(True, b""), (False, b"A")], ids=["over TLS", "has spoken AMQP"]
)
def test_otherwise_the_error_stays_as_it_is(ssl, first):
    assert while_opening(LOST, default_settings(ssl=ssl), first) is LOST


def test_a_peer_that_hangs_up_on_the_virtual_host():
    found = while_opening(LOST, default_settings(), b"A", "prod")
    assert isinstance(found, ConnectionFailed)
    assert "is there a virtual host 'prod', and may the user use it?" in str(found)
    assert found.__cause__ is LOST


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationFailed(host="h"),
        ConnectionFailed(host="h", condition="amqp:not-allowed"),
    ],
)
def test_a_peer_that_says_why_is_not_doubted(error):
    assert while_opening(error, default_settings(), b"A", "prod") is error


@pytest.mark.parametrize("first", [b"", b"\x15"])
def test_a_host_that_has_spoken_amqp_before_is_not_asked_for_its_port(first):
    assert while_opening(LOST, default_settings(), first, known=True) is LOST


def test_a_peer_that_breaks_off_the_handshake_may_not_want_tls():
    error = TlsFailed(
        "TLS failed: the peer broke off the handshake (Connection reset by peer)", host="bus:5672"
    )
    found = while_connecting(error)
    assert isinstance(found, TlsFailed)
    assert str(found) == (
        "TLS failed: the peer broke off the handshake (Connection reset by peer)"
        "; is this a clear port? (host=bus:5672)"
    )


@pytest.mark.parametrize("error", [TlsFailed("the certificate has expired"), LOST])
def test_other_failures_before_tls_stands_stay_as_they_are(error):
    assert while_connecting(error) is error


def test_a_line_that_names_the_host_does_not_name_it_again():
    assert for_log(LOST, "bus:5671") == "connection lost: Connection reset by peer"
    assert str(LOST).endswith("(host=bus:5671)")
    assert for_log(LOST, "other:1") == str(LOST)
    assert for_log(ValueError("odd"), "bus:5671") == "odd"
