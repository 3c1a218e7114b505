# SPDX-License-Identifier: Apache-2.0

"""Decoder for AMQP 1.0 primitive types (part 1 of the specification).

Pure functions, for any thread. ``data`` must be ``bytes``. The work is linear in the size of the
data: every compound value must end exactly where its size says, so that the decoder reads no
byte twice, and no compound value may claim more items than it has bytes.

On malformed data :func:`read`, :func:`skip` and the private readers raise DecodeError or one of
MALFORMED, or return an offset behind the end of the data (a slice of bytes that ends there is no
error in Python). :func:`decode` and ``decode_message`` turn all of these into DecodeError. So a
good message costs no extra checks.
"""

import struct
import uuid
from collections.abc import Callable
from typing import Any, NoReturn

from amqp1_driver.codec import types as t
from amqp1_driver.codec.encoder import MAX_DEPTH
from amqp1_driver.exceptions import DecodeError

#: Exceptions of reading malformed data besides DecodeError (ValueError: also for bad UTF-8).
MALFORMED = (IndexError, struct.error, ValueError, TypeError, OverflowError)

#: Most items without any bytes (null, true, zero, empty list) in one array.
_MAX_EMPTY_ITEMS = 32

# Types that a map may not have as keys: a sender can make their hashes collide at will, which
# makes decoding a map quadratic. (The other types that cannot be keys are not hashable.)
_NO_KEYS = (uuid.UUID, t.Described)

# Width in bytes of the fixed-width types, by the high half of the constructor (1.2).
_WIDTH = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}

read_uint = struct.Struct(">I").unpack_from
_read_two_uints = struct.Struct(">II").unpack_from

_Reader = Callable[[bytes, int, int], tuple[Any, int]]


def fail(reason: str, offset: int) -> NoReturn:
    """Raise DecodeError with the offset."""
    raise DecodeError(f"malformed AMQP data: {reason}", offset=offset)


def _constant(value: Any) -> _Reader:
    return lambda data, at, depth: (value, at)


def _number(fmt: str, kind: Callable[[Any], Any] | None = None) -> _Reader:
    layout = struct.Struct(fmt)
    unpack, width = layout.unpack_from, layout.size
    if kind is None:
        return lambda data, at, depth: (unpack(data, at)[0], at + width)
    return lambda data, at, depth: (kind(unpack(data, at)[0]), at + width)


def _raw(width: int, kind: Callable[[bytes], Any]) -> _Reader:
    return lambda data, at, depth: (kind(data[at : at + width]), at + width)


def _uuid(data: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=data)


def _string(data: bytes) -> str:
    return str(data, "utf-8")


def _symbol(data: bytes) -> t.Symbol:
    return t.Symbol(data, "ascii")


def _char(code: int) -> t.Char:
    return t.Char(chr(code))


def _variable8(kind: Callable[[bytes], Any]) -> _Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        end = at + 1 + data[at]
        return kind(data[at + 1 : end]), end

    return read


def _variable32(kind: Callable[[bytes], Any]) -> _Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        end = at + 4 + read_uint(data, at)[0]
        return kind(data[at + 4 : end]), end

    return read


def _items(data: bytes, at: int, end: int, count: int, depth: int) -> list[Any]:
    if end > len(data) or count > end - at:
        fail(f"{count} items in {end - at} bytes", at)
    values = []
    for _ in range(count):
        value, at = read(data, at, depth)
        values.append(value)
    if at != end:
        fail("size does not match the items", min(at, end))
    return values


def _pairs(data: bytes, at: int, end: int, count: int, depth: int) -> dict[Any, Any]:
    if count % 2:
        fail("map with a key but no value", at)
    values = _items(data, at, end, count, depth)
    keys = values[::2]
    for key in keys:
        if isinstance(key, _NO_KEYS):
            fail(f"map with a {type(key).__name__} as key", at)
    return dict(zip(keys, values[1::2], strict=True))


def _compound8(kind: Callable[[bytes, int, int, int, int], Any]) -> _Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        end = at + 1 + data[at]
        return kind(data, at + 2, end, data[at + 1], depth), end

    return read


def _compound32(kind: Callable[[bytes, int, int, int, int], Any]) -> _Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        size, count = _read_two_uints(data, at)
        end = at + 4 + size
        return kind(data, at + 8, end, count, depth), end

    return read


