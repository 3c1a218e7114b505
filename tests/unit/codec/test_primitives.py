# SPDX-License-Identifier: Apache-2.0

"""Primitive types. Bytes are from AMQP 1.0 part 1, by hand, or from proton.Data (marked)."""

import collections
import datetime
import struct
import types as pytypes
import uuid

import pytest

from amqp1_driver.codec import primitives as p
from amqp1_driver.codec.encoder import compound, text, variable
from amqp1_driver.exceptions import DecodeError

UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def h(text: str) -> bytes:
    return bytes.fromhex(text)


# value, its encoding: what we write and what we read
BOTH_WAYS = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (0, "44"),
    (1, "53 01"),
    (255, "53 ff"),
    (256, "80 0000000000000100"),
    (2**64 - 1, "80 ffffffffffffffff"),
    (-1, "55 ff"),
    (-128, "55 80"),
    (-129, "81 ffffffffffffff7f"),
    (-(2**63), "81 8000000000000000"),
    (1.5, "82 3ff8000000000000"),  # proton
    ("", "a1 00"),
    ("URL", "a1 03 55524c"),  # 1.2, figure of a string
    ("€", "a1 03 e282ac"),
    ("x" * 255, "a1 ff" + "78" * 255),
    ("x" * 256, "b1 00000100" + "78" * 256),
    (b"\x00\xff", "a0 02 00ff"),
    (b"x" * 256, "b0 00000100" + "78" * 256),
    (p.Symbol("s"), "a3 01 73"),  # proton
    (p.Symbol("s" * 256), "b3 00000100" + "73" * 256),
    (UUID, "98 00112233445566778899aabbccddeeff"),
    (p.Char("€"), "73 000020ac"),  # proton
    (p.Timestamp(1), "83 0000000000000001"),  # proton
    (p.Timestamp(-1), "83 ffffffffffffffff"),
    (p.Float(0.5), "72 3f000000"),  # proton
    (p.Decimal(b"\0\0\0\x01"), "74 00000001"),  # proton
    (p.Decimal(b"\0" * 7 + b"\x01"), "84 0000000000000001"),  # proton
    (p.Decimal(b"0" * 16), "94 30303030303030303030303030303030"),  # proton
    ([], "45"),
    ([1, "x", None], "c0 07 03 5301 a10178 40"),
    ([[]], "c0 02 01 45"),
    ({}, "c1 01 00"),
    ({"a": [], "b": {}}, "c1 0b 04 a10161 45 a10162 c10100"),
    (p.Described(p.Symbol("d"), 5), "00 a30164 5305"),
]


@pytest.mark.parametrize(("value", "encoded"), BOTH_WAYS, ids=lambda v: repr(v)[:40])
def test_values_are_written_and_read_as_in_the_specification(value, encoded):
    assert p.encode(value) == h(encoded)
    read, end = p.decode(h(encoded), 0)
    assert read == value
    assert type(read) in (type(value), int, float)
    assert end == len(h(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (p.UByte(200), "50 c8"),  # all of these: proton
        (p.UShort(60000), "60 ea60"),
        (p.UInt(0), "43"),
        (p.UInt(1), "52 01"),
        (p.UInt(300), "70 0000012c"),
        (p.ULong(0), "44"),
        (p.ULong(2**63), "80 8000000000000000"),
        (p.Byte(-1), "51 ff"),
        (p.Short(-2), "61 fffe"),
        (p.Int(5), "54 05"),
        (p.Int(-70000), "71 fffeee90"),
        (p.Long(-5), "55 fb"),
        (p.Long(2**40), "81 0000010000000000"),
    ],
    ids=repr,
)
def test_typed_integers_keep_their_type_on_the_wire(value, encoded):
    assert p.encode(value) == h(encoded)
    read, _ = p.decode(h(encoded), 0)
    assert read == int(value)
    assert type(read) is int


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("56 00", False),
        ("56 01", True),
        ("b0 00000001 61", b"a"),
        ("b1 00000001 61", "a"),
        ("b3 00000001 61", p.Symbol("a")),
        ("d0 00000006 00000001 55 01", [1]),  # proton
        ("d0 00000004 00000000", []),
        ("c0 01 00", []),
        ("d1 00000008 00000002 a10161 45", {"a": []}),  # proton
        ("f0 0000000d 00000002 71 00000001 fffffffe", [1, -2]),  # proton
        ("f0 0000000e 00000001 00 a30174 b3 00000001 61", [p.Described("t", "a")]),  # proton
        ("e0 04 02 50 01 02", [1, 2]),
        ("e0 02 03 43", [0, 0, 0]),
        ("e0 06 02 c0 0100 0100", [[], []]),
        ("00 80 0000000000000070 45", p.Described(0x70, [])),
    ],
)
def test_other_encodings_of_values_are_read(encoded, value):
    assert p.decode(h(encoded), 0) == (value, len(h(encoded)))


