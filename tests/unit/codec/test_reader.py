# SPDX-License-Identifier: Apache-2.0

"""Messages that are read. Bytes are by hand from AMQP 1.0 section 3.2, or from proton (marked)."""

import uuid

import pytest

from amqp1_driver.codec import decode_message
from amqp1_driver.exceptions import DecodeError


def h(text: str) -> bytes:
    return bytes.fromhex(text)


def test_a_request_of_proton_is_read():
    message = decode_message(
        h(  # proton.Message(id='id-1', address=..., reply_to='reply.1', body='{"a":1}', ttl=30,
            # durable=True)
            "00 53 70 c0 08 03 41 40 70 00 00 75 30 00 53 73 c0 25 05 a1 04 69 64 2d 31 40 a1 11"
            "75 6e 69 63 61 73 74 2e 72 70 63 2e 74 6f 70 69 63 40 a1 07 72 65 70 6c 79 2e 31 00"
            "53 77 a1 07 7b 22 61 22 3a 31 7d"
        )
    )
    assert message.durable is True
    assert message.ttl_ms == 30000
    assert message.message_id == "id-1"
    assert message.message_id_raw == h("a1 04 69642d31")
    assert message.to == "unicast.rpc.topic"
    assert message.reply_to == "reply.1"
    assert message.correlation_id is None
    assert message.body == b'{"a":1}'
    assert not message.redelivered


def test_a_reply_of_proton_is_read():
    message = decode_message(
        h(
            "00 53 70 45 00 53 73 c0 14 06 40 40 a1 07 72 65 70 6c 79 2e 31 40 40 a1 04 69 64 2d"
            "31 00 53 77 a1 11 7b 22 72 65 73 70 6f 6e 73 65 22 3a 6e 75 6c 6c 7d"
        )
    )
    assert (message.correlation_id, message.to) == ("id-1", "reply.1")
    assert message.message_id is None
    assert message.message_id_raw is None
    assert message.body == b'{"response":null}'


def test_a_heartbeat_of_proton_has_no_body_section_at_all():
    message = decode_message(h("00 53 70 45 00 53 73 c0 03 01 53 07"))
    assert (message.message_id, message.message_id_raw) == (7, h("53 07"))
    assert message.body is None


# Properties (3.2.4) with message-id "a" and, behind seven nulls, the absolute-expiry-time
# 2023-11-14T22:13:20Z, a timestamp (1.6.17)
EXPIRES = "00 53 73 c0 14 09 a1 01 61 40 40 40 40 40 40 40 83 00 00 01 8b cf e5 68 00 00 53 77 40"


def test_the_absolute_expiry_time_is_read():
    assert decode_message(h(EXPIRES)).expires_ms == 1700000000000


def test_without_an_absolute_expiry_time_there_is_none():
    null = "00 53 73 c0 0c 09 a1 01 61 40 40 40 40 40 40 40 40 00 53 77 40"
    created = "00 53 73 c0 15 0a a1 01 61 40 40 40 40 40 40 40 40 83" + 8 * "01" + "00 53 77 40"
    assert decode_message(h(null)).expires_ms == 0
    assert decode_message(h(created)).expires_ms == 0


def test_an_absolute_expiry_time_of_another_type_is_malformed():
    text = "00 53 73 c0 0e 09 a1 01 61 40 40 40 40 40 40 40 a1 01 61 00 53 77 40"
    with pytest.raises(DecodeError, match="absolute-expiry-time is str"):
        decode_message(h(text))


def test_a_management_request_of_proton_is_read():
    message = decode_message(
        h(
            "00 53 70 45 00 53 73 c0 2e 08 a1 01 6d 40 a1 09 2f 71 75 65 75 65 73 2f 71 a1 03 50"
            "55 54 a1 03 24 6d 65 40 a3 0a 74 65 78 74 2f 70 6c 61 69 6e a3 05 75 74 66 2d 38 00"
            "53 74 d1 00 00 00 0f 00 00 00 04 a1 01 6b a1 01 76 a1 01 6e 54 ff 00 53 77 d1 00 00"
            "00 1a 00 00 00 04 a1 07 64 75 72 61 62 6c 65 41 a1 01 6e 80 00 00 00 00 00 00 01 2c"
        )
    )
    assert message.subject == "PUT"
    assert message.to == "/queues/q"
    assert message.reply_to == "$me"
    assert message.content_type == "text/plain"
    assert message.content_encoding == "utf-8"
    assert message.application_properties == {"k": "v", "n": -1}
    assert message.body == {"durable": True, "n": 300}


