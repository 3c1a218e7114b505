# SPDX-License-Identifier: Apache-2.0

"""What a row takes from a message. Expected bytes are by hand from AMQP 1.0 section 3.2."""

import gzip
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.codec import decode_message
from amqp1_driver.exceptions import DecodeError
from amqp1_driver.pipeline.collect.decode import Content, Decoder
from amqp1_driver.testing.messages import Header, Message, Properties
from amqp1_driver.testing.wire import Symbol, Timestamp


def h(text):
    return bytes.fromhex(text)


#: as RabbitMQ 4.3 delivers a notification of this driver: durable, first acquirer, delivery-count
#: 0; annotations; id "i-1", to "/q"; a string
RABBIT = (
    h("005370 c0 06 05 41 40 40 41 43005372 c1 0f 02 a3 0a")
    + b"x-exchange"
    + h("a1 00005373 d0 0000000e 00000003 a1 03 692d31 40 a1 02 2f71005377 a1 02 7b7d")
)
#: as it delivers one of oslo.messaging's own driver for it: priority 0; message-id,
#: content-type, content-encoding; a header "h" of 1; data
KOMBU = (
    h("005370 c0 07 05 41 50 00 40 41 43005373 c0 25 08 a1 04 6d696437 40 40 40 40 40 a3 10")
    + b"application/json"
    + h("a3 05 7574662d38 005374 c1 06 02 a1 01 68 54 01 005375 a0 02 7b7d")
)


def decode(data):
    return Decoder().decode(data)


def test_a_notification_of_this_driver_from_rabbitmq():
    assert decode(RABBIT) == Content("i-1", b"{}", None, None, 0, None)


def test_a_notification_of_the_rabbit_driver_from_rabbitmq():
    assert decode(KOMBU) == Content("mid7", b"{}", "application/json", {"h": "1"}, 0, None)


def test_one_that_comes_again_from_rabbitmq():
    again = h("005370 c0 07 05 41 40 40 42 52 03 005377 a1 00")
    assert decode(again).delivery_count == 3
    assert decode(h("005370 c0 0a 05 41 40 40 42 70 00000102 005377 a1 00")).delivery_count == 258


def message(body=b"b", kind="data", **sections):
    return decode(Message(body, kind=kind, **sections).encode())


@pytest.mark.parametrize(
    "kind, body, expected",
    [
        ("data", b"\x00\xff", b"\x00\xff"),
        ("data", b"x" * 70000, b"x" * 70000),
        ("value", "häh", "häh".encode()),
        ("value", "x" * 300, b"x" * 300),
        ("value", b"\x01", b"\x01"),
        ("value", None, b""),
    ],
)
def test_a_body_of_text_or_bytes_is_taken_as_it_is(kind, body, expected):
    found = message(body, kind)
    assert (found.body, found.properties) == (expected, None)


def test_data_sections_are_joined():
    assert decode(h("005375 a0 01 61 005375 a0 01 62")).body == b"ab"


def test_another_value_stays_in_its_encoding_and_a_property_says_so():
    found = decode(h("005377 c1 05 02 a1 01 6b 43"))
    assert found.body == h("c1 05 02 a1 01 6b 43")
    assert found.properties == {"amqp1:body": "value"}
    found = decode(h("005376 c0 02 01 41 005376 45"))
    assert (found.body, found.properties) == (h("c0 02 01 41 45"), {"amqp1:body": "sequence"})


@pytest.mark.parametrize(
    "given, expected",
    [
        ("text", "text"),
        (7, "7"),
        (b"raw", "raw"),
        (b"\xff\x00", "ff00"),
        (None, None),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        ("l" * 300, "l" * 300),
    ],
)
def test_an_id_of_any_kind_is_text(given, expected):
    assert message(properties=Properties(message_id=given)).message_id == expected


def test_times_are_the_brokers_or_else_the_senders():
    created = Properties(creation_time=1_700_000_000_123)
    stamp = {Symbol("x-opt-enqueued-time"): Timestamp(1_700_000_000_456)}
    assert message(properties=created).enqueued_us == 1_700_000_000_123_000
    assert message(properties=created, message_annotations=stamp).enqueued_us == (
        1_700_000_000_456_000
    )
    assert message().enqueued_us is None


