# SPDX-License-Identifier: Apache-2.0

"""Decoder of the parts of a message (AMQP 1.0 section 3.2) that a row needs. One thread at a time.

Every message passes through this decoder. So the decoder reads the usual encodings itself, skips
the parts that a row does not need, and leaves other encodings to the driver's decoder. Header and
annotations often repeat from message to message, and so do the properties without the message-id.
The decoder remembers the values of these parts by their encoding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from amqp1_driver.codec import decompress
from amqp1_driver.codec.decoder import MALFORMED, fail, read, read_uint, skip
from amqp1_driver.exceptions import DecodeError

#: property of a row whose body is a value in AMQP's encoding, because it is no text or binary
BODY = "amqp1:body"
#: annotation of brokers with the time at which they enqueued a message, milliseconds since 1970
_STAMP = "x-opt-enqueued-time"
_STAMP_BYTES = _STAMP.encode()
_HEADER, _ANNOTATIONS, _PROPERTIES, _APPLICATION_PROPERTIES = 0x70, 0x72, 0x73, 0x74
_DATA, _SEQUENCE, _VALUE = 0x75, 0x76, 0x77
_SYMBOLIC = {
    "amqp:header:list": _HEADER,
    "amqp:message-annotations:map": _ANNOTATIONS,
    "amqp:properties:list": _PROPERTIES,
    "amqp:application-properties:map": _APPLICATION_PROPERTIES,
    "amqp:data:binary": _DATA,
    "amqp:amqp-sequence:list": _SEQUENCE,
    "amqp:amqp-value:*": _VALUE,
}
#: positions of properties (3.2.4)
_TYPE, _ENCODING, _CREATED = 6, 7, 9
_WANTED = frozenset((_TYPE, _ENCODING, _CREATED))
#: milliseconds from 1970 to the year 10000, and the largest delivery-count that a column takes: a
#: larger value in one message must not keep the other messages out of the spool
_TIMES, _MOST = 253402300800000, 2147483647
#: most encodings of properties that a decoder remembers, and bytes from which on it does not
#: remember an encoding
_LIMIT, _LONG = 1000, 512
#: bytes to which a compressed body may grow; a Decoder can have a lower limit
_INFLATED = 64 * 1024**2


class Content(NamedTuple):
    """The columns of a row that come from the message; see :class:`~..spool.Row`."""

    message_id: str | None
    body: bytes
    content_type: str | None
    properties: dict[str, str] | None
    delivery_count: int
    enqueued_us: int | None


class Decoder:
    """A decoder of the messages of one subscription.

    :param limit: bytes, and never more than 64 MiB; a message whose body inflates to more is
        undecodable
    """

    def __init__(self, limit: int = _INFLATED) -> None:
        self._limit = min(limit, _INFLATED)
        #: the remembered encoding of header and annotations, and its delivery-count
        self._prefix = b""
        self._prefix_count = 0
        #: encoding of the properties behind the message-id -> content-type, content-encoding and
        #: creation-time
        self._rests: dict[bytes, tuple[str | None, str | None, int | None]] = {}

    def decode(self, data: bytes) -> Content:
        """Read one message, and inflate a compressed body (content-encoding gzip).

        :raises DecodeError: the message is malformed, or its body inflates to more than the limit
        """
        try:
            return self._decode(data)
        except MALFORMED as error:
            raise DecodeError(f"malformed AMQP data: {error}", offset=0) from error

    def _decode(self, data: bytes) -> Content:
        message_id = content_type = encoding = created = stamp = properties = None
        count = at = kind = header_end = 0
        parts: list[bytes] = []
        size = len(data)
        if data.startswith(self._prefix):
            count, at = self._prefix_count, len(self._prefix)
        while at < size:
            if data[at] == 0 and data[at + 1] == 0x53:
                code = data[at + 2]
                at += 3
            else:
                code, at = _section(data, at)
            if code in (_DATA, _VALUE, _SEQUENCE):
                body, plain, at = _body(data, at)
                if parts and (code == _VALUE or code != kind):
                    fail("more than one body", at)
                parts.append(body)
                if not plain:
                    if code == _DATA:
                        fail("data section without binary", at)
                    properties = {
                        **(properties or {}),
                        BODY: "value" if code == _VALUE else "sequence",
                    }
                kind = code
            elif code == _PROPERTIES:
                message_id, (content_type, encoding, created), at = self._properties(data, at)
            elif code == _HEADER:
                end = skip(data, at)
                count = _delivery_count(data[at:end])
                at = header_end = end
            elif code == _APPLICATION_PROPERTIES:
                properties, at = _application_properties(data, at)
            else:
                end = skip(data, at)
                if code == _ANNOTATIONS:
                    if _STAMP_BYTES in data[at:end]:
                        stamp = _stamp(read(data, at)[0])
                    elif at - 3 == header_end and end < _LONG:
                        self._prefix, self._prefix_count = data[:end], count
                at = end
        if at > size:
            fail("value behind the end of the data", size)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        if encoding == "gzip":
            content = decompress(content, encoding, self._limit)
        enqueued = stamp if stamp is not None else created
        if enqueued is not None:
            enqueued = enqueued * 1000 if 0 <= enqueued < _TIMES else None
        return Content(message_id, content, content_type, properties, count, enqueued)

    def _properties(
        self, data: bytes, at: int
    ) -> tuple[str | None, tuple[str | None, str | None, int | None], int]:
        """Read a properties section (3.2.4).

        :returns: the message-id; content-type, content-encoding and creation-time; the offset
            behind the section
        """
        code = data[at]
        if code == 0xD0:
            count, start = read_uint(data, at + 5)[0], at + 9
            end = at + 5 + read_uint(data, at + 1)[0]
        elif code == 0xC0:
            count, start, end = data[at + 2], at + 3, at + 2 + data[at + 1]
        elif code == 0x45:
            return None, (None, None, None), at + 1
        else:
            fail(f"properties are no list but 0x{code:02x}", at)
        if end > len(data) or count > end - start:
            fail(f"{count} fields in {end - start} bytes", at)
        message_id: str | None = None
        if count:
            if data[start] == 0xA1:
                at = start + 2 + data[start + 1]
                message_id = str(data[start + 2 : at], "utf-8")
            else:
                value, at = read(data, start)
                message_id = None if value is None else _text(value)
            if at > end:
                fail("size does not match the fields", end)
        else:
            at = start
        rest = data[at:end]
        found = self._rests.get(rest)
        if found is None:
            found = _rest(rest, count - 1)
            if len(rest) < _LONG:
                if len(self._rests) >= _LIMIT:
                    self._rests.clear()
                self._rests[rest] = found
        return message_id, found, end


def _section(data: bytes, at: int) -> tuple[Any, int]:
    if data[at] != 0:
        fail("no section", at)
    descriptor, at = read(data, at + 1)
    return _SYMBOLIC.get(descriptor, descriptor) if isinstance(descriptor, str) else descriptor, at


def _body(data: bytes, at: int) -> tuple[bytes, bool, int]:
    """Return the bytes of a body, whether they are text or binary, and the offset behind it."""
    code = data[at]
    if code in (0xB1, 0xB0):
        start = at + 5
        end = start + read_uint(data, at + 1)[0]
    elif code in (0xA1, 0xA0):
        start = at + 2
        end = start + data[at + 1]
    else:
        end = skip(data, at)
        return b"" if code == 0x40 else data[at:end], code == 0x40, end
    if end > len(data):
        fail("body behind the end of the data", at)
    return data[start:end], True, end


def _delivery_count(header: bytes) -> int:
    """Return the delivery-count of an encoded header section (3.2.1)."""
    values, _ = read(header, 0)
    if type(values) is not list:
        fail("header is not a list", 0)
    count = values[4] if len(values) > 4 and values[4] is not None else 0
    if type(count) is not int or count < 0:
        fail("delivery-count is no uint", 0)
    return min(count, _MOST)


def _rest(data: bytes, count: int) -> tuple[str | None, str | None, int | None]:
    """Return content-type, content-encoding and creation-time of the properties.

    :param data: the encoded fields behind the message-id
    :param count: number of these fields
    """
    found: list[Any] = [None] * 10
    at = 0
    for position in range(1, min(count, 9) + 1):
        if position not in _WANTED:
            at = skip(data, at)
        else:
            value, at = read(data, at)
            if value is not None:
                found[position] = value if position == _CREATED else _text(value)
    if at > len(data):
        fail("size does not match the fields", at)
    created = found[_CREATED]
    if created is not None and (not isinstance(created, int) or isinstance(created, bool)):
        fail("creation-time is no timestamp", at)
    return found[_TYPE], found[_ENCODING], created


def _application_properties(data: bytes, at: int) -> tuple[dict[str, str] | None, int]:
    values, at = read(data, at)
    if values is None:
        return None, at
    if type(values) is not dict:
        fail("application properties are no map", at)
    return {_text(key): _text(value) for key, value in values.items() if value is not None}, at


def _stamp(annotations: Any) -> int | None:
    stamp = annotations.get(_STAMP) if isinstance(annotations, dict) else None
    return stamp if isinstance(stamp, int) and not isinstance(stamp, bool) else None


def _text(value: Any) -> str:
    """Return any value of a property as text: numbers in digits, a timestamp in milliseconds.

    Binary that is not UTF-8 becomes hexadecimal digits.
    """
    if isinstance(value, str):
        # a char of AMQP may be a surrogate, which has no UTF-8
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    return str(value)
