# SPDX-License-Identifier: Apache-2.0
"""The outline of encoded values: literals after AMQP 1.0 part 1, and the decoder as the judge."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.wire.outline import (
    MAP,
    read_bytes,
    read_compound,
    read_descriptor,
    read_uint,
    value_end,
    write_uint,
)
from amqp1_driver.wire.types import WireError, decode

FIELDS = [b"\x40", b"\x52\x07", b"\xa1\x01a", b"\x70\x00\x00\x01\x00"]


@pytest.mark.parametrize(
    "literal",
    [
        "40",
        "50 07",
        "60 0102",
        "70 00000100",
        "80 0000000000000001",
        "98 00112233445566778899aabbccddeeff",
        "a1 02 6869",
        "b1 00000002 6869",
        "45",
        "c0 02 01 41",
        "d1 00000006 00000002 43 44",
        "e0 04 02 50 0102",
        "f0 00000007 00000002 50 0102",
        "00 53 24 45",
        "00 a3 01 61 40",
    ],
)
def test_a_value_ends_where_its_constructor_says(literal):
    data = bytes.fromhex(literal)
    assert value_end(b"\xff" + data + b"\xff", 1) == 1 + len(data)


@pytest.mark.parametrize("literal", ["", "10", "70 0000", "a1 05 61", "00 53", "c0 ff 01 40"])
def test_values_that_are_none_or_cut_short_are_wire_errors(literal):
    with pytest.raises(WireError):
        value_end(bytes.fromhex(literal), 0)


def test_a_list_and_a_map_are_their_encoded_parts():
    body = b"".join(FIELDS)
    short = bytes((0xC0, len(body) + 1, 4)) + body
    long = bytes.fromhex("d0 0000000f 00000004") + body
    assert read_compound(short + b"\xff", 0) == (FIELDS, len(short))
    assert read_compound(long, 0) == (FIELDS, len(long))
    assert read_compound(b"\x45", 0) == ([], 1)
    assert read_compound(b"\xc1" + short[1:], 0, MAP) == (FIELDS, len(short))


@pytest.mark.parametrize(
    "literal",
    [
        "c0 02 02 40",  # fewer than it says
        "c0 03 01 40 40",  # more than it says
        "c0 04 03 40 70 00",  # the second field goes beyond the end of the list
        "c0 04 03 40 70 00 00 00 00 40",  # and there are bytes behind it
        "c1 03 02 40 40",  # a map
        "a1 01 61",
        "c0",
    ],
)
def test_lists_that_are_none_are_wire_errors(literal):
    with pytest.raises(WireError):
        read_compound(bytes.fromhex(literal), 0)


def test_a_map_has_a_value_for_each_key():
    with pytest.raises(WireError):
        read_compound(bytes.fromhex("c1 02 01 40"), 0, MAP)
    with pytest.raises(WireError, match="no map"):
        read_compound(b"\x45", 0, MAP)


def test_descriptors():
    assert read_descriptor(bytes.fromhex("00 53 70 45"), 0) == (0x70, 3)
    assert read_descriptor(bytes.fromhex("00 80 0000000000000070 45"), 0) == (0x70, 10)
    assert read_descriptor(bytes.fromhex("00 a3 01 61 45"), 0) == (-1, 4)
    for bad in (b"", b"\x40", b"\x00", b"\x00\x80\x00"):
        with pytest.raises(WireError):
            read_descriptor(bad, 0)


def test_contents_of_texts():
    assert read_bytes(b"\x40") is None
    assert read_bytes(b"\xa1\x01a") == read_bytes(b"\xb3\x00\x00\x00\x01a") == b"a"
    with pytest.raises(WireError):
        read_bytes(b"\x43")


@pytest.mark.parametrize(
    ("value", "literal"),
    [(0, "43"), (255, "52 ff"), (256, "70 00000100"), (2**32 - 1, "70 ffffffff")],
)
def test_uints(value, literal):
    assert write_uint(value) == bytes.fromhex(literal)
    assert read_uint(bytes.fromhex(literal)) == value


def test_other_types_are_no_uints():
    assert read_uint(b"\x40") is None
    with pytest.raises(WireError):
        read_uint(b"\x55\x01")


@given(st.binary(max_size=48))
def test_the_decoder_agrees_on_the_end_and_on_the_parts(data):
    try:
        value, end = decode(data)
    except WireError:
        return
    assert value_end(data, 0) == end
    if isinstance(value, list):
        elements, behind = read_compound(data, 0)
        assert (len(elements), behind) == (len(value), end)