@pytest.mark.parametrize("time", [-1, 253402300800000, 2**62])
def test_a_time_that_no_column_takes_is_none(time):
    assert message(properties=Properties(creation_time=time)).enqueued_us is None


def test_a_count_that_no_column_takes_is_the_largest():
    assert message(header=Header(delivery_count=2**32 - 1)).delivery_count == 2147483647


def test_application_properties_are_text():
    found = message(
        application_properties={
            "s": "x",
            "t": True,
            "f": False,
            "i": -5,
            "d": 1.5,
            "b": b"\xfe",
            "n": None,
            "at": Timestamp(5),
        }
    )
    assert found.properties == {
        "s": "x",
        "t": "true",
        "f": "false",
        "i": "-5",
        "d": "1.5",
        "b": "fe",
        "at": "5",
    }


def test_half_a_surrogate_pair_keeps_no_other_row_out():
    found = decode(h("005374 c1 09 02 a1 01 63 73 0000d800 005375 a0 00"))
    assert found.properties == {"c": "?"}


def test_what_was_compressed_is_inflated():
    packed = Properties(content_encoding=Symbol("gzip"))
    assert message(gzip.compress(b"hello"), properties=packed).body == b"hello"
    with pytest.raises(DecodeError, match="gzip"):
        message(b"no gzip", properties=packed)


def test_sections_named_by_symbol():
    named = h("00 a3 10") + b"amqp:data:binary" + h("a0 01 61")
    assert decode(named).body == b"a"


@pytest.mark.parametrize(
    "data",
    [
        h("01"),
        h("ff"),
        h("ff 005375 a0 01 61"),
        h("005375"),
        h("005375 a0 05 61"),
        h("005375 43"),
        h("005375 a0 00 005377 a1 00"),
        h("005370 43"),
        h("005370 c0 03 05 41 40"),
        h("005373 a1 00"),
        h("005373 c0 03 09 a1 01"),
        h("005374 45"),
        h("005373 c0 0c 0a 40 40 40 40 40 40 40 40 40 41"),
        h("005370 c0 06 05 40 40 40 40 45"),
    ],
)
def test_malformed(data):
    with pytest.raises(DecodeError):
        decode(data)


def test_what_is_remembered_of_one_message_is_not_taken_for_that_of_another():
    decoder = Decoder()
    again = RABBIT.replace(h("c0 06 05 41 40 40 41 43"), h("c0 07 05 41 40 40 42 52 02"))
    stamped = (
        h("005372 c1 1f 02 a3 13")
        + b"x-opt-enqueued-time"
        + (h("83 00000000000003e8 005375 a0 01 62"))
    )
    typed = h("005373 c0 0c 07 a1 01 69 40 40 40 40 40 a3 01 74 005375 a0 00")
    late = h("005373 c0 04 01 a1 01 69 005372 c1 01 00 005375 a0 01 63")
    bare = h("005375 a0 01 61")
    plain = h("005372 c1 01 00 005375 a0 01 64")
    expected = [
        (RABBIT, Content("i-1", b"{}", None, None, 0, None)),
        (again, Content("i-1", b"{}", None, None, 2, None)),
        (stamped, Content(None, b"b", None, None, 0, 1_000_000)),
        (typed, Content("i", b"", "t", None, 0, None)),
        (late, Content("i", b"c", None, None, 0, None)),
        (bare, Content(None, b"a", None, None, 0, None)),
        (plain, Content(None, b"d", None, None, 0, None)),
        (KOMBU, Content("mid7", b"{}", "application/json", {"h": "1"}, 0, None)),
    ]
    for data, content in expected * 2 + expected[::-1]:
        assert decoder.decode(data) == content


_SHARED = Decoder()


@given(
    st.binary(max_size=200)
    | st.builds(
        lambda head, tail: head + tail,
        st.sampled_from([RABBIT, KOMBU, RABBIT[:-4]]),
        st.binary(max_size=40),
    )
)
def test_whatever_comes_is_read_or_refused_as_the_driver_does(data):
    try:
        found = decode(data)
    except DecodeError:
        with pytest.raises(DecodeError):
            _SHARED.decode(data)
        return
    assert isinstance(found.body, bytes)
    assert _SHARED.decode(data) == found
    try:
        known = decode_message(data)
    except DecodeError:
        return  # the driver looks at more
    if isinstance(known.body, bytes) and known.content_encoding is None:
        assert found.body == known.body
