# SPDX-License-Identifier: Apache-2.0

"""Functions that read and edit message sections: header, annotations, properties (AMQP 1.0 3.2).

The bus passes everything else through byte for byte. Pure functions, any thread.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from amqp1_driver.wire.outline import (
    MAP,
    read_bytes,
    read_compound,
    read_descriptor,
    read_uint,
    value_end,
    write_uint,
)
from amqp1_driver.wire.types import Symbol, WireError, encode, encode_compound

HEADER = 0x70
DELIVERY_ANNOTATIONS = 0x71
MESSAGE_ANNOTATIONS = 0x72
PROPERTIES = 0x73
APPLICATION_PROPERTIES = 0x74
_DATA, _FOOTER = 0x75, 0x78
#: Sections before the body, in their order.
_BEFORE_BODY = (
    HEADER,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    APPLICATION_PROPERTIES,
)
#: Constructors of strings and symbols.
_TEXTS = (0xA1, 0xA3, 0xB1, 0xB3)

#: Fields of the header: durable, priority, ttl, first-acquirer, delivery-count (3.2.1).
_TTL, _FIRST_ACQUIRER, _DELIVERY_COUNT = 2, 3, 4
#: Fields of the properties: message-id, user-id, to, … (3.2.4).
_TO, _GROUP_ID = 2, 10


class Header(NamedTuple):
    """The header fields that the bus reads; ``ttl_ms`` in milliseconds, 0 = no expiry."""

    ttl_ms: int
    delivery_count: int


_NO_HEADER = Header(0, 0)


def _raw_header(data: bytes) -> tuple[list[bytes], int]:
    """Return the encoded header fields and the offset behind the header ([] and 0 without one)."""
    if not data:
        raise WireError("an empty message")
    code, at = read_descriptor(data, 0)
    if code != HEADER:
        return [], 0
    return read_compound(data, at)


def read_header(data: bytes) -> Header:
    """Read ttl and delivery-count.

    :raises WireError: the header is not valid
    """
    fields, _ = _raw_header(data)
    if len(fields) <= _TTL:
        return _NO_HEADER
    ttl = read_uint(fields[_TTL])
    count = read_uint(fields[_DELIVERY_COUNT]) if len(fields) > _DELIVERY_COUNT else 0
    return Header(ttl or 0, count or 0)


def rewrite_header(
    data: bytes, *, delivery_count: int | None = None, ttl_ms: int | None = None
) -> bytes:
    """Return the message with another delivery-count (and first-acquirer false) and/or ttl.

    A redelivery is by definition not the first acquisition, so both fields change together.
    """
    fields, end = _raw_header(data)
    fields += [b"\x40"] * (_DELIVERY_COUNT + 1 - len(fields))
    if delivery_count is not None:
        fields[_FIRST_ACQUIRER] = b"\x42"
        fields[_DELIVERY_COUNT] = write_uint(delivery_count)
    if ttl_ms is not None:
        fields[_TTL] = write_uint(ttl_ms)
    header = encode_compound(0xC0, len(fields), b"".join(fields))
    return bytes((0x00, 0x53, HEADER)) + header + data[end:]


def read_to(data: bytes) -> str | None:
    """Return the ``to`` property, None if there is none.

    :raises WireError: the message is not valid
    """
    return _read_property(data, _TO)


def read_group_id(data: bytes) -> str | None:
    """Return the ``group-id`` property: the session of a message on Service Bus."""
    return _read_property(data, _GROUP_ID)


def _read_property(data: bytes, field: int) -> str | None:
    at = 0
    while at < len(data):
        code, value = read_descriptor(data, at)
        if code == PROPERTIES:
            fields, _ = read_compound(data, value)
            raw = read_bytes(fields[field]) if len(fields) > field else None
            try:
                return raw.decode() if raw else None
            except UnicodeDecodeError as exc:
                raise WireError("a property is not UTF-8") from exc
        if code not in (HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS):
            return None
        at = value_end(data, value)
    return None


def unbatch(data: bytes) -> list[bytes]:
    """Return the messages in a batch (Azure's message-format 0x80013700), or the message itself.

    Proton does not expose the message-format of a transfer. The function recognises a batch by its
    body: data sections only, each of which is a well-formed message. No other body looks like that.
    """
    found = []
    at = 0
    try:
        while at < len(data):
            code, value = read_descriptor(data, at)
            at = value_end(data, value)
            if code == _DATA:
                found.append(read_bytes(data[value:at]) or b"")
            elif found or code not in _BEFORE_BODY:
                return [data]
        if found and all(map(_is_message, found)):
            return found
    except WireError:
        pass
    return [data]


def _is_message(data: bytes) -> bool:
    """Return whether the bytes are the sections of a message in their order, with a body.

    :raises WireError: the bytes are not a sequence of described values
    """
    at = last = 0
    while at < len(data):
        code, value = read_descriptor(data, at)
        if not max(last, HEADER) <= code <= _FOOTER:
            return False
        last = code
        at = value_end(data, value)
    return last >= _DATA


def annotate(data: bytes, notes: dict[str, bytes], properties: dict[str, str]) -> bytes:
    """Return the message with message annotations and application properties set.

    :param notes: symbol -> encoded value
    :raises WireError: the message is not valid; never for a message that has passed
        :func:`check_maps`
    """
    sections, at = _before_body(data)
    encoded = {encode(Symbol(name)): value for name, value in notes.items()}
    _merge(sections, MESSAGE_ANNOTATIONS, encoded)
    strings = {_string(name): _string(value) for name, value in properties.items()}
    _merge(sections, APPLICATION_PROPERTIES, strings)
    return b"".join(sections[code] for code in _BEFORE_BODY if code in sections) + data[at:]


def check_maps(data: bytes) -> None:
    """Check that the sections changed by :func:`annotate` are maps.

    :raises WireError: one of these sections is not a map
    """
    sections, _ = _before_body(data)
    for code in (MESSAGE_ANNOTATIONS, APPLICATION_PROPERTIES):
        if code in sections:
            _read_section(sections[code])


def _before_body(data: bytes) -> tuple[dict[int, bytes], int]:
    """Return the sections before the body by their codes, and the offset of the body."""
    sections: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        code, value = read_descriptor(data, at)
        if code not in _BEFORE_BODY:
            break
        end = value_end(data, value)
        sections[code] = data[at:end]
        at = end
    return sections, at


def _string(value: str) -> bytes:
    data = value.encode()
    return b"\xb1" + struct.pack(">I", len(data)) + data


def _read_section(section: bytes) -> list[tuple[bytes, bytes]]:
    elements, _ = read_compound(section, read_descriptor(section, 0)[1], MAP)
    return list(zip(elements[::2], elements[1::2], strict=True))


def _merge(sections: dict[int, bytes], code: int, new: dict[bytes, bytes]) -> None:
    """Set entries of a map section; a string key and a symbol key with one text are equal."""
    if not new:
        return
    names = {read_bytes(key) for key in new}
    pairs = _read_section(sections[code]) if code in sections else []
    pairs = [(k, v) for k, v in pairs if k[0] not in _TEXTS or read_bytes(k) not in names]
    pairs += new.items()
    body = b"".join(key + value for key, value in pairs)
    head = struct.pack(">BBBBII", 0x00, 0x53, code, 0xD1, len(body) + 4, 2 * len(pairs))
    sections[code] = head + body
