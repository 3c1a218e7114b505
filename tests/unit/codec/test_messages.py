# SPDX-License-Identifier: Apache-2.0

"""Messages that are written. All expected bytes are by hand from AMQP 1.0 section 3.2."""

import uuid

import pytest

from amqp1_driver.codec import (
    Template,
    encode_data,
    encode_heartbeat,
    encode_message,
    encode_reply,
)


def h(text: str) -> bytes:
    return bytes.fromhex(text)


# properties: message-id "id-1", null user-id, to "q.t", null subject, reply-to "r"
REQUEST_PROPERTIES = h("00 53 73 d0 00000014 00000005 a1 04 69642d31 40 a1 03 712e74 40 a1 01 72")
BODY = h("00 53 77 a1 02 7b7d")


def test_a_request_has_id_address_and_reply_address_and_a_string_body():
    message = Template("q.t", "r").request("id-1", b"{}")
    assert message == REQUEST_PROPERTIES + BODY


def test_a_message_without_reply_address_ends_its_properties_at_the_address():
    assert Template("q.t", None).request("id-1", b"{}") == (
        h("00 53 73 d0 00000010 00000003 a1 04 69642d31 40 a1 03 712e74") + BODY
    )


@pytest.mark.parametrize(
    ("durable", "ttl_ms", "header"),
    [
        (False, 0, ""),
        (True, 0, "00 53 70 c0 02 01 41"),
        (False, 30000, "00 53 70 c0 08 03 40 40 70 00007530"),
        (True, 30000, "00 53 70 c0 08 03 41 40 70 00007530"),
        (False, 2**32 - 1, "00 53 70 c0 08 03 40 40 70 ffffffff"),
        (False, 2**40, "00 53 70 c0 08 03 40 40 70 ffffffff"),
        (False, -5, ""),
    ],
)
def test_the_header_has_what_is_not_the_default_and_durable_explicitly(durable, ttl_ms, header):
    message = Template("q.t", "r", durable).request("id-1", b"{}", ttl_ms)
    assert message == h(header) + REQUEST_PROPERTIES + BODY
    generic = encode_message(None, durable=durable, ttl_ms=ttl_ms)
    assert generic == h(header) + h("00 53 77 40")


def test_bodies_take_the_short_form_up_to_255_bytes():
    template = Template("q.t", "r")
    short, long = b"x" * 255, b"x" * 256
    assert template.request("id-1", b"") == REQUEST_PROPERTIES + h("00 53 77 a1 00")
    assert template.request("id-1", short) == REQUEST_PROPERTIES + h("00 53 77 a1 ff") + short
    assert template.request("id-1", long) == REQUEST_PROPERTIES + h("00 53 77 b1 00000100") + long


def test_a_large_body_is_not_copied():
    body = b"x" * 65536
    head, rest = Template("q.t", "r").request("id-1", body)
    assert head == REQUEST_PROPERTIES + h("00 53 77 b1 00010000")
    assert rest is body
    one = Template("q.t", "r").request("id-1", body[1:])
    assert one == REQUEST_PROPERTIES + h("00 53 77 b1 0000ffff") + body[1:]


def test_a_long_message_id_takes_the_long_form():
    message = Template("q.t", "r").request("i" * 256, b"{}")
    assert message == (
        h("00 53 73 d0 00000113 00000005 b1 00000100")
        + b"i" * 256
        + h("40 a1 03 712e74 40 a1 01 72")
        + BODY
    )


def test_a_compressed_request_is_binary_and_says_so():
    # correlation-id and content-type null, content-encoding gzip
    assert Template("q.t", "r").request("id-1", b"\x1f\x8b", gzip=True) == h(
        "00 53 73 d0 0000001c 00000008 a1 04 69642d31 40 a1 03 712e74 40 a1 01 72"
        "40 40 a3 04 677a6970 00 53 77 a0 02 1f8b"
    )
    assert Template("q.t", None).request("id-1", b"x" * 256, gzip=True) == (
        h("00 53 73 d0 0000001a 00000008 a1 04 69642d31 40 a1 03 712e74 40 40")
        + h("40 40 a3 04 677a6970 00 53 77 b0 00000100")
        + b"x" * 256
    )


REPLY_PROPERTIES = h("00 53 73 d0 0000000d 00000006 40 40 a1 01 72 40 40 53 07")


def test_a_reply_returns_the_encoded_message_id_as_correlation_id():
    assert encode_reply("r", h("53 07"), b"{}") == REPLY_PROPERTIES + BODY


