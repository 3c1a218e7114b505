# SPDX-License-Identifier: Apache-2.0

"""Recognised messages are the same as decoded ones; what is not alike is decoded in full."""

import pytest

from amqp1_driver.codec import Decoder, decode_message
from amqp1_driver.codec import shapes as module
from amqp1_driver.exceptions import DecodeError

# AMQP 1.0 3.2: header (durable null, priority null, ttl uint), properties (message-id, user-id,
# to, subject, reply-to), amqp-value
_HEAD = bytes.fromhex("00 53 70 c0 08 03 40 40 70")
_BETWEEN = bytes.fromhex("00 53 73 d0 00 00 00 14 00 00 00 05 a1 04")
_FIELDS = bytes.fromhex("40 a1 01") + b"q" + bytes.fromhex("40 a1 03")


def request(ttl: int, message_id: bytes, reply_to: bytes, body: bytes) -> bytes:
    return (
        _HEAD
        + ttl.to_bytes(4, "big")
        + _BETWEEN
        + message_id
        + _FIELDS
        + reply_to
        + b"\x00\x53\x77\xa1"
        + bytes((len(body),))
        + body
    )


def reply(correlation_id: bytes, value: bytes) -> bytes:
    return (
        bytes.fromhex("00 53 73 d0 00 00 00 12 00 00 00 06 40 40 a1 02")
        + b"me"
        + bytes.fromhex("40 40 a1 04")
        + correlation_id
        + value
    )


@pytest.fixture
def full(monkeypatch):
    """The messages that were decoded in full."""
    seen = []

    def decode(data):
        seen.append(data)
        return decode_message(data)

    monkeypatch.setattr(module, "decode_message", decode)
    return seen


def test_the_second_request_is_recognised(full):
    decoder = Decoder()
    decoder.decode(request(5000, b"id-1", b"r/1", b"one"))
    message = decoder.decode(request(7, b"id-2", b"r/2", b"another"))
    assert len(full) == 1
    assert (message.ttl_ms, message.message_id, message.reply_to, message.body) == (
        7,
        "id-2",
        "r/2",
        b"another",
    )
    assert message.message_id_raw == b"\xa1\x04id-2"
    assert (message.to, message.subject, message.correlation_id) == ("q", None, None)
    assert (message.durable, message.redelivered, message.application_properties) == (
        False,
        False,
        {},
    )


def test_a_time_to_live_of_zero_is_not_that_of_the_first(full):
    decoder = Decoder()
    decoder.decode(request(5000, b"id-1", b"r/1", b"one"))
    assert decoder.decode(request(0, b"id-2", b"r/2", b"two")).ttl_ms == 0
    assert len(full) == 1


def test_replies(full):
    decoder = Decoder()
    assert decoder.decode(reply(b"id-1", b"\x00\x53\x77\xa1\x03abc")).body == b"abc"
    message = decoder.decode(reply(b"id-2", b"\x00\x53\x77\xb1\x00\x00\x00\x02de"))
    assert (
        message.correlation_id,
        message.to,
        message.message_id,
        message.message_id_raw,
        message.body,
    ) == ("id-2", "me", None, None, b"de")
    assert len(full) == 1
    # a heartbeat: the body is null
    assert decoder.decode(reply(b"id-3", b"\x00\x53\x77\x40")).body is None
    assert len(full) == 2


def test_a_large_body_is_not_copied(full):
    decoder = Decoder()
    decoder.decode(reply(b"id-1", b"\x00\x53\x77\xa1\x03abc"))
    data = reply(b"id-2", b"\x00\x53\x77\xb1\x00\x01\x00\x00" + bytes(65536))
    body = decoder.decode(data).body
    assert type(body) is memoryview and body.obj is data and len(body) == 65536
    assert len(full) == 1


