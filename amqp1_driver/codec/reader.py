# SPDX-License-Identifier: Apache-2.0

"""Decoder for messages (AMQP 1.0 section 3.2): ``decode_message`` and ``Message``.

Pure, for any thread. Decoding usually runs on the I/O thread, so a usual message must be cheap:
this module reads null and short string fields in line, and all others by the general decoder. It
skips sections that the driver does not use without decoding them.
"""

import uuid
from typing import Any

from amqp1_driver.codec.decoder import MALFORMED, decode, fail, read, read_uint, skip
from amqp1_driver.exceptions import DecodeError

_HEADER, _PROPERTIES, _APPLICATION_PROPERTIES = 0x70, 0x73, 0x74
_DATA, _SEQUENCE, _VALUE = 0x75, 0x76, 0x77

# Start of the header of requests: durable (null or true), no priority, time-to-live as a uint.
USUAL_HEADER = (b"\x40\x40\x70", b"\x41\x40\x70")

# The decoder does not copy a body of at least this many bytes.
_LARGE = 65536

# A symbol may also name a section (3.2); decode_message() skips all sections but these.
_SYMBOLIC = {
    "amqp:header:list": _HEADER,
    "amqp:properties:list": _PROPERTIES,
    "amqp:application-properties:map": _APPLICATION_PROPERTIES,
    "amqp:data:binary": _DATA,
    "amqp:amqp-sequence:list": _SEQUENCE,
    "amqp:amqp-value:*": _VALUE,
}


class Message:
    """A received message. Once it is made, no thread changes it, and any thread may read it.

    Fields that the sender left out have their default: None, False, 0.

    - durable, ttl_ms (milliseconds, 0 for none), delivery_count, first_acquirer (None if the
      sender left it out): the header.
    - message_id, correlation_id (int, str, bytes or UUID), to, subject, reply_to,
      content_type, content_encoding: the properties.
    - expires_ms: absolute-expiry-time of the properties, milliseconds since 1970, 0 for none.
    - message_id_raw: the encoded message-id, for the correlation-id of the reply.
    - body: of a string (utf-8, unchecked), binary or data body: bytes, or a memoryview if it is
      large; of sequences: a list; of any other value: the Python value; of null or no body: None.
    """

    # The defaults are class attributes, because most messages set only a few fields.
    durable: bool = False
    ttl_ms: int = 0
    first_acquirer: bool | None = None
    delivery_count: int = 0
    message_id: int | str | bytes | uuid.UUID | None = None
    message_id_raw: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: int | str | bytes | uuid.UUID | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    expires_ms: int = 0
    body: Any = None
    _properties_raw: bytes | None = None

    @property
    def redelivered(self) -> bool:
        """Return whether the bus says that it may have delivered the message before (3.2.1).

        A classic queue of RabbitMQ 4.0 does not count deliveries, but sets first-acquirer to
        false. A message without first-acquirer says nothing, although the default is false too.
        """
        return self.delivery_count > 0 or self.first_acquirer is False

    @property
    def application_properties(self) -> dict[str, Any]:
        """Return the application's properties, decoded anew at each use.

        :raises DecodeError: they are not a map with strings as keys.
        """
        if self._properties_raw is None:
            return {}
        value, _ = decode(self._properties_raw)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            fail("application properties are not a map of strings", 0)
        return value

    def __repr__(self) -> str:
        return (
            f"<Message id={self.message_id!r} to={self.to!r} reply_to={self.reply_to!r} "
            f"correlation_id={self.correlation_id!r}>"
        )


# The fields of a header, by position (3.2.1); the driver does not use the priority.
_HEADER_FIELDS = (
    ("durable", bool),
    (None, int),
    ("ttl_ms", int),
    ("first_acquirer", bool),
    ("delivery_count", int),
)
# The fields of the properties behind the message-id (3.2.4). The decoder skips fields without a
# name here. Of the fields behind these it reads only absolute-expiry-time.
_FIELDS = (
    None,  # user-id
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
)
_FIELD_PREFIXES = tuple(_FIELDS[:n] for n in range(len(_FIELDS) + 1))
_ID = (int, str, bytes, uuid.UUID)
_TEXT = (str,)
_NUMBER = (int,)


def _header(message: Message, data: bytes, at: int) -> int:
    """Set the fields of the header; return the offset behind it."""
    if data[at : at + 3] == b"\xc0\x08\x03" and data[at + 3 : at + 6] in USUAL_HEADER:
        message.durable = data[at + 3] == 0x41
        message.ttl_ms = read_uint(data, at + 6)[0]
        return at + 10
    if data[at] == 0x45:  # as proton writes it for default values
        return at + 1
    values, end = read(data, at)
    if type(values) is not list:
        fail("header is not a list", at)
    for (name, kind), value in zip(_HEADER_FIELDS, values, strict=False):
        if name is not None and value is not None:
            if type(value) is not kind:
                fail(f"{name} is {type(value).__name__}", at)
            setattr(message, name, value)
    return end


def open_list(data: bytes, at: int) -> tuple[int, int, int]:
    """Return a list's (1.6.22) count of items, offset of the first item, and offset of its end."""
    code = data[at]
    if code == 0xC0:
        count, start, end = data[at + 2], at + 3, at + 2 + data[at + 1]
    elif code == 0xD0:
        count, start, end = read_uint(data, at + 5)[0], at + 9, at + 5 + read_uint(data, at + 1)[0]
    elif code == 0x45:
        return 0, at + 1, at + 1
    else:
        fail(f"section is no list but 0x{code:02x}", at)
    if end > len(data) or count > end - start:
        fail(f"{count} fields in {end - start} bytes", at)
    return count, start, end


