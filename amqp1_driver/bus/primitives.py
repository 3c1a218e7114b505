# SPDX-License-Identifier: Apache-2.0

"""The part of the AMQP 1.0 type system that the bus reads and writes (AMQP 1.0 part 1).

Message bodies pass through the bus unread. The bus must understand only SASL frames, message
headers and the ``to`` property. The bus has its own codec, so that a mistake in the driver's codec
cannot hide behind the same mistake here. Pure functions, any thread; malformed input raises
:class:`Malformed`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

#: Size in bytes of a fixed-width value by the high nibble of its constructor (1.2, figure 1.3).
_FIXED = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
#: Width in bytes of the size prefix of variable-width, compound and array values.
_SIZED = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}

NULL = b"\x40"
TRUE = b"\x41"
FALSE = b"\x42"


class Malformed(ValueError):
    """Encoding error: the bytes are not valid AMQP 1.0."""


class Described(NamedTuple):
    """A described list: numeric descriptor, encoded fields, and the offset behind the value."""

    code: int
    fields: list[bytes]
    end: int


def value_end(data: bytes, at: int) -> int:
    """Return the offset just behind the value that begins at ``at``."""
    try:
        constructor = data[at]
        if constructor == 0x00:
            return value_end(data, value_end(data, at + 1))
        nibble = constructor >> 4
        if nibble in _FIXED:
            end = at + 1 + _FIXED[nibble]
        else:
            width = _SIZED[nibble]
            size = int.from_bytes(data[at + 1 : at + 1 + width], "big")
            end = at + 1 + width + size
    except (IndexError, KeyError, RecursionError) as exc:
        raise Malformed(f"no AMQP value at offset {at}") from exc
    if end > len(data):
        raise Malformed(f"the value at offset {at} ends {end - len(data)} bytes too late")
    return end


def read_descriptor(data: bytes, at: int) -> tuple[int, int]:
    """Return the numeric descriptor of the described value at ``at`` and the offset behind it.

    The result for a symbolic descriptor is -1: the bus then treats the section as an unknown one.
    """
    try:
        if data[at] != 0x00:
            raise Malformed(f"no described value at offset {at}")
        kind = data[at + 1]
        if kind == 0x53:
            return data[at + 2], at + 3
        if kind == 0x80:
            return int(struct.unpack_from(">Q", data, at + 2)[0]), at + 10
    except (IndexError, struct.error) as exc:
        raise Malformed(f"the descriptor at offset {at} is cut short") from exc
    return -1, value_end(data, at + 1)


def read_list(data: bytes, at: int) -> tuple[list[bytes], int]:
    """Return the fields of the list at ``at``, still encoded, and the offset behind the list."""
    end = value_end(data, at)
    constructor = data[at]
    if constructor == 0x45:
        return [], end
    if constructor == 0xC0 and end - at >= 3:
        count, here = data[at + 2], at + 3
    elif constructor == 0xD0 and end - at >= 9:
        count, here = int.from_bytes(data[at + 5 : at + 9], "big"), at + 9
    else:
        raise Malformed(f"no list at offset {at}")
    fields = []
    for _ in range(count):
        after = value_end(data, here)
        fields.append(bytes(data[here:after]))
        here = after
    if here != end:
        raise Malformed(f"the list at offset {at} is not as long as it says")
    return fields, end


def read_described_list(data: bytes, at: int) -> Described:
    """Read a described list such as a performative or a message header."""
    code, value = read_descriptor(data, at)
    fields, end = read_list(data, value)
    return Described(code, fields, end)


def write_described_list(code: int, fields: list[bytes]) -> bytes:
    """Encode a described list out of encoded fields; ``code`` < 256."""
    body = b"".join(fields)
    if len(body) < 255:
        head = bytes((0x00, 0x53, code, 0xC0, len(body) + 1, len(fields)))
    else:
        head = bytes((0x00, 0x53, code, 0xD0)) + struct.pack(">II", len(body) + 4, len(fields))
    return head + body


def read_bytes(field: bytes) -> bytes | None:
    """Return the contents of an encoded binary, string or symbol; None for null."""
    constructor = field[0]
    if constructor == 0x40:
        return None
    if constructor in (0xA0, 0xA1, 0xA3):
        return field[2:]
    if constructor in (0xB0, 0xB1, 0xB3):
        return field[5:]
    raise Malformed(f"constructor {constructor:#04x} is neither binary, string nor symbol")


def read_uint(field: bytes) -> int | None:
    """Return the value of an encoded uint; None for null."""
    constructor = field[0]
    if constructor == 0x40:
        return None
    if constructor == 0x43:
        return 0
    if constructor in (0x52, 0x70):
        return int.from_bytes(field[1:], "big")
    raise Malformed(f"constructor {constructor:#04x} is not a uint")


def write_uint(value: int) -> bytes:
    """Encode a uint in its shortest form."""
    if value == 0:
        return b"\x43"
    if value < 256:
        return bytes((0x52, value))
    return b"\x70" + struct.pack(">I", value)


def write_binary(value: bytes) -> bytes:
    """Encode a binary of less than 256 bytes."""
    return bytes((0xA0, len(value))) + value


def write_symbols(values: list[str]) -> bytes:
    """Encode an array of short symbols (1.6.24: array8 of sym8)."""
    items = b"".join(bytes((len(v),)) + v.encode("ascii") for v in values)
    return bytes((0xE0, len(items) + 2, len(values), 0xA3)) + items


def read_map(data: bytes, at: int) -> tuple[list[tuple[bytes, bytes]], int]:
    """Return keys and values of the map at ``at``, still encoded, and the offset behind it."""
    end = value_end(data, at)
    constructor = data[at]
    if constructor == 0xC1 and end - at >= 3:
        count, here = data[at + 2], at + 3
    elif constructor == 0xD1 and end - at >= 9:
        count, here = int.from_bytes(data[at + 5 : at + 9], "big"), at + 9
    else:
        raise Malformed(f"no map at offset {at}")
    items = []
    for _ in range(count):
        after = value_end(data, here)
        items.append(bytes(data[here:after]))
        here = after
    if here != end or count % 2:
        raise Malformed(f"the map at offset {at} is not as long as it says")
    return list(zip(items[::2], items[1::2], strict=True)), end


def write_described_map(code: int, pairs: list[tuple[bytes, bytes]]) -> bytes:
    """Encode a described map out of encoded keys and values; ``code`` < 256."""
    body = b"".join(key + value for key, value in pairs)
    count = 2 * len(pairs)
    return bytes((0x00, 0x53, code, 0xD1)) + struct.pack(">II", len(body) + 4, count) + body


def write_string(value: str) -> bytes:
    """Encode a string."""
    data = value.encode()
    return b"\xb1" + struct.pack(">I", len(data)) + data


def write_symbol(value: str) -> bytes:
    """Encode a symbol of less than 256 characters."""
    return bytes((0xA3, len(value))) + value.encode("ascii")


def write_long(value: int) -> bytes:
    """Encode a long."""
    return b"\x81" + struct.pack(">q", value)


def write_timestamp(seconds: float) -> bytes:
    """Encode a timestamp; ``seconds`` since 1970."""
    return b"\x83" + struct.pack(">q", int(seconds * 1000))
