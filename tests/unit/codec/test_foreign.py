# SPDX-License-Identifier: Apache-2.0

"""Our codec against proton's, in both directions, and against random and hostile bytes."""

import struct
import sys
import uuid

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.codec import (
    Template,
    decode_message,
    encode_heartbeat,
    encode_message,
    encode_reply,
)
from amqp1_driver.codec.decoder import decode
from amqp1_driver.exceptions import DecodeError

# Fields of proton.Message are C strings, which end at a NUL, and an empty one is none.
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=300)
addresses = texts.filter(bool)
bodies = st.text(max_size=70000).map(lambda s: s.encode("utf-8", "ignore"))
times = st.integers(0, 2**32 - 1)
ids = st.one_of(
    texts,
    st.integers(0, 2**64 - 1),
    st.uuids(),
    st.binary(max_size=300),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | texts
    | st.binary(max_size=300)
    | st.uuids(),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(texts, inner, max_size=8),
    max_leaves=30,
)


def read_by_proton(data: bytes) -> proton.Message:
    message = proton.Message()
    message.decode(data)
    return message


def plain(value):
    """proton's classes and memoryviews as plain Python values."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return value


def for_proton(value):
    return proton.ulong(value) if isinstance(value, int) else value


@given(addresses, st.none() | addresses, st.booleans(), texts, bodies, times)
def test_proton_reads_our_requests(address, reply_to, durable, message_id, body, ttl_ms):
    data = Template(address, reply_to, durable).request(message_id, body, ttl_ms)
    message = read_by_proton(data)
    assert message.address == address
    assert message.reply_to == reply_to
    assert message.durable is durable
    assert plain(message.id) == message_id
    assert message.body == body.decode()
    assert message.ttl == ttl_ms / 1000.0


@given(addresses, st.none() | addresses, texts, st.binary(max_size=600))
def test_proton_reads_our_compressed_requests(address, reply_to, message_id, body):
    message = read_by_proton(Template(address, reply_to).request(message_id, body, gzip=True))
    assert (message.address, message.reply_to) == (address, reply_to)
    assert message.content_encoding == "gzip"
    assert plain(message.body) == body


@given(addresses, ids, bodies, times, st.booleans())
def test_ids_come_back_to_proton_as_they_were_sent(address, message_id, body, ttl_ms, gzip):
    request = proton.Message(id=for_proton(message_id), body="x")
    raw = decode_message(bytes(request.encode())).message_id_raw
    reply = read_by_proton(encode_reply(address, raw, body, ttl_ms, gzip))
    beat = read_by_proton(encode_heartbeat(address, raw, ttl_ms))
    for message in (reply, beat):
        assert message.address == address
        assert message.correlation_id == request.id
        assert type(message.correlation_id) is type(request.id)
    assert beat.body is None
    assert plain(reply.body) == (body if gzip else body.decode())


@given(values, ids, texts, st.dictionaries(texts, st.integers(0, 9) | texts, max_size=5))
def test_proton_reads_our_generic_messages(body, message_id, subject, properties):
    data = encode_message(
        body, message_id=message_id, subject=subject, application_properties=properties
    )
    message = read_by_proton(data)
    assert plain(message.body) == body
    assert plain(message.id) == message_id
    assert message.subject == subject
    assert plain(message.properties or {}) == properties


@given(values, ids, ids, addresses, addresses, texts, times, st.integers(0, 1000), st.booleans())
def test_we_read_the_messages_of_proton(
    body, message_id, correlation_id, address, reply_to, subject, ttl_ms, count, durable
):
    sent = proton.Message(
        body=body,
        id=for_proton(message_id),
        correlation_id=for_proton(correlation_id),
        address=address,
        reply_to=reply_to,
        subject=subject,
        durable=durable,
        delivery_count=count,
        user_id=b"user",
        creation_time=1.0,
        group_id="group",
        properties={"key": body},
    )
    sent.ttl = ttl_ms / 1000.0
    message = decode_message(bytes(sent.encode()))
    assert message.message_id == message_id
    assert message.correlation_id == correlation_id
    assert (message.to, message.reply_to, message.subject) == (address, reply_to, subject)
    assert (message.durable, message.delivery_count) == (durable, count)
    assert message.redelivered is (count > 0)
    assert message.ttl_ms == round(sent.ttl * 1000)
    assert message.body == (body.encode() if isinstance(body, str) else body)
    assert message.application_properties == {"key": body}


def check_decode(data: bytes) -> None:
    """Whatever the data, nothing but DecodeError comes out, with an offset within it."""
    try:
        message = decode_message(data)
        _ = message.application_properties
    except DecodeError as e:
        assert 0 <= e.offset <= len(data)
    for offset in (0, len(data) // 2):
        try:
            _, end = decode(data, offset)
            assert offset < end <= len(data)
        except DecodeError:
            pass


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_decode_errors(data):
    check_decode(data)


section_starts = st.sampled_from([b"\x00\x53" + bytes((code,)) for code in range(0x70, 0x7A)])
constructors = st.sampled_from(
    [bytes((c,)) for c in b"\x00\x40\x41\x43\x44\x45\x50\x53\x56\x70\x73\x74\x80\x83\x98"]
    + [bytes((c,)) for c in b"\xa0\xa1\xa3\xb0\xb1\xb3\xc0\xc1\xd0\xd1\xe0\xf0"]
)
small = st.integers(0, 12).map(lambda n: bytes((n,)))
fragments = st.lists(
    section_starts | constructors | small | st.binary(max_size=3) | small.map(b"\0\0\0".__add__),
    max_size=30,
).map(b"".join)


@given(section_starts, fragments)
def test_plausible_bytes_raise_nothing_but_decode_errors(start, rest):
    check_decode(start + rest)


@given(values, ids, st.data())
def test_damaged_messages_raise_nothing_but_decode_errors(body, message_id, data):
    whole = bytearray(encode_message(body, message_id=message_id, to="q", durable=True, ttl_ms=9))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    check_decode(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    check_decode(bytes(whole))


def hostile(size: int) -> dict[str, bytes]:
    """Data of about ``size`` bytes that is long to read for a careless reader."""
    count = size // 9
    described = b"\x00" * size
    counts = b"\x00\x53\x77\xf0" + struct.pack(">II", 5, 2**32 - 1) + b"\x40"
    lists = b"\x45" * size
    uuids = b"".join(b"\x98" + uuid.UUID(int=n * (2**61 - 1)).bytes + b"\x40" for n in range(count))
    overlapping = b"".join(
        b"\xd0" + struct.pack(">II", (count - n) * 9 - 5, 1) for n in range(count)
    )
    return {
        "descriptors of descriptors": b"\x00\x53\x79" + described,
        "descriptors as body": b"\x00\x53\x77" + described,
        "descriptors as section": described,
        "array without bytes": counts,
        "empty lists": b"\x00\x53\x77\xd0" + struct.pack(">II", len(lists) + 4, len(lists)) + lists,
        "colliding keys": b"\x00\x53\x77\xd1"
        + struct.pack(">II", len(uuids) + 4, 2 * count)
        + uuids,
        "lists in lists": b"\x00\x53\x77" + overlapping,
        "data sections": b"\x00\x53\x75\xa0\x01x" * (size // 6),
        "sequences": b"\x00\x53\x76\x45" * (size // 4),
        "property sections": b"\x00\x53\x73\x45" * (size // 4),
        "application properties": b"\x00\x53\x74\xc1\x01\x00" * (size // 6),
    }


def calls_while_decoding(data: bytes) -> int:
    """Number of Python and C calls: a measure of work that does not depend on the machine."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        check_decode(data)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("name", hostile(9))
def test_the_work_for_hostile_messages_is_linear(name):
    data = hostile(20000)[name]
    assert calls_while_decoding(data) < 12 * len(data) + 200
