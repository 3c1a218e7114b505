# SPDX-License-Identifier: Apache-2.0

"""Codec of AMQP 1.0 types (part 1 of the specification).

The codec is small and strict rather than fast. Decoded Python values remember their AMQP type
(``UInt(5) == 5``), so that encoding a decoded value yields the same type again.
"""

from __future__ import annotations

import contextlib
import struct
import uuid
from dataclasses import dataclass, field
from typing import Any


class WireError(ValueError):
    """Encoding error: the bytes are not valid AMQP 1.0; the text names fault and offset."""


class Symbol(str):
    """symbol (1.6.21): ASCII."""

    __slots__ = ()


class UByte(int):
    """ubyte (1.6.3)."""


class UShort(int):
    """ushort (1.6.4)."""


class UInt(int):
    """uint (1.6.5)."""


class ULong(int):
    """ulong (1.6.6)."""


class Byte(int):
    """byte (1.6.7)."""


class Short(int):
    """short (1.6.8)."""


class Int(int):
    """int (1.6.9)."""


class Long(int):
    """long (1.6.10); a plain Python int encodes as this too."""


class Float(float):
    """float (1.6.11), 32 bits; a plain Python float is a double."""


class Char(str):
    """char (1.6.16): one character."""

    __slots__ = ()


class Timestamp(int):
    """timestamp (1.6.17): milliseconds since 1970."""


class Decimal(bytes):
    """decimal32, decimal64 or decimal128 (1.6.13 - 1.6.15), not interpreted."""


@dataclass(frozen=True)
class Described:
    """A described value (1.2) whose descriptor is not one of the specification's."""

    descriptor: Any
    value: Any


@dataclass(frozen=True)
class Array:
    """array (1.6.24): ``code`` is the constructor of all ``items`` (0xA3 sym8, 0x70 uint ...)."""

    code: int
    items: list[Any] = field(default_factory=list)


# constructor -> (struct format, Python type)
_FIXED: dict[int, tuple[str, Any]] = {
    0x50: (">B", UByte),
    0x60: (">H", UShort),
    0x70: (">I", UInt),
    0x80: (">Q", ULong),
    0x51: (">b", Byte),
    0x61: (">h", Short),
    0x71: (">i", Int),
    0x81: (">q", Long),
    0x52: (">B", UInt),
    0x53: (">B", ULong),
    0x54: (">b", Int),
    0x55: (">b", Long),
    0x56: (">?", bool),
    0x72: (">f", Float),
    0x82: (">d", float),
    0x83: (">q", Timestamp),
}
_EMPTY: dict[int, Any] = {0x40: None, 0x41: True, 0x42: False, 0x43: UInt(0), 0x44: ULong(0)}
_RAW = {0x74: 4, 0x84: 8, 0x94: 16}
# Python type -> constructors of its fixed-width encodings, the shortest first
_CODES: dict[type, list[int]] = {}
for _code in sorted(_FIXED, key=lambda code: struct.calcsize(_FIXED[code][0])):
    _CODES.setdefault(_FIXED[_code][1], []).append(_code)
_CODES[int] = _CODES[Long]


def encode(value: Any) -> bytes:
    """Encode ``value`` with its constructor, in the shortest encoding.

    :raises TypeError: the value has no AMQP type
    """
    if value is None:
        return b"\x40"
    if isinstance(value, bool):
        return b"\x41" if value else b"\x42"
    if isinstance(value, int):
        return _encode_int(value)
    if isinstance(value, float):
        short = isinstance(value, Float)
        return struct.pack(">Bf" if short else ">Bd", 0x72 if short else 0x82, value)
    if isinstance(value, (bytes, bytearray, memoryview, str)):
        return _encode_text(value)
    if isinstance(value, uuid.UUID):
        return b"\x98" + value.bytes
    if isinstance(value, (list, tuple)):
        return encode_compound(0xC0, len(value), b"".join(map(encode, value)))
    if isinstance(value, dict):
        body = b"".join(encode(key) + encode(item) for key, item in value.items())
        return encode_compound(0xC1, 2 * len(value), body)
    if isinstance(value, Array):
        return _encode_array(value)
    if isinstance(value, Described):
        return b"\x00" + encode(value.descriptor) + encode(value.value)
    encoder = getattr(value, "encode_described", None)
    if encoder is None:
        raise TypeError(f"no AMQP type for {value!r}")
    return bytes(encoder())


def _encode_int(value: int) -> bytes:
    kind = type(value)
    if kind not in _CODES:
        raise TypeError(f"no AMQP type for {value!r}")
    if value == 0 and kind in (UInt, ULong):
        return b"\x43" if kind is UInt else b"\x44"
    for code in _CODES[kind]:
        with contextlib.suppress(struct.error):
            return bytes((code,)) + struct.pack(_FIXED[code][0], value)
    raise ValueError(f"{value} does not fit in {kind.__name__}")


def _encode_text(value: Any) -> bytes:
    if isinstance(value, Char):
        return b"\x73" + struct.pack(">I", ord(value))
    if isinstance(value, Decimal):
        return {4: b"\x74", 8: b"\x84", 16: b"\x94"}[len(value)] + value
    if isinstance(value, str):
        code = 0xA3 if isinstance(value, Symbol) else 0xA1
        data = value.encode("ascii" if code == 0xA3 else "utf-8")
    else:
        code, data = 0xA0, bytes(value)
    if len(data) < 256:
        return bytes((code, len(data))) + data
    return struct.pack(">BI", code + 0x10, len(data)) + data


