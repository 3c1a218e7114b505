# SPDX-License-Identifier: Apache-2.0

"""Encoder for requests, replies, heartbeats and generic messages (AMQP 1.0 section 3.2).

Pure functions and values, for any thread; application threads encode requests and replies. A
``Template`` encodes once the parts that do not change from request to request.
"""

import struct
from typing import Any

from amqp1_driver.codec.encoder import NULL, compound, encode, text, variable
from amqp1_driver.codec.types import Symbol

#: A message in one piece, or its beginning and its large body, which the encoder does not copy.
Encoded = bytes | tuple[bytes, bytes]
#: A body of at least this many bytes is large.
LARGE = 65536
#: The longest time-to-live (milliseconds) that the header can carry (3.2.1: uint).
MAX_TTL_MS = 0xFFFFFFFF

_HEADER = b"\x00\x53\x70"
_PROPERTIES = b"\x00\x53\x73"
_APPLICATION_PROPERTIES = b"\x00\x53\x74"
_DATA = b"\x00\x53\x75"
_AMQP_VALUE = b"\x00\x53\x77"
_NULL_BODY = _AMQP_VALUE + NULL

# Body prefixes for short strings and binaries (str8 0xa1, vbin8 0xa0), by length.
_STRING8 = tuple(_AMQP_VALUE + bytes((0xA1, size)) for size in range(256))
_STR8 = tuple(bytes((0xA1, size)) for size in range(256))
_BINARY8 = tuple(_AMQP_VALUE + bytes((0xA0, size)) for size in range(256))
_pack_body = struct.Struct(">3sBI").pack
# Descriptor, list32 with size and count, then a str8 with its length: the message-id.
_pack_properties_id = struct.Struct(">4sIIBB").pack
_pack_properties = struct.Struct(">4sII").pack
_LIST32 = _PROPERTIES + b"\xd0"
_pack_ttl = struct.Struct(">9sI").pack
_pack_timestamp = struct.Struct(">Bq").pack
_TTL = _HEADER + b"\xc0\x08\x03\x40\x40\x70"
_DURABLE_TTL = _HEADER + b"\xc0\x08\x03\x41\x40\x70"
_DURABLE = _HEADER + b"\xc0\x02\x01\x41"
# The content-encoding alone, and after a null correlation-id and a null content-type, which come
# between reply-to and content-encoding (3.2.4).
_GZIP = b"\xa3\x04gzip"
_GZIP_ONLY = b"\x40\x40" + _GZIP


def _header(durable: bool, ttl_ms: int) -> bytes:
    """Return the header section, empty when all its fields have the default (3.2.1)."""
    if ttl_ms > 0:
        return _pack_ttl(_DURABLE_TTL if durable else _TTL, min(ttl_ms, MAX_TTL_MS))
    return _DURABLE if durable else b""


def _body_prefix(size: int, binary: bool) -> bytes:
    """Return an amqp-value section (3.2.8) without its content."""
    if size < 256:
        return (_BINARY8 if binary else _STRING8)[size]
    return _pack_body(_AMQP_VALUE, 0xB0 if binary else 0xB1, size)


class Template:
    """The parts that all requests to one address share, encoded once. Immutable; any thread.

    :param address: the ``to`` of every message.
    :param reply_to: address for replies, None for messages without a reply-to.
    :param durable: True writes the durable header field; False leaves it out.
    """

    __slots__ = ("_count", "_fields", "_plain_header", "_ttl_header", "_with_id", "address")

    def __init__(self, address: str, reply_to: str | None, durable: bool = False) -> None:
        self.address = address
        fields = NULL + text(address)  # user-id, to
        self._count = 3
        if reply_to is not None:
            fields += NULL + text(reply_to)  # subject, reply-to
            self._count = 5
        self._fields = fields
        # The list's size includes its count (4 bytes) and type code and length of the id (2 bytes).
        self._with_id = len(fields) + 6
        self._plain_header = _header(durable, 0)
        self._ttl_header = _DURABLE_TTL if durable else _TTL

    def request(self, message_id: str, body: bytes, ttl_ms: int = 0, gzip: bool = False) -> Encoded:
        """Encode one message.

        :param message_id: any text.
        :param body: utf-8 text, written as a string; with ``gzip`` compressed bytes, written
            as binary and marked by content-encoding.
        :param ttl_ms: time to live in milliseconds, 0 for none.
        :returns: the message; for a body of :data:`LARGE` bytes or more the beginning of the
            message and the same ``body``.
        """
        if ttl_ms > 0:
            header = _pack_ttl(self._ttl_header, ttl_ms if ttl_ms < MAX_TTL_MS else MAX_TTL_MS)
        else:
            header = self._plain_header
        name = message_id.encode()
        length = len(name)
        if length > 255 or gzip:
            properties = self._properties(name, gzip)
        else:
            properties = (
                _pack_properties_id(_LIST32, self._with_id + length, self._count, 0xA1, length)
                + name
                + self._fields
            )
        size = len(body)
        if size < 256 and not gzip:
            return b"".join((header, properties, _STRING8[size], body))
        head = b"".join((header, properties, _body_prefix(size, gzip)))
        return head + body if size < LARGE else (head, body)

    def _properties(self, message_id: bytes, gzip: bool) -> bytes:
        """Return the properties section for ``gzip``, or for a message-id over 255 bytes."""
        fields = variable(0xA1, message_id) + self._fields
        count = self._count
        if gzip:
            fields += NULL * (5 - count) + _GZIP_ONLY
            count = 8
        return _pack_properties(_LIST32, len(fields) + 4, count) + fields