def _properties(message: Message, data: bytes, at: int) -> int:
    """Set the fields of the properties; return the offset behind the section."""
    if data[at] == 0xC0 and (end := at + 2 + data[at + 1]) <= len(data):
        count = data[at + 2]  # as open_list() does, in line, for the usual list8
        at += 3
        if count > end - at:
            fail(f"{count} fields in {end - at} bytes", at)
    else:
        count, at, end = open_list(data, at)
    if not count:
        return end
    start = at
    code = data[at]
    if code == 0x40:  # null, as in replies
        at += 1
    elif code == 0xA1:  # str8, as in requests
        at = start + 2 + data[start + 1]
        message.message_id = str(data[start + 2 : at], "utf-8")
        message.message_id_raw = data[start:at]
    else:
        message.message_id, at = _field(data, at, "message_id", _ID)
        message.message_id_raw = data[start:at]
    for name in _FIELD_PREFIXES[count - 1 if count < 9 else 7]:
        code = data[at]
        if code == 0x40:
            at += 1
        elif name is None:
            at = skip(data, at)
        elif code == 0xA1:
            start = at + 2
            at = start + data[at + 1]
            setattr(message, name, str(data[start:at], "utf-8"))
        else:
            value, at = _field(data, at, name, _ID if name == "correlation_id" else _TEXT)
            setattr(message, name, value)
    if count > 8 and at < end and data[at] != 0x40:
        at = _expiry(message, data, at)
    if at != end and (at > end or count < 9):
        fail("size does not match the fields", min(at, end))
    return end


def _expiry(message: Message, data: bytes, at: int) -> int:
    """Set the absolute-expiry-time, a timestamp (1.6.17); return the offset behind it."""
    value, at = _field(data, at, "absolute-expiry-time", _NUMBER)
    message.expires_ms = value or 0
    return at


def _field(data: bytes, at: int, name: str, kinds: tuple[type, ...]) -> tuple[Any, int]:
    """Return a field in any encoding, and the offset behind it; refuse types not in ``kinds``."""
    value, after = read(data, at)
    if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
        fail(f"{name} is {type(value).__name__}", at)
    return value, after


def _application_properties(message: Message, data: bytes, at: int) -> int:
    end = skip(data, at)
    message._properties_raw = data[at:end]
    return end


def _body(data: bytes, at: int) -> tuple[Any, int]:
    """Return a body and the offset behind it; a string stays utf-8 bytes."""
    code = data[at]
    if code in (0xA1, 0xA0):
        start = at + 2
        end = start + data[at + 1]
    elif code in (0xB1, 0xB0):
        start = at + 5
        end = start + read_uint(data, at + 1)[0]
    else:
        return read(data, at)
    if end > len(data):
        fail("body behind the end of the data", at)
    return data[start:end] if end - start < _LARGE else memoryview(data)[start:end], end


def _section_code(data: bytes, at: int) -> tuple[Any, int]:
    """Return the numeric code of the section at ``at``, and the offset behind its descriptor."""
    if data[at] != 0:
        fail("no section", at)
    descriptor, at = read(data, at + 1)
    if isinstance(descriptor, str):
        descriptor = _SYMBOLIC.get(descriptor)
    return descriptor, at


def _check_section(code: int, value: Any, at: int) -> None:
    if code == _DATA and type(value) not in (bytes, memoryview):
        fail("data section without binary", at)
    if code == _SEQUENCE and type(value) is not list:
        fail("sequence section without list", at)


def _joined(code: int, parts: list[Any]) -> Any:
    if code == _DATA:
        return b"".join(parts)
    return [item for part in parts for item in part]


def decode_message(data: bytes) -> Message:
    """Decode one complete message.

    The decoder skips unknown sections, annotations and the footer. Several data sections, or
    several sequences, make one body; no other combination is allowed (3.2).

    :raises DecodeError: the data is malformed; the error has the offset.
    """
    if type(data) is not bytes:
        data = bytes(data)
    message = Message()
    parts: list[Any] = []
    kind = at = 0
    size = len(data)
    try:
        while at < size:
            if data[at] == 0 and data[at + 1] == 0x53:
                code = data[at + 2]
                at += 3
            else:
                code, at = _section_code(data, at)
            if code == _PROPERTIES:
                at = _properties(message, data, at)
            elif code == _VALUE or code in (_DATA, _SEQUENCE):
                start = at
                if code == _VALUE and data[at] == 0xA1 and start + 2 + data[at + 1] <= size:
                    at += 2 + data[at + 1]  # as _body() does, in line
                    value = data[start + 2 : at]
                else:
                    value, at = _body(data, at)
                if code != _VALUE:
                    _check_section(code, value, start)
                if parts and (code == _VALUE or code != kind):
                    fail("more than one body", start)
                kind = code
                parts.append(value)
            elif code == _HEADER:
                at = _header(message, data, at)
            elif code == _APPLICATION_PROPERTIES:
                at = _application_properties(message, data, at)
            else:
                at = skip(data, at)
    except MALFORMED as e:
        raise DecodeError(f"malformed AMQP data: {e}", offset=min(at, size)) from e
    if at > size:
        fail("value behind the end of the data", size)
    if parts:
        message.body = parts[0] if len(parts) == 1 else _joined(kind, parts)
    return message