def encode_compound(code8: int, count: int, body: bytes) -> bytes:
    """Encode a list (0xC0), map (0xC1) or array (0xE0) of ``count`` elements in ``body``."""
    if code8 == 0xC0 and count == 0:
        return b"\x45"
    if len(body) + 1 < 256 and count < 256:
        return bytes((code8, len(body) + 1, count)) + body
    return struct.pack(">BII", code8 + 0x10, len(body) + 4, count) + body


def _encode_array(array: Array) -> bytes:
    body = bytes((array.code,)) + b"".join(_element(array.code, item) for item in array.items)
    return encode_compound(0xE0, len(array.items), body)


def _element(code: int, item: Any) -> bytes:
    """Encode an array element without its constructor, for the types that this codec writes."""
    if code in _EMPTY:
        return b""
    if code in _FIXED:
        return struct.pack(_FIXED[code][0], item)
    if code & 0xF0 in (0xA0, 0xB0):
        data = item.encode() if isinstance(item, str) else bytes(item)
        return struct.pack(">B" if code < 0xB0 else ">I", len(data)) + data
    raise TypeError(f"arrays of constructor 0x{code:02x} cannot be written here")


class Reader:
    """A reader of consecutive values in ``data``; malformed data raises WireError."""

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self.data = bytes(data)
        self.offset = offset

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        end = self.offset + size
        if end > len(self.data):
            raise WireError(f"{size} bytes wanted at offset {self.offset} of {len(self.data)}")
        data, self.offset = self.data[self.offset : end], end
        return data

    def more(self) -> bool:
        """Return whether bytes are left."""
        return self.offset < len(self.data)

    def value(self) -> Any:
        """Return the next value."""
        code = self.take(1)[0]
        if code != 0:
            return self._of(code)
        descriptor = self.value()
        return describe(descriptor, self.value())

    def _of(self, code: int) -> Any:
        if code in _EMPTY:
            return _EMPTY[code]
        if code == 0x45:
            return []
        if code in _FIXED:
            layout, kind = _FIXED[code]
            return kind(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])
        if code in _RAW:
            return Decimal(self.take(_RAW[code]))
        if code == 0x73:
            return Char(chr(int.from_bytes(self.take(4), "big")))
        if code == 0x98:
            return uuid.UUID(bytes=self.take(16))
        if code in (0xA0, 0xA1, 0xA3, 0xB0, 0xB1, 0xB3):
            return self._text(code)
        if code in (0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0):
            return self._compound(code)
        raise WireError(f"unknown constructor 0x{code:02x} at offset {self.offset - 1}")

    def _number(self, wide: bool) -> int:
        return int.from_bytes(self.take(4 if wide else 1), "big")

    def _text(self, code: int) -> Any:
        start = self.offset
        data = self.take(self._number(code >= 0xB0))
        if code in (0xA0, 0xB0):
            return data
        try:
            return data.decode() if code & 0x0F == 1 else Symbol(data.decode("ascii"))
        except UnicodeDecodeError as exc:
            raise WireError(f"bad text at offset {start}: {exc}") from exc

    def _compound(self, code: int) -> Any:
        wide = code & 0x10 != 0
        start = self.offset
        inner = Reader(self.take(self._number(wide)))
        count = inner._number(wide)
        if count > max(len(inner.data), 65536):  # the elements of an array may have no bytes
            raise WireError(f"{count} elements in {len(inner.data)} bytes at offset {start}")
        value = inner._elements(code, count)
        if inner.more():
            raise WireError(f"size and count do not agree in the compound at offset {start}")
        return value

    def _elements(self, code: int, count: int) -> Any:
        if code in (0xC0, 0xD0):
            return [self.value() for _ in range(count)]
        if code in (0xC1, 0xD1):
            if count % 2:
                raise WireError(f"a map of {count} elements")
            return {_key(self.value()): self.value() for _ in range(count // 2)}
        constructor = self.take(1)[0]
        if constructor == 0:
            descriptor, constructor = self.value(), self.take(1)[0]
            return Array(0, [describe(descriptor, self._of(constructor)) for _ in range(count)])
        return Array(constructor, [self._of(constructor) for _ in range(count)])


def _key(value: Any) -> Any:
    try:
        hash(value)
    except TypeError as exc:
        raise WireError(f"map key of type {type(value).__name__}") from exc
    return value


def decode(data: bytes, offset: int = 0) -> tuple[Any, int]:
    """Return the value at ``offset`` and the offset behind the value."""
    reader = Reader(data, offset)
    try:
        return reader.value(), reader.offset
    except (ValueError, OverflowError, RecursionError) as exc:
        if isinstance(exc, WireError):
            raise
        raise WireError(str(exc)) from exc


# Descriptor code -> class with from_fields(list). ``performatives.Composite`` registers each
# subclass.
COMPOSITES: dict[int, Any] = {}
NAMES: dict[str, int] = {}


def describe(descriptor: Any, value: Any) -> Any:
    """Return a composite of the specification if the descriptor names one, otherwise Described."""
    code = NAMES.get(descriptor) if isinstance(descriptor, Symbol) else descriptor
    if isinstance(code, int) and code in COMPOSITES:
        return COMPOSITES[code].from_fields(value)
    return Described(descriptor, value)