@pytest.mark.parametrize(
    "data",
    [
        request(5000, b"id-1", b"r/1", b"one"),
        reply(b"id-1", b"\x00\x53\x77\xb1\x00\x00\x00\x03abc"),
        reply(b"id-1", b"\x00\x53\x75\xa0\x03abc"),
        # as a broker sends it on: more of a header, annotations, application properties
        bytes.fromhex("00 53 70 c0 07 05 41 50 04 40 42 43 00 53 72 c1 06 02 a3 01 61 a1 00")
        + bytes.fromhex("00 53 73 c0 09 01 a1 06")
        + b"abcdef"
        + bytes.fromhex("00 53 74 c1 05 02 a1 01 6b 41 00 53 77 a1 01 7a"),
    ],
    ids=["request", "reply", "data", "broker"],
)
def test_each_change_of_a_byte_is_seen_as_by_the_full_decoder(data):
    """Whatever comes after a message that was learned: the same result or the same error."""
    for at in range(len(data)):
        for value in (0x00, 0x01, 0x40, 0x41, 0x53, 0xA1, 0xB1, 0xFF, data[at] ^ 1):
            other = data[:at] + bytes((value,)) + data[at + 1 :]
            decoder = Decoder()
            decoder.decode(data)
            assert outcome(decoder.decode, other) == outcome(decode_message, other)
            assert outcome(decoder.decode, data[:at]) == outcome(decode_message, data[:at])


def outcome(decode, data):
    try:
        message = decode(data)
    except DecodeError as error:
        return str(error)
    return [getattr(message, name) for name in type(message).__annotations__]


def test_messages_that_are_never_alike_are_seldom_learned(monkeypatch):
    learned = []
    monkeypatch.setattr(module, "Outline", lambda data: learned.append(data) or outline(data))
    decoder = Decoder()
    # of the same size, and the address, which should be constant, is never the same
    for number in range(2048):
        decoder.decode(
            reply(b"id-1", b"\x00\x53\x77\xa1\x01x").replace(
                b"me", bytes((33 + number // 60, 33 + number % 60))
            )
        )
    assert len(learned) == 12  # after 0, 1, 3, 7 … 2047 of them


outline = module.Outline


def test_the_shapes_are_bounded(full):
    decoder = Decoder()
    for size in range(20, 200):
        # the key of a shape is within these digits
        content = (b"%03d" % size * 70)[:size]
        data = (
            bytes.fromhex("00 53 73 c0")
            + bytes((size + 3, 1, 0xA1, size))
            + content
            + b"\x00\x53\x77\xa1\x01x"
        )
        assert [decoder.decode(data).message_id for _ in range(2)] == [content.decode()] * 2
    assert len(full) == 180  # each was learned
    assert len(decoder._shapes) <= 64


# -- what a strange message must not teach -----------------------------------------------------

#: properties with an id of four bytes and "to"
_ADDRESSED = bytes.fromhex("00 53 73 c0 0b 03 a1 04") + b"id-1" + bytes.fromhex("40 a1 01")
_BODY = bytes.fromhex("00 53 77 a1 02") + b"{}"


@pytest.mark.parametrize("behind", [_ADDRESSED + b"z", b"\x00\x53\x78\xc1\x01\x00"])
def test_what_stands_behind_the_body_is_of_that_message_alone(behind):
    decoder = Decoder()
    decoder.decode(_ADDRESSED + b"q" + _BODY + behind)
    assert decoder.decode(_ADDRESSED + b"q" + _BODY).to == "q"


def test_a_header_behind_the_properties_teaches_nothing():
    decoder = Decoder()
    header = _HEAD + (5000).to_bytes(4, "big")
    strange, usual = _ADDRESSED + b"q" + header + _BODY, header + _ADDRESSED + b"q" + _BODY
    for data in (strange, usual, strange):
        message = decoder.decode(data)
        assert (message.to, message.ttl_ms, message.body) == ("q", 5000, b"{}")


def test_of_two_properties_neither_is_learned(full):
    decoder = Decoder()
    data = _ADDRESSED + b"p" + _ADDRESSED + b"q" + _BODY
    decoder.decode(data)
    decoder.decode(data)
    assert len(full) == 2
