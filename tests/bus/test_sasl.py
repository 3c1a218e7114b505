# SPDX-License-Identifier: Apache-2.0

"""The server side of SASL, frame by frame (AMQP 1.0 5.3); the frames are literals."""

from __future__ import annotations

import pytest

from amqp1_driver.bus.sasl import SaslServer, State

AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
OFFERS_PLAIN = bytes.fromhex("00000018 02 01 0000 0053 40 c0 0b 01 e0 08 01 a3 05") + b"PLAIN"
OFFERS_ANONYMOUS = (
    bytes.fromhex("0000001c 02 01 0000 0053 40 c0 0f 01 e0 0c 01 a3 09") + b"ANONYMOUS"
)
ACCEPTED = bytes.fromhex("00000010 02 01 0000 0053 44 c0 03 01 50 00")
REFUSED = bytes.fromhex("00000010 02 01 0000 0053 44 c0 03 01 50 01")
EMPTY_CHALLENGE = bytes.fromhex("00000010 02 01 0000 0053 42 c0 03 01 a0 00")


def frame(code: int, *fields: bytes) -> bytes:
    body = b"".join(fields)
    performative = bytes((0, 0x53, code, 0xC0, len(body) + 1, len(fields))) + body
    return (len(performative) + 8).to_bytes(4, "big") + b"\x02\x01\x00\x00" + performative


def init(mechanism: str, response: bytes | None) -> bytes:
    name = b"\xa3" + bytes((len(mechanism),)) + mechanism.encode()
    answer = b"\x40" if response is None else b"\xa0" + bytes((len(response),)) + response
    return frame(0x41, name, answer)


def response(data: bytes) -> bytes:
    return frame(0x43, b"\xa0" + bytes((len(data),)) + data)


def taken(server: SaslServer) -> bytes:
    output = bytes(server.output)
    server.output.clear()
    return output


def test_without_users_anonymous_is_offered_and_welcome() -> None:
    server = SaslServer({})
    server.feed(SASL)
    assert taken(server) == SASL + OFFERS_ANONYMOUS
    server.feed(init("ANONYMOUS", b"me"))
    assert taken(server) == ACCEPTED
    assert (server.state, server.user) == (State.DONE, "anonymous")


def test_the_right_password_is_accepted_and_the_rest_handed_on() -> None:
    server = SaslServer({"joe": "secret"})
    server.feed(SASL)
    assert taken(server) == SASL + OFFERS_PLAIN
    assert server.feed(init("PLAIN", b"\0joe\0secret") + AMQP + b"more") == AMQP + b"more"
    assert taken(server) == ACCEPTED
    assert server.user == "joe"


def test_input_may_come_byte_by_byte() -> None:
    server = SaslServer({"joe": "secret"})
    rest = b""
    for byte in SASL + init("PLAIN", b"\0joe\0secret") + AMQP:
        rest += server.feed(bytes((byte,)))
        if server.state is State.DONE and rest:
            break
    assert server.state is State.DONE


@pytest.mark.parametrize(
    "credentials",
    [b"\0joe\0wrong", b"\0jim\0secret", b"\0joe\0", b"", b"\0joe", b"a\0joe\0secret\0x"],
)
def test_wrong_credentials_get_the_outcome_auth(credentials: bytes) -> None:
    server = SaslServer({"joe": "secret"})
    server.feed(SASL)
    taken(server)
    assert server.feed(init("PLAIN", credentials) + AMQP) == b""
    assert taken(server) == REFUSED
    assert (server.state, server.user) == (State.FAILED, None)


def test_a_mechanism_that_was_not_offered_gets_the_outcome_auth() -> None:
    server = SaslServer({"joe": "secret"})
    server.feed(SASL)
    taken(server)
    server.feed(init("ANONYMOUS", b""))
    assert taken(server) == REFUSED


def test_plain_without_initial_response_is_asked_for_it() -> None:
    server = SaslServer({"joe": "secret"})
    server.feed(SASL)
    taken(server)
    server.feed(init("PLAIN", None))
    assert taken(server) == EMPTY_CHALLENGE
    server.feed(response(b"\0joe\0secret"))
    assert taken(server) == ACCEPTED


def test_a_client_certificate_is_a_name_by_external() -> None:
    server = SaslServer({}, external="client.example")
    assert server.mechanisms == ["EXTERNAL"]
    server.feed(SASL + init("EXTERNAL", b""))
    assert (server.state, server.user) == (State.DONE, "client.example")


def test_with_users_and_certificates_both_are_offered() -> None:
    assert SaslServer({"joe": "x"}, external="c").mechanisms == ["EXTERNAL", "PLAIN"]


def test_a_client_without_sasl_is_welcome_where_nobody_must_authenticate() -> None:
    server = SaslServer({})
    assert server.feed(AMQP) == AMQP
    assert server.state is State.DONE


def test_a_client_without_sasl_is_refused_where_users_are_required() -> None:
    server = SaslServer({"joe": "secret"})
    server.feed(AMQP)
    assert (server.state, taken(server)) == (State.FAILED, SASL)


@pytest.mark.parametrize("hello", [b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x01"])
def test_foreign_bytes_are_answered_with_the_header_that_is_spoken(hello: bytes) -> None:
    server = SaslServer({})
    server.feed(hello)
    assert (server.state, taken(server)) == (State.FAILED, SASL)


@pytest.mark.parametrize(
    "garbage",
    [
        bytes.fromhex("00000010 02 00 0000 0053 41 c0 03 01 50 00"),  # an AMQP frame
        bytes.fromhex("00000007 02 01 0000"),  # shorter than its header
        bytes.fromhex("7fffffff 02 01 0000"),  # longer than 512 bytes
        bytes.fromhex("00000010 02 01 0000 0053 43 c0 03 01 a0 00"),  # response before init
        bytes.fromhex("0000000c 02 01 0000 0053 41 45"),  # init without fields
        bytes.fromhex("0000000c 02 01 0000 ffffffff"),
    ],
)
def test_frames_that_make_no_sense_end_the_connection(garbage: bytes) -> None:
    server = SaslServer({"joe": "secret"})
    server.feed(SASL + garbage)
    assert server.state is State.FAILED