def test_annotations_and_the_footer_are_skipped():
    message = decode_message(
        h(  # proton.Message with instructions, annotations, delivery_count=2, first_acquirer
            "00 53 70 c0 07 05 40 40 40 41 52 02 00 53 71 d1 00 00 00 09 00 00 00 02 a3 01 61 55"
            "01 00 53 72 d1 00 00 00 10 00 00 00 02 a3 07 78 2d 6f 70 74 2d 61 a1 01 62 00 53 73"
            "c0 05 02 40 a0 01 75 00 53 77 a1 02 68 69"
            # and by hand: footer, a section that does not exist, with a described descriptor in it
            "00 53 78 c1 01 00 00 53 79 00 00 40 40 70 00000001"
        )
    )
    assert message.delivery_count == 2
    assert message.redelivered
    assert message.first_acquirer
    assert message.message_id is None
    assert message.body == b"hi"
    assert message.application_properties == {}


@pytest.mark.parametrize(
    ("first_acquirer", "redelivered"),
    [
        ("42", True),  # of a classic queue of RabbitMQ, which counts no deliveries
        ("41", False),
        ("40", False),  # its default is false (3.2.1), but says nothing of this message
    ],
)
def test_another_link_may_have_acquired_it_before(first_acquirer, redelivered):
    message = decode_message(h(f"00 53 70 c0 06 05 41 40 40 {first_acquirer} 43 00 53 77 a1 01 61"))
    assert message.delivery_count == 0
    assert message.redelivered is redelivered


def test_fields_that_are_missing_have_defaults():
    message = decode_message(b"")
    assert message.durable is message.redelivered is False
    assert message.first_acquirer is None
    assert (message.ttl_ms, message.delivery_count) == (0, 0)
    for name in (
        "message_id",
        "message_id_raw",
        "to",
        "subject",
        "reply_to",
        "correlation_id",
        "content_type",
        "content_encoding",
        "body",
    ):
        assert getattr(message, name) is None
    assert message.application_properties == {}
    assert "id=None" in repr(message)


@pytest.mark.parametrize(
    "section",
    [
        "00 53 73 c0 04 01 a1 01 69",
        "00 53 73 d0 00000007 00000001 a1 01 69",
        "00 80 0000000000000073 c0 04 01 a1 01 69",
        "00 a3 14 616d71703a70726f706572746965733a6c697374 c0 04 01 a1 01 69",
        "00 b3 00000014 616d71703a70726f706572746965733a6c697374 c0 04 01 a1 01 69",
        "00 53 73 c0 07 01 b1 00000001 69",
        # all thirteen fields: the last five are not looked at
        "00 53 73 c0 10 0d a1 01 69 40 40 40 40 40 40 40 40 40 40 40 40",
        "00 53 73 c0 11 0d a1 01 69 40 40 40 40 40 40 40 40 40 40 53 01 40",
    ],
)
def test_sections_have_many_encodings(section):
    assert decode_message(h(section)).message_id == "i"


def test_empty_sections_leave_the_defaults():
    message = decode_message(h("00 53 70 45 00 53 73 45 00 53 74 c1 01 00 00 53 77 40"))
    assert message.message_id is message.body is None
    assert message.application_properties == {}


@pytest.mark.parametrize(
    ("header", "durable", "ttl_ms", "count"),
    [
        ("c0 02 01 41", True, 0, 0),
        ("c0 08 03 40 40 70 00000001", False, 1, 0),
        ("c0 08 03 42 40 70 00000001", False, 1, 0),
        ("c0 08 03 41 50 04 52 05 43", None, None, None),  # size and count do not agree
        ("c0 06 03 41 50 04 52 05", True, 5, 0),
        ("d0 0000000e 00000005 56 01 40 70 00000005 41 43", True, 5, 0),
        ("c0 07 05 42 40 43 40 52 07", False, 0, 7),
        ("c0 08 06 40 40 40 40 40 53 01", False, 0, 0),  # one field more than there are
    ],
)
def test_headers_have_many_encodings(header, durable, ttl_ms, count):
    data = h("00 53 70" + header)
    if durable is None:
        with pytest.raises(DecodeError):
            decode_message(data)
        return
    message = decode_message(data)
    assert (message.durable, message.ttl_ms, message.delivery_count) == (durable, ttl_ms, count)


@pytest.mark.parametrize(
    ("encoded", "message_id"),
    [
        ("43", 0),
        ("53 07", 7),
        ("80 ffffffffffffffff", 2**64 - 1),
        ("98 00112233445566778899aabbccddeeff", uuid.UUID("00112233445566778899aabbccddeeff")),
        ("a0 01 ff", b"\xff"),
        ("a1 02 c3a4", "ä"),
        ("b1 00000000", ""),
    ],
)
def test_message_ids_keep_their_encoding_for_the_reply(encoded, message_id):
    data = h(encoded)
    message = decode_message(h("00 53 73 c0") + bytes((len(data) + 1, 1)) + data)
    assert message.message_id == message_id
    assert message.message_id_raw == data
    # behind null message-id, user-id, to, subject and reply-to
    correlated = decode_message(
        h("00 53 73 c0") + bytes((len(data) + 6, 6)) + h("40 40 40 40 40") + data
    )
    assert correlated.correlation_id == message_id