def _array(data: bytes, at: int, end: int, count: int, depth: int) -> list[Any]:
    """Read items that share one constructor, which may be a described one (1.2)."""
    if end > len(data):
        fail("array behind the end of the data", at)
    if depth <= 0:  # read() does this for all values but the items of arrays
        fail(f"nested deeper than {MAX_DEPTH} levels", at)
    described = data[at] == 0
    descriptor = None
    if described:
        descriptor, at = read(data, at + 1, depth)
    code = data[at]
    at += 1
    reader = _READERS.get(code)
    if reader is None or code == 0:
        fail(f"array of unknown type 0x{code:02x}", at - 1)
    if count > (_MAX_EMPTY_ITEMS if code >> 4 == 4 else end - at):
        fail(f"array of {count} items in {end - at} bytes", at)
    values = []
    for _ in range(count):
        value, at = reader(data, at, depth - 1)
        values.append(t.Described(descriptor, value) if described else value)
    if at != end:
        fail("size does not match the items", min(at, end))
    return values


def _described(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    descriptor, at = read(data, at, depth)
    value, at = read(data, at, depth)
    return t.Described(descriptor, value), at


# Constructor -> reader of the bytes behind it (1.6).
_READERS: dict[int, _Reader] = {
    0x00: _described,
    0x40: _constant(None),
    0x41: _constant(True),
    0x42: _constant(False),
    0x43: _constant(0),
    0x44: _constant(0),
    0x45: lambda data, at, depth: ([], at),
    0x50: _number(">B"),
    0x51: _number(">b"),
    0x52: _number(">B"),
    0x53: _number(">B"),
    0x54: _number(">b"),
    0x55: _number(">b"),
    0x56: _number(">B", bool),
    0x60: _number(">H"),
    0x61: _number(">h"),
    0x70: _number(">I"),
    0x71: _number(">i"),
    0x72: _number(">f"),
    0x73: _number(">I", _char),
    0x74: _raw(4, t.Decimal),
    0x80: _number(">Q"),
    0x81: _number(">q"),
    0x82: _number(">d"),
    0x83: _number(">q", t.Timestamp),
    0x84: _raw(8, t.Decimal),
    0x94: _raw(16, t.Decimal),
    0x98: _raw(16, _uuid),
    0xA0: _variable8(bytes),
    0xA1: _variable8(_string),
    0xA3: _variable8(_symbol),
    0xB0: _variable32(bytes),
    0xB1: _variable32(_string),
    0xB3: _variable32(_symbol),
    0xC0: _compound8(_items),
    0xC1: _compound8(_pairs),
    0xD0: _compound32(_items),
    0xD1: _compound32(_pairs),
    0xE0: _compound8(_array),
    0xF0: _compound32(_array),
}


def read(data: bytes, at: int, depth: int = MAX_DEPTH) -> tuple[Any, int]:
    """Return one value and the offset behind it; the caller handles MALFORMED."""
    code = data[at]
    reader = _READERS.get(code)
    if reader is None:
        fail(f"unknown type 0x{code:02x}", at)
    if depth <= 0:
        fail(f"nested deeper than {MAX_DEPTH} levels", at)
    return reader(data, at + 1, depth - 1)


def skip(data: bytes, at: int) -> int:
    """Return the offset behind one value without decoding it; the caller handles MALFORMED."""
    pending = 1
    while pending:
        code = data[at]
        if code == 0:  # a descriptor and a value follow instead of one value
            pending += 1
            at += 1
            continue
        pending -= 1
        kind = code >> 4
        width = _WIDTH.get(kind)
        if width is not None:
            at += 1 + width
        elif kind in (0xA, 0xC, 0xE):
            at += 2 + data[at + 1]
        elif kind in (0xB, 0xD, 0xF):
            at += 5 + read_uint(data, at + 1)[0]
        else:
            fail(f"unknown type 0x{code:02x}", at)
    if at > len(data):
        fail("value behind the end of the data", len(data))
    return at


def decode(data: bytes, offset: int = 0) -> tuple[Any, int]:
    """Return the value at ``offset`` and the offset behind it.

    :raises DecodeError: the value is malformed. The error has the offset of the value, or of the
        malformed part inside.
    """
    try:
        value, end = read(data, offset)
    except MALFORMED as e:
        raise DecodeError(f"malformed AMQP data: {e}", offset=min(offset, len(data))) from e
    if end > len(data):
        fail("value behind the end of the data", offset)
    return value, end