def test_a_reply_may_have_a_time_to_live_and_be_compressed():
    assert encode_reply("r", h("40"), b"\x1f\x8b", ttl_ms=10, gzip=True) == h(
        "00 53 70 c0 08 03 40 40 70 0000000a"
        "00 53 73 d0 00000013 00000008 40 40 a1 01 72 40 40 40 40 a3 04 677a6970"
        "00 53 77 a0 02 1f8b"
    )


def test_a_reply_may_have_a_group():
    assert (
        encode_reply("r", h("53 07"), b"{}", group="g")
        == h("00 53 73 d0 00000014 0000000b 40 40 a1 01 72 40 40 53 07 40 40 40 40 a1 01 67") + BODY
    )
    assert encode_reply("r", h("40"), b"\x1f\x8b", gzip=True, group="g") == h(
        "00 53 73 d0 00000018 0000000b 40 40 a1 01 72 40 40 40 40 a3 04 677a6970 40 40 a1 01 67"
        "00 53 77 a0 02 1f8b"
    )


def test_a_heartbeat_may_have_a_group():
    assert encode_heartbeat("r", h("53 07"), 0, "g") == h(
        "00 53 73 d0 00000014 0000000b 40 40 a1 01 72 40 40 53 07 40 40 40 40 a1 01 6700 53 77 40"
    )


def test_a_heartbeat_has_an_explicit_null_body():
    header = h("00 53 70 c0 08 03 40 40 70 000001f4")
    assert encode_heartbeat("r", h("53 07"), 500) == header + REPLY_PROPERTIES + h("00 53 77 40")


def test_a_generic_message_without_fields_is_just_a_body():
    assert encode_message(None) == h("00 53 77 40")
    assert encode_message([1]) == h("00 53 77 c0 03 01 53 01")


def test_a_management_request_has_subject_address_and_a_map():
    message = encode_message(
        {"durable": True},
        message_id=7,
        to="/queues/q",
        subject="PUT",
        reply_to="$me",
        application_properties={"k": "v"},
    )
    assert message == h(
        "00 53 73 c0 19 05 53 07 40 a1 09 2f7175657565732f71 a1 03 505554 a1 03 246d65"
        "00 53 74 c1 07 02 a1 01 6b a1 01 76"
        "00 53 77 c1 0b 02 a1 07 64757261626c65 41"
    )


@pytest.mark.parametrize(
    ("message_id", "encoded"),
    [
        ("m", "a1 01 6d"),
        (0, "44"),
        (b"m", "a0 01 6d"),
        (
            uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
            "98 00112233445566778899aabbccddeeff",
        ),
    ],
)
def test_ids_have_the_four_types_of_the_specification(message_id, encoded):
    data = h(encoded)
    assert encode_message(None, message_id=message_id) == (
        h("00 53 73 c0") + bytes((len(data) + 1, 1)) + data + h("00 53 77 40")
    )


def test_correlation_id_and_content_type_are_the_sixth_and_seventh_property():
    assert encode_message(None, correlation_id="c", content_type="a/b") == h(
        "00 53 73 c0 0e 07 40 40 40 40 40 a1 01 63 a3 03 612f62 00 53 77 40"
    )


def test_data_with_an_id_and_an_address_only():
    assert encode_data(b"\x00\xff", message_id="i", to="q") == h(
        "00 53 73 c0 08 03 a1 01 69 40 a1 01 7100 53 75 a0 02 00ff"
    )


def test_data_with_all_that_may_go_along():
    assert encode_data(
        b"",
        message_id="i",
        to="q",
        content_type="a/b",
        application_properties={"k": "v"},
        durable=True,
    ) == h(
        "00 53 70 c0 02 01 41"
        "00 53 73 c0 10 07 a1 01 69 40 a1 01 71 40 40 40 a3 03 612f62"
        "00 53 74 c1 07 02 a1 01 6b a1 01 76"
        "00 53 75 a0 00"
    )


def test_data_with_the_time_when_it_was_made():
    assert encode_data(b"", message_id="i", to="q", created_ms=1000) == h(
        "00 53 73 c0 17 0a a1 01 69 40 a1 01 71 40 40 40 40 40 40 83 00000000000003e800 53 75 a0 00"
    )
    assert encode_data(b"", message_id="i", to="q", content_type="a", created_ms=1000) == h(
        "00 53 73 c0 19 0a a1 01 69 40 a1 01 71 40 40 40 a3 01 61 40 40 83 00000000000003e8"
        "00 53 75 a0 00"
    )


def test_large_data_is_not_copied():
    body = b"x" * 65536
    head, same = encode_data(body, message_id="i", to="q")
    assert same is body
    assert head[-8:] == h("00 53 75 b0 00010000")
    assert encode_data(b"x" * 256, message_id="i", to="q")[13:] == (
        h("00 53 75 b0 00000100") + b"x" * 256
    )