@pytest.mark.parametrize(
    ("sections", "body"),
    [
        ("00 53 77 a1 02 c3a4", b"\xc3\xa4"),
        ("00 53 77 a1 01 ff", b"\xff"),  # text is not checked here
        ("00 53 77 b1 00000001 61", b"a"),
        ("00 53 77 a0 01 61", b"a"),
        ("00 53 77 b0 00000001 61", b"a"),
        ("00 53 75 a0 01 61", b"a"),
        ("00 53 75 a0 01 61 00 53 75 b0 00000001 62", b"ab"),
        ("00 53 76 c0 03 01 53 01", [1]),
        ("00 53 76 c0 03 01 53 01 00 53 76 45 00 53 76 c0 02 01 40", [1, None]),
        ("00 53 77 40", None),
        ("00 53 77 53 01", 1),
        ("00 53 77 c1 06 02 a1 01 61 53 01", {"a": 1}),
    ],
)
def test_bodies_are_bytes_for_text_and_values_for_others(sections, body):
    assert decode_message(h(sections)).body == body


def test_any_buffer_can_be_read():
    assert decode_message(memoryview(h("00 53 77 a1 01 61"))).body == b"a"
    assert decode_message(bytearray(h("00 53 77 a1 01 61"))).body == b"a"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("00", "index"),
        ("00 53", "index"),
        ("00 53 77", "index"),
        ("01", "no section"),
        ("a1 01 61", "no section"),
        ("00 a3 01", "index"),
        ("00 53 77 a1 05 61", "behind the end"),
        ("00 53 77 b1 00000005 61", "behind the end"),
        ("00 53 77 b1 00", "unpack"),
        ("00 53 77 80 00", "unpack"),
        ("00 53 77 40 00 53 77 40", "more than one body"),
        ("00 53 77 40 00 53 75 a0 00", "more than one body"),
        ("00 53 75 a0 00 00 53 77 40", "more than one body"),
        ("00 53 75 a0 00 00 53 76 45", "more than one body"),
        ("00 53 75 45", "data section without binary"),
        ("00 53 76 a0 00", "sequence section without list"),
        ("00 53 70 a1 00", "header is not a list"),
        ("00 53 70 c0 03 01 a1 00", "durable is str"),
        ("00 53 70 c0 04 03 40 40 41", "ttl_ms is bool"),
        ("00 53 70 c0 08 03 40 40 70 0000", "unpack"),
        ("00 53 73 c1 01 00", "section is no list but 0xc1"),
        ("00 53 73 c0 05 01 40", "1 fields in 4 bytes"),
        ("00 53 73 c0 01 05", "5 fields in 0 bytes"),
        ("00 53 73 c0 02 01 45", "message_id is list"),
        ("00 53 73 c0 02 01 41", "message_id is bool"),
        ("00 53 73 c0 05 03 40 40 53 01", "to is int"),
        ("00 53 73 c0 07 06 40 40 40 40 40 41", "correlation_id is bool"),
        ("00 53 73 c0 03 01 40 40", "size does not match"),
        ("00 53 73 c0 03 02 a1 00 40", "size does not match"),
        ("00 53 73 c0 04 01 a1 05 61", "size does not match"),
        ("00 53 73 c0 05 03 40 40 a1 01 61", "size does not match"),
        ("00 53 73 c0 06 03 40 40 a1 01 ff", "utf-8"),
        # nine fields, of which the first reaches behind the end of the section
        ("00 53 73 c0 0c 09 a1 0a 616161616161616161" + "40" * 8, "size does not match"),
        ("00 53 73 c0 04 02 40 a0 05", "behind the end"),
        ("00 53 74 d1 00000005", "behind the end"),
        ("00 53 72 a1", "index"),
        ("00 53 72 3f", "unknown type"),
        ("00 53 72 b0 ffffffff", "behind the end"),
        ("00 a3 01 61 00", "index"),
        # a symbol cut off at the end: slices do not notice
        ("00 a3 05 61 62", "index"),
        ("00 53 77 a3 05 61", "behind the end"),
    ],
)
def test_malformed_messages_are_decode_errors_with_the_offset(data, reason):
    with pytest.raises(DecodeError, match=reason) as caught:
        decode_message(h(data))
    assert 0 <= caught.value.offset <= len(h(data))


def test_application_properties_are_only_read_on_demand():
    message = decode_message(h("00 53 74 c1 03 02 3f 40 00 53 77 40"))
    with pytest.raises(DecodeError):
        _ = message.application_properties
    assert decode_message(h("00 53 74 40")).application_properties == {}
    for encoded in ("45", "c1 04 02 53 01 40"):
        with pytest.raises(DecodeError, match="not a map of strings"):
            _ = decode_message(h("00 53 74" + encoded)).application_properties
