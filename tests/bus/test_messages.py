# SPDX-License-Identifier: Apache-2.0

"""Reading and rewriting message headers: literals from AMQP 1.0, and proton as the judge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message

from amqp1_driver.bus.messages import (
    Header,
    annotate,
    check_maps,
    read_group_id,
    read_header,
    read_to,
    rewrite_header,
    unbatch,
)
from amqp1_driver.wire.types import WireError

BODY = bytes.fromhex("0053 77 a1 02 6869")
EMPTY_HEADER = bytes.fromhex("0053 70 45")
#: list8: durable true, priority null, ttl uint 5000, first-acquirer null, delivery-count 3
FULL_HEADER = bytes.fromhex("0053 70 c0 0b 05 41 40 70 00001388 40 52 03")
#: list32, descriptor as an eight-byte ulong
LONG_HEADER = bytes.fromhex("00 80 0000000000000070 d0 00000008 00000003 40 40 52 07")
PROPERTIES = bytes.fromhex("0053 73 c0 06 03 40 40 a1 01 71")


@pytest.mark.parametrize(
    "data, header",
    [
        (BODY, Header(0, 0)),
        (EMPTY_HEADER + BODY, Header(0, 0)),
        (FULL_HEADER + BODY, Header(5000, 3)),
        (bytes.fromhex("0053 70 c0 05 05 40 40 43 40 43") + BODY, None),
    ],
)
def test_the_header_is_read(data: bytes, header: Header | None) -> None:
    if header is None:
        with pytest.raises(WireError):
            read_header(data)
    else:
        assert read_header(data) == header


def test_a_header_in_long_encodings_is_read() -> None:
    assert read_header(LONG_HEADER + BODY) == Header(7, 0)


@pytest.mark.parametrize("prefix", [b"", EMPTY_HEADER, FULL_HEADER])
def test_to_is_read_behind_any_header(prefix: bytes) -> None:
    assert read_to(prefix + PROPERTIES + BODY) == "q"


def test_annotations_before_the_properties_are_skipped() -> None:
    annotations = bytes.fromhex("0053 72 c1 05 02 a3 01 78 41")
    assert read_to(annotations + PROPERTIES + BODY) == "q"


@pytest.mark.parametrize("data", [BODY, EMPTY_HEADER, b"", bytes.fromhex("0053 73 45") + BODY])
def test_a_message_without_to_has_none(data: bytes) -> None:
    assert read_to(data) is None


def test_rewriting_sets_delivery_count_and_first_acquirer_and_keeps_the_rest() -> None:
    data = rewrite_header(FULL_HEADER + PROPERTIES + BODY, delivery_count=4)
    header = bytes.fromhex("0053 70 c0 0b 05 41 40 70 00001388 42 52 04")
    assert data == header + PROPERTIES + BODY


def test_rewriting_adds_a_header_where_there_is_none() -> None:
    header = bytes.fromhex("0053 70 c0 07 05 40 40 40 42 52 01")
    assert rewrite_header(BODY, delivery_count=1) == header + BODY


def test_rewriting_the_ttl_leaves_the_delivery_count() -> None:
    header = bytes.fromhex("0053 70 c0 08 05 41 40 52 64 40 52 03")
    assert rewrite_header(FULL_HEADER + BODY, ttl_ms=100) == header + BODY


@given(
    to=st.one_of(st.none(), st.text(st.characters(exclude_characters="\0"), min_size=1)),
    ttl=st.integers(0, 2**32 - 1),
    durable=st.booleans(),
    count=st.integers(0, 2**32 - 1),
    body=st.one_of(st.text(), st.binary(), st.lists(st.integers(-(2**63), 2**63 - 1))),
)
def test_what_proton_writes_is_read_and_what_is_rewritten_proton_reads(
    to: str | None, ttl: int, durable: bool, count: int, body: object
) -> None:
    message = Message(body=body, address=to, durable=durable, delivery_count=count, id="m")
    # half a millisecond more: proton cuts the product off, which may be just below
    message.ttl = (ttl + 0.5) / 1000
    data = bytes(message.encode())
    assert read_to(data) == to
    assert read_header(data) == Header(ttl, count)
    again = Message()
    again.decode(rewrite_header(data, delivery_count=7, ttl_ms=9))
    assert (again.delivery_count, again.first_acquirer, again.ttl) == (7, False, 0.009)
    assert (again.address, again.durable, again.id) == (to, durable, "m")


@given(st.binary(max_size=64))
def test_no_bytes_at_all_raise_anything_but_malformed(data: bytes) -> None:
    for read in (read_header, read_to, lambda d: rewrite_header(d, delivery_count=1)):
        try:
            read(data)
        except WireError:
            pass


@given(st.integers(0, len(FULL_HEADER + PROPERTIES) - 1), st.binary(max_size=8))
def test_damaged_messages_raise_malformed_or_are_read(cut: int, tail: bytes) -> None:
    try:
        read_to((FULL_HEADER + PROPERTIES)[:cut] + tail)
    except WireError:
        pass


# -- what Service Bus adds ---------------------------------------------------------

NOTES = bytes.fromhex("0053 72 c1 07 02 a3 01 61 a1 01 62")  # {a: "b"}
STRINGS = bytes.fromhex("0053 74 c1 07 02 a1 01 6b a1 01 76")  # {"k": "v"}


def test_annotations_and_properties_are_put_in_their_places() -> None:
    data = annotate(BODY, {"n": b"\x54\x05"}, {"p": "q"})
    # message annotations {n: 5}, application properties {"p": "q"}, the body
    assert (
        data
        == bytes.fromhex(
            "0053 72 d1 00000009 00000002 a3 01 6e 54 05"
            "0053 74 d1 00000010 00000002 b1 00000001 70 b1 00000001 71"
        )
        + BODY
    )


def test_what_is_there_is_kept_or_replaced() -> None:
    data = annotate(FULL_HEADER + NOTES + PROPERTIES + STRINGS + BODY, {"a": b"\x40"}, {"k": "w"})
    assert (
        data
        == FULL_HEADER
        + bytes.fromhex("0053 72 d1 00000008 00000002 a3 01 61 40")
        + PROPERTIES
        + bytes.fromhex("0053 74 d1 00000010 00000002 b1 00000001 6b b1 00000001 77")
        + BODY
    )
    message = Message()
    message.decode(annotate(NOTES + STRINGS + BODY, {"c": b"\x40"}, {"l": "x"}))
    assert {str(k): v for k, v in message.annotations.items()} == {"a": "b", "c": None}
    assert message.properties == {"k": "v", "l": "x"}
    assert message.body == "hi"


def test_nothing_to_add_changes_nothing() -> None:
    assert annotate(NOTES + BODY, {}, {}) == NOTES + BODY


@pytest.mark.parametrize(
    "section",
    [
        bytes.fromhex("0053 72 45"),  # a list
        bytes.fromhex("0053 74 c1 04 01 a1 01 61"),  # a key without a value
        bytes.fromhex("0053 72 c1 07 02 a3 01 61 a1 05 62"),  # a value that ends too late
    ],
)
def test_maps_that_are_none_are_refused(section: bytes) -> None:
    with pytest.raises(WireError):
        check_maps(section + BODY)


@given(st.binary(max_size=60), st.sampled_from([b"", NOTES, STRINGS, FULL_HEADER]))
def test_what_was_checked_can_be_annotated(junk: bytes, before: bytes) -> None:
    try:
        check_maps(before + junk)
    except WireError:
        return
    assert annotate(before + junk, {"n": b"\x40"}, {"p": "q"})


def test_the_group_id_is_a_property() -> None:
    properties = bytes.fromhex("0053 73 c0 0e 0b") + b"\x40" * 10 + b"\xa1\x01g"
    assert read_group_id(properties + BODY) == "g"
    assert read_group_id(PROPERTIES + BODY) is None


def data_section(contents: bytes) -> bytes:
    return bytes.fromhex("0053 75 a0") + bytes((len(contents),)) + contents


@pytest.mark.parametrize("envelope", [b"", NOTES, PROPERTIES])
def test_a_batch_is_taken_apart(envelope: bytes) -> None:
    one, two = PROPERTIES + BODY, FULL_HEADER + data_section(b"x")
    assert unbatch(envelope + data_section(one) + data_section(two)) == [one, two]


@pytest.mark.parametrize(
    "data",
    [
        BODY,
        data_section(b"data"),
        data_section(b""),
        data_section(BODY) + data_section(b"data"),
        data_section(PROPERTIES),  # a message without a body
        data_section(BODY + PROPERTIES),  # not in their order
        data_section(BODY)[:-1],
        b"",
    ],
)
def test_anything_else_is_one_message(data: bytes) -> None:
    assert unbatch(data) == [data]