def test_the_book_of_the_specification_is_read():
    # 1.4, figure of a described list with an array in it
    data = (
        h("00 a3 11")
        + b"example:book:list"
        + h("c0 40 03")
        + h("a1 15")
        + b"AMQP for & by Dummies"
        + h("e0 25 02 a1 0e")
        + b"Rob J. Godfrey"
        + h("13")
        + b"Rafael H. Schloming"
        + h("40")
    )
    assert p.decode(data, 0)[0] == p.Described(
        "example:book:list",
        ["AMQP for & by Dummies", ["Rob J. Godfrey", "Rafael H. Schloming"], None],
    )


def test_values_are_read_at_an_offset():
    assert p.decode(h("40 a1 01 61 41"), 1) == ("a", 4)


@pytest.mark.parametrize(
    ("array", "encoded"),
    [
        (p.Array((1, -2), p.Int), "f0 0000000d 00000002 71 00000001 fffffffe"),  # proton
        (p.Array(("a", "bc"), p.Symbol), "f0 00000010 00000002 b3 00000001 61 00000002 6263"),
        (p.Array(("€",), str), "f0 0000000c 00000001 b1 00000003 e282ac"),
        (p.Array((b"a",), bytes), "f0 0000000a 00000001 b0 00000001 61"),
        (p.Array((True, False), bool), "f0 00000007 00000002 56 01 00"),
        (p.Array((UUID,), uuid.UUID), "f0 00000015 00000001 98 00112233445566778899aabbccddeeff"),
        (p.Array((), p.ULong), "f0 00000005 00000000 80"),
    ],
)
def test_arrays_have_one_constructor_for_all_items(array, encoded):
    assert p.encode(array) == h(encoded)


def test_short_compound_values_use_short_forms_up_to_the_limit():
    # size is one byte and counts the count: 254 bytes of items are the most
    assert compound(0xC0, 254, b"\x40" * 254) == h("c0 ff fe") + b"\x40" * 254
    assert compound(0xC0, 255, b"\x40" * 255) == h("d0 00000103 000000ff") + b"\x40" * 255
    assert compound(0xC1, 256, b"") == h("d1 00000004 00000100")
    assert variable(0xA0, b"") == h("a0 00")
    assert text("a") == h("a1 01 61")


def test_relatives_of_known_python_types_are_encoded_like_them():
    class Text(str):
        pass

    assert p.encode(Text("a")) == h("a1 01 61")
    assert p.encode(collections.OrderedDict(a=None)) == h("c1 05 02 a10161 40")
    assert p.encode(pytypes.MappingProxyType({"a": None})) == h("c1 05 02 a10161 40")
    assert p.encode((None,)) == h("c0 02 01 40")
    assert p.encode(bytearray(b"a")) == p.encode(memoryview(b"a")) == h("a0 01 61")