def _reply_properties(
    address: str, correlation_id: bytes, gzip: bool, group: str | None = None
) -> bytes:
    # null message-id and user-id, to, null subject and reply-to, correlation-id
    to = address.encode()
    size = len(to)
    to = _STR8[size] + to if size < 256 else variable(0xA1, to)
    fields = b"\x40\x40" + to + b"\x40\x40" + correlation_id
    if gzip:
        fields += NULL + _GZIP
    count = 8 if gzip else 6
    if group is not None:
        fields += NULL * (10 - count) + text(group)
        count = 11
    return _pack_properties(_LIST32, len(fields) + 4, count) + fields


def encode_reply(
    address: str,
    correlation_id: bytes,
    body: bytes,
    ttl_ms: int = 0,
    gzip: bool = False,
    group: str | None = None,
) -> bytes:
    """Encode a reply to the request whose encoded message-id was ``correlation_id``.

    :param address: the request's reply-to; opaque.
    :param correlation_id: ``Message.message_id_raw`` of the request, so that the reply has the
        type and width of the request's message-id.
    :param body: as for :meth:`Template.request`, but always part of the result.
    :param ttl_ms: as for :meth:`Template.request`.
    :param gzip: as for :meth:`Template.request`.
    :param group: group-id, for a node that holds the replies to many callers.
    """
    size = len(body)
    prefix = _STRING8[size] if size < 256 and not gzip else _body_prefix(size, gzip)
    properties = _reply_properties(address, correlation_id, gzip, group)
    return b"".join((_header(False, ttl_ms) if ttl_ms else b"", properties, prefix, body))


def encode_heartbeat(
    address: str, correlation_id: bytes, ttl_ms: int, group: str | None = None
) -> bytes:
    """Encode a heartbeat for the caller of a long call: a reply whose body is null.

    The null is explicit, because brokers end the session on a message without a body section.

    :param ttl_ms: time to live in milliseconds, 0 for none.
    """
    properties = _reply_properties(address, correlation_id, False, group)
    return _header(False, ttl_ms) + properties + _NULL_BODY


def encode_data(
    body: bytes,
    *,
    message_id: str,
    to: str,
    content_type: str | None = None,
    application_properties: dict[str, Any] | None = None,
    durable: bool = False,
    created_ms: int | None = None,
) -> Encoded:
    """Encode a message whose body is bytes, in one data section (3.2.6).

    :param created_ms: creation-time, milliseconds since 1970
    :returns: the message; for a body of :data:`LARGE` bytes or more the beginning of the
        message and the same ``body``.
    :raises TypeError: a property has no AMQP type
    :raises ValueError: a property is outside the range of its AMQP type
    """
    fields, count = variable(0xA1, message_id.encode()) + NULL + text(to), 3
    if content_type is not None:
        # null subject, reply-to and correlation-id come before the content-type
        fields += NULL * 3 + variable(0xA3, content_type.encode("ascii"))
        count = 7
    if created_ms is not None:
        # null content-encoding and absolute-expiry-time come before the creation-time
        fields += NULL * (9 - count) + _pack_timestamp(0x83, created_ms)
        count = 10
    parts = [_header(durable, 0), _PROPERTIES, compound(0xC0, count, fields)]
    if application_properties:
        parts += [_APPLICATION_PROPERTIES, encode(application_properties)]
    size = len(body)
    parts.append(_DATA + bytes((0xA0, size)) if size < 256 else _pack_body(_DATA, 0xB0, size))
    if size >= LARGE:
        return b"".join(parts), body
    return b"".join((*parts, body))


def encode_message(
    body: Any,
    *,
    message_id: Any = None,
    to: str | None = None,
    subject: str | None = None,
    reply_to: str | None = None,
    correlation_id: Any = None,
    application_properties: dict[str, Any] | None = None,
    content_type: str | None = None,
    durable: bool = False,
    ttl_ms: int = 0,
) -> bytes:
    """Encode any message with an amqp-value body, for example a management request.

    :param message_id: str, int (ulong), UUID or bytes.
    :param correlation_id: str, int (ulong), UUID or bytes.
    :param ttl_ms: time to live in milliseconds, 0 for none.
    :raises TypeError: a value has no AMQP type.
    :raises ValueError: a value is outside the range of its AMQP type.
    """
    content = None if content_type is None else Symbol(content_type)
    fields = [message_id, None, to, subject, reply_to, correlation_id, content]
    while fields and fields[-1] is None:
        fields.pop()
    parts = [_header(durable, ttl_ms)]
    if fields:
        encoded = b"".join([encode(field) for field in fields])
        parts.append(_PROPERTIES + compound(0xC0, len(fields), encoded))
    if application_properties:
        parts.append(_APPLICATION_PROPERTIES + encode(application_properties))
    parts.append(_AMQP_VALUE + encode(body))
    return b"".join(parts)
