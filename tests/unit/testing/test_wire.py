# SPDX-License-Identifier: Apache-2.0
"""Expected bytes are literals after AMQP 1.0 part 1 (types) and parts 2, 3 and 5 (composites)."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.testing import frames, messages, wire
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.wire import (
    Array,
    Byte,
    Char,
    Decimal,
    Described,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    WireError,
)

LITERALS = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (UByte(7), "50 07"),
    (UShort(258), "60 0102"),
    (UInt(0), "43"),
    (UInt(255), "52 ff"),
    (UInt(256), "70 00000100"),
    (ULong(0), "44"),
    (ULong(16), "53 10"),
    (ULong(256), "80 0000000000000100"),
    (Byte(-1), "51 ff"),
    (Short(-2), "61 fffe"),
    (Int(-1), "54 ff"),
    (Int(128), "71 00000080"),
    (Long(-128), "55 80"),
    (Long(-129), "81 ffffffffffffff7f"),
    (5, "55 05"),
    (Float(1.0), "72 3f800000"),
    (1.0, "82 3ff0000000000000"),
    (Char("€"), "73 000020ac"),
    (Timestamp(1311704463521), "83 0000013167adb8a1"),
    (Decimal(b"\1\2\3\4"), "74 01020304"),
    (uuid.UUID("f275ea5e-0c57-4ad7-b11a-b20c563d3b71"), "98 f275ea5e0c574ad7b11ab20c563d3b71"),
    (b"\x00\xff", "a0 02 00ff"),
    ("é", "a1 02 c3a9"),
    (Symbol("ok"), "a3 02 6f6b"),
    ([], "45"),
    ([1, None], "c0 04 02 5501 40"),
    ({"a": True}, "c1 05 02 a10161 41"),
    ({}, "c1 01 00"),
    (Array(0xA3, [Symbol("a"), Symbol("b")]), "e0 06 02 a3 0161 0162"),
    (Array(0x70, [UInt(1), UInt(2)]), "e0 0a 02 70 00000001 00000002"),
    (Array(0x56, [True, False]), "e0 04 02 56 01 00"),
    (Described(Symbol("x:y"), "v"), "00 a303783a79 a10176"),
]


@pytest.mark.parametrize(("value", "literal"), LITERALS, ids=[text for _, text in LITERALS])
def test_primitives_have_the_encodings_of_part_1(value, literal):
    data = bytes.fromhex(literal)
    assert wire.encode(value) == data
    back, end = wire.decode(data)
    assert (back, end) == (value, len(data))
    assert wire.encode(back) == data


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("56 01", True),
        ("70 00000000", 0),
        ("80 0000000000000010", 16),
        ("d0 00000005 00000001 40", [None]),
        ("d1 00000004 00000000", {}),
        ("b1 00000001 61", "a"),
        ("b0 00000001 61", b"a"),
        ("b3 00000001 61", Symbol("a")),
        ("f0 0000000a 00000001 b3 00000001 61", Array(0xB3, [Symbol("a")])),
        ("e0 02 02 41", Array(0x41, [True, True])),
    ],
)
def test_the_longer_encodings_are_read_too(literal, value):
    assert wire.decode(bytes.fromhex(literal))[0] == value


def test_long_values_take_four_byte_sizes():
    assert wire.encode(b"x" * 256)[:5] == bytes.fromhex("b0 00000100")
    assert wire.encode("x" * 300)[:5] == bytes.fromhex("b1 0000012c")
    assert wire.encode([b"x" * 254])[:9] == bytes.fromhex("d0 00000104 00000001")


@pytest.mark.parametrize(
    "literal",
    [
        "",
        "a1 05 61",
        "a1 01 ff",
        "3f",
        "c1 02 01 40",
        "c0 02 02 40",
        "c0 03 01 40 40",
        "73 ffffffff",
        "00 53 10",
        "c1 03 02 45 40",
        "00 53 10 40",
        "f0 00000005 ffffffff 40",
    ],
)
def test_malformed_values_are_wire_errors(literal):
    with pytest.raises(WireError):
        wire.decode(bytes.fromhex(literal))


@given(st.binary(max_size=64))
def test_no_bytes_raise_anything_but_wire_errors(data):
    for read in (wire.decode, messages.decode):
        try:
            read(data)
        except WireError:
            pass
    reader = frames.FrameReader()
    reader.feed(data)
    try:
        while reader.next() is not None:
            pass
    except WireError:
        pass


@pytest.mark.parametrize("value", [UByte(256), UInt(-1), Short(40000), 2**63])
def test_numbers_that_do_not_fit_are_refused(value):
    with pytest.raises(ValueError, match="does not fit"):
        wire.encode(value)


def test_values_without_a_type_are_refused():
    with pytest.raises(TypeError, match="no AMQP type"):
        wire.encode(object())


FRAMES = [
    (
        frames.Frame(0, p.Open(container_id="c", hostname="h", channel_max=9)),
        "0000001c 02 00 0000  00 53 10 c0 0f 04 a10163 a10168 70ffffffff 600009",
    ),
    (
        frames.Frame(
            1,
            p.Begin(
                remote_channel=3,
                next_outgoing_id=0,
                incoming_window=1,
                outgoing_window=2,
                handle_max=7,
            ),
        ),
        "00000018 02 00 0001  00 53 11 c0 0b 05 600003 43 5201 5202 5207",
    ),
    (
        frames.Frame(0, p.Transfer(handle=0, delivery_id=1, delivery_tag=b"\0"), b"abc"),
        "0000001f 02 00 0000  00 53 14 c0 0f 0b 43 5201 a00100 40 40 42 40 40 42 42 42 616263",
    ),
    (
        frames.Frame(0, p.Disposition(role=True, first=1, settled=True, state=p.Accepted())),
        "00000018 02 00 0000  00 53 15 c0 0b 06 41 5201 40 41 00532445 42",
    ),
    (
        frames.Frame(0, p.Detach(handle=1, closed=True, error=p.Error(condition="a:b"))),
        "0000001c 02 00 0000  00 53 16 c0 0f 03 5201 41 00531d c0 06 01 a303613a62",
    ),
    (frames.Frame(0, p.Close()), "0000000c 02 00 0000  00 53 18 45"),
    (frames.Frame(), "00000008 02 00 0000"),
    (
        frames.Frame(0, p.SaslOutcome(outcome=1), type=frames.SASL),
        "00000010 02 01 0000  00 53 44 c0 03 01 5001",
    ),
    (
        frames.Frame(0, p.SaslMechanisms(sasl_server_mechanisms=["A", "B"]), type=frames.SASL),
        "0000001c 02 01 0000  00 53 40 c0 0f 01 e0 0c 02 b3 0000000141 0000000142",
    ),
]


@pytest.mark.parametrize(("frame", "literal"), FRAMES, ids=[str(f.performative) for f, _ in FRAMES])
def test_frames_have_the_layout_of_part_2(frame, literal):
    data = bytes.fromhex(literal)
    assert frame.encode() == data
    reader = frames.FrameReader()
    for byte in data:  # in pieces of any size
        assert reader.next() is None
        reader.feed(bytes((byte,)))
    assert reader.next() == frame
    assert reader.pending() == 0


def test_protocol_headers():
    assert frames.Header().encode() == b"AMQP\x00\x01\x00\x00"
    reader = frames.FrameReader()
    reader.feed(b"AMQP\x03\x01\x00\x00AMQP\x00\x01\x00\x00")
    assert reader.next() == frames.Header(3)
    assert reader.next() == frames.Header(0)


def test_symbolic_descriptors_mean_the_same():
    data = b"\x00" + wire.encode(Symbol("amqp:close:list")) + b"\x45"
    assert wire.decode(data)[0] == p.Close()


def test_multiple_fields_are_a_symbol_or_an_array():
    one = p.Open(container_id="c", offered_capabilities=["A"])
    assert b"\xa3\x01A" in wire.encode(one)
    for opened in (one, p.Open(container_id="c", offered_capabilities=["A", "B"])):
        assert wire.decode(wire.encode(opened))[0] == opened


@pytest.mark.parametrize(
    ("literal", "why"),
    [
        ("0000000c 02 00 0000  00 53 10 45", "mandatory"),
        ("00000010 02 00 0000  00 53 10 c0 03 01 5001", "must be string"),
        ("00000007 02 00 0000", "not an AMQP frame"),
        ("16030100 c8 01 0000", "frame of 369295616 bytes"),  # a TLS client hello
        ("0000000c 02 01 0000  00 53 18 45", "Close in a frame of type 1"),
        ("0000000a 02 00 0000  54 01", "not a performative"),
        ("00001000 02 00 0000", "512 announced"),
        ("00000010 02 00 0000  00 53 18 c0 03 02 40 40", "at most 1"),
    ],
)
def test_bad_frames_say_what_is_wrong(literal, why):
    reader = frames.FrameReader(max_frame_size=512)
    reader.feed(bytes.fromhex(literal))
    with pytest.raises(WireError, match=why):
        reader.next()


MESSAGE = (
    "00 53 70 c0 04 02 41 5004"
    "00 53 72 c1 06 02 a30161 5501"
    "00 53 73 c0 0a 03 a1026d31 40 a1027065"
    "00 53 74 c1 07 02 a1016b a10176"
    "00 53 77 a1026869"
)


def test_messages_are_sections_in_order():
    message = messages.Message(
        "hi",
        header=messages.Header(durable=True, priority=4),
        message_annotations={Symbol("a"): 1},
        properties=messages.Properties(message_id="m1", to="pe"),
        application_properties={"k": "v"},
    )
    assert message.encode() == bytes.fromhex(MESSAGE)
    assert messages.decode(bytes.fromhex(MESSAGE)) == message


def test_bodies():
    assert messages.Message(None).encode() == bytes.fromhex("00 53 77 40")
    assert messages.Message(kind=None).encode() == b""
    two = bytes.fromhex("00 53 75 a00161 00 53 75 a00162")
    assert messages.decode(two) == messages.Message(b"ab", "data")
    assert messages.decode(bytes.fromhex("00 53 76 c0 02 01 41")).body == [True]


def test_sections_out_of_order_are_an_error():
    with pytest.raises(WireError, match="0x70 after section 0x77"):
        messages.decode(bytes.fromhex("00 53 77 40 00 53 70 45"))
    with pytest.raises(WireError, match="not a message section"):
        messages.decode(b"\x40")