def test_an_aware_datetime_is_a_timestamp():
    moment = datetime.datetime(
        1970, 1, 1, 1, 0, 1, 500000, datetime.timezone(datetime.timedelta(hours=1))
    )
    assert p.encode(moment) == h("83 00000000000005dc")


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        p.UByte(256),
        p.UInt(-1),
        p.Int(2**31),
        p.Float(1e300),
        p.Symbol("€"),
        p.Decimal(b"123"),
        datetime.datetime(2020, 1, 1),
        "\ud800",
        p.Array((300,), p.UByte),
        p.Array(("x",), p.UInt),
    ],
    ids=repr,
)
def test_values_outside_their_type_cannot_be_written(value):
    with pytest.raises(ValueError):
        p.encode(value)


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, p.Array((), object)])
def test_values_without_an_amqp_type_cannot_be_written(value):
    with pytest.raises(TypeError):
        p.encode(value)


def test_what_contains_itself_cannot_be_written():
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested deeper"):
        p.encode(loop)


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        ("", "index"),
        ("3f", "unknown type 0x3f"),
        ("46", "unknown type 0x46"),
        ("53", "unpack"),
        ("80 00", "unpack"),
        ("a1", "index"),
        ("a1 05 61", "behind the end"),
        ("b1 ffffffff 61", "behind the end"),
        ("a1 01 ff", "utf-8"),
        ("a3 01 80", "ascii"),
        ("73 00110000", "chr"),
        ("98 00", "16"),
        ("74 00", "behind the end"),
        ("c0 05 01 40", "1 items in 4 bytes"),
        ("c0 01 01 40", "1 items in 0 bytes"),
        ("c0 03 01 40 40", "size does not match"),
        ("c0 02 01 53 01", "size does not match"),
        ("d0 00000005 ffffffff 40", "4294967295 items"),
        ("c1 02 01 40", "key but no value"),
        ("c1 05 02 c0 01 00 40", "unhashable"),
        ("c1 13 02 98 00112233445566778899aabbccddeeff 40", "UUID as key"),
        ("c1 05 02 00 40 40 40", "Described as key"),
        ("e0 09 01 50 01", "behind the end"),
        ("e0 02 01 3f", "array of unknown type 0x3f"),
        ("e0 05 01 00 40 00 40", "array of unknown type 0x00"),
        ("e0 03 02 50 01", "array of 2 items in 1 bytes"),
        ("e0 04 01 50 01 02", "size does not match"),
        ("f0 00000005 00000021 40", "array of 33 items in 0 bytes"),
        ("00 40", "index"),
    ],
)
def test_malformed_values_are_decode_errors(encoded, reason):
    with pytest.raises(DecodeError, match=reason) as caught:
        p.decode(h(encoded), 0)
    assert caught.value.offset is not None


def nest(depth: int, wrap) -> bytes:
    data = b"\x40"
    for _ in range(depth):
        data = wrap(data)
    return data


NESTINGS = {
    "list8": lambda d: bytes((0xC0, len(d) + 1, 1)) + d,
    "list32": lambda d: b"\xd0" + struct.pack(">II", len(d) + 4, 1) + d,
    "map32": lambda d: b"\xd1" + struct.pack(">II", len(d) + 5, 2) + b"\x40" + d,
    "described": lambda d: b"\x00\x40" + d,
    "descriptor": lambda d: b"\x00" + d + b"\x40",
}


@pytest.mark.parametrize("wrap", NESTINGS.values(), ids=NESTINGS)
def test_nesting_is_bounded_in_both_directions(wrap):
    p.decode(nest(31, wrap), 0)
    with pytest.raises(DecodeError, match="nested deeper than 32 levels"):
        p.decode(nest(32, wrap), 0)
    if wrap is not NESTINGS["list8"]:  # its size does not reach further
        with pytest.raises(DecodeError, match="nested deeper than 32 levels"):
            p.decode(nest(5000, wrap), 0)


def test_arrays_of_arrays_are_bounded_too():
    def arrays(depth: int) -> bytes:
        data = b""  # constructor and items of the innermost array, which has none
        code = b"\x50"
        for _ in range(depth):
            data = struct.pack(">II", len(code) + len(data) + 4, 1 if data else 0) + code + data
            code = b"\xf0"
        return code + data

    assert p.decode(arrays(2), 0)[0] == [[]]
    p.decode(arrays(31), 0)
    for depth in (32, 5000):
        with pytest.raises(DecodeError, match="nested deeper than 32 levels"):
            p.decode(arrays(depth), 0)
