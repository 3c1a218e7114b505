# SPDX-License-Identifier: Apache-2.0

"""Encoder of Python values as AMQP 1.0 primitive types (part 1 of the specification).

Pure functions, for any thread. They raise TypeError for a value without an AMQP type, and
ValueError (or its subclass UnicodeEncodeError) for a value outside the range of its type.
"""

import datetime
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from amqp1_driver.codec import types as t

NULL = b"\x40"
#: Deepest nesting of lists, maps, arrays and descriptors, for encoder and decoder.
MAX_DEPTH = 32

_Encoder = Callable[[Any, int], bytes]
_UINT32_MAX = 0xFFFFFFFF


def _packer(fmt: str, name: str) -> Callable[[Any], bytes]:
    pack = struct.Struct(fmt).pack

    def packed(value: Any) -> bytes:
        try:
            return pack(value)
        except (struct.error, OverflowError) as e:
            raise ValueError(f"{value!r} does not fit an AMQP {name}") from e

    return packed


# Fixed-width layouts: constructor code -> big-endian bytes of the value (1.6).
_UBYTE = _packer(">B", "ubyte")
_USHORT = _packer(">H", "ushort")
_UINT = _packer(">I", "uint")
_ULONG = _packer(">Q", "ulong")
_BYTE = _packer(">b", "byte")
_SHORT = _packer(">h", "short")
_INT = _packer(">i", "int")
_LONG = _packer(">q", "long")
_FLOAT = _packer(">f", "float")
_DOUBLE = _packer(">d", "double")
_TIMESTAMP = _packer(">q", "timestamp")


def variable(code8: int, data: bytes) -> bytes:
    """Encode a variable-width value: with ``code8`` up to 255 bytes, else with ``code8`` + 0x10."""
    size = len(data)
    if size < 256:
        return bytes((code8, size)) + data
    return bytes((code8 + 0x10,)) + _UINT(size) + data


def text(value: str) -> bytes:
    """Encode a string (1.6.20: utf-8, str8 or str32)."""
    return variable(0xA1, value.encode())


def compound(code8: int, count: int, data: bytes) -> bytes:
    """Encode a list (0xc0) or map (0xc1) of ``count`` items; the size includes the count."""
    if len(data) < 255 and count < 256:
        return bytes((code8, len(data) + 1, count)) + data
    return bytes((code8 + 0x10,)) + _UINT(len(data) + 4) + _UINT(count) + data


def _bool(value: bool, depth: int) -> bytes:
    return b"\x41" if value else b"\x42"


def _uint(value: int, depth: int) -> bytes:
    if value == 0:
        return b"\x43"
    return b"\x52" + _UBYTE(value) if 0 < value < 256 else b"\x70" + _UINT(value)


def _ulong(value: int, depth: int) -> bytes:
    if value == 0:
        return b"\x44"
    return b"\x53" + _UBYTE(value) if 0 < value < 256 else b"\x80" + _ULONG(value)


def _int(value: int, depth: int) -> bytes:
    return b"\x54" + _BYTE(value) if -128 <= value < 128 else b"\x71" + _INT(value)


def _long(value: int, depth: int) -> bytes:
    return b"\x55" + _BYTE(value) if -128 <= value < 128 else b"\x81" + _LONG(value)


def _plain_int(value: int, depth: int) -> bytes:
    return _ulong(value, depth) if value >= 0 else _long(value, depth)


def _symbol(value: str, depth: int) -> bytes:
    return variable(0xA3, value.encode("ascii"))


def _decimal(value: bytes, depth: int) -> bytes:
    code = {4: b"\x74", 8: b"\x84", 16: b"\x94"}.get(len(value))
    if code is None:
        raise ValueError(f"a decimal has 4, 8 or 16 bytes, not {len(value)}")
    return code + value


def _milliseconds(value: datetime.datetime) -> int:
    if value.tzinfo is None:
        raise ValueError("a timestamp needs a datetime with a time zone")
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return (value - epoch) // datetime.timedelta(milliseconds=1)


def _list(value: list[Any] | tuple[Any, ...], depth: int) -> bytes:
    if not value:
        return b"\x45"
    return compound(0xC0, len(value), b"".join([_encode(item, depth) for item in value]))


def _map(value: Mapping[Any, Any], depth: int) -> bytes:
    parts = []
    for key, item in value.items():
        parts.append(_encode(key, depth))
        parts.append(_encode(item, depth))
    return compound(0xC1, len(parts), b"".join(parts))


def _described(value: t.Described, depth: int) -> bytes:
    return b"\x00" + _encode(value.descriptor, depth) + _encode(value.value, depth)


# All items of an array share one constructor, so each type needs one fixed layout.
_ITEMS: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {
    bool: (b"\x56", lambda v: b"\x01" if v else b"\x00"),
    t.UByte: (b"\x50", _UBYTE),
    t.UShort: (b"\x60", _USHORT),
    t.UInt: (b"\x70", _UINT),
    t.ULong: (b"\x80", _ULONG),
    t.Byte: (b"\x51", _BYTE),
    t.Short: (b"\x61", _SHORT),
    t.Int: (b"\x71", _INT),
    t.Long: (b"\x81", _LONG),
    t.Float: (b"\x72", _FLOAT),
    float: (b"\x82", _DOUBLE),
    t.Timestamp: (b"\x83", _TIMESTAMP),
    uuid.UUID: (b"\x98", lambda v: bytes(v.bytes)),
    bytes: (b"\xb0", lambda v: _UINT(len(v)) + v),
    str: (b"\xb1", lambda v: _UINT(len(d := v.encode())) + d),
    t.Symbol: (b"\xb3", lambda v: _UINT(len(d := v.encode("ascii"))) + d),
}


def _array(value: t.Array, depth: int) -> bytes:
    try:
        constructor, item = _ITEMS[value.item_type]
    except KeyError:
        raise TypeError(f"no AMQP array of {value.item_type.__name__}") from None
    data = constructor + b"".join([item(v) for v in value.items])
    return b"\xf0" + _UINT(len(data) + 4) + _UINT(len(value.items)) + data


# By exact type; _encoder() looks up a subclass by the order of its bases (__mro__).
_ENCODERS: dict[type, _Encoder] = {
    str: lambda v, d: text(v),
    bool: _bool,
    int: _plain_int,
    bytes: lambda v, d: variable(0xA0, bytes(v)),
    type(None): lambda v, d: NULL,
    dict: _map,
    list: _list,
    tuple: _list,
    float: lambda v, d: b"\x82" + _DOUBLE(v),
    t.Symbol: _symbol,
    t.UByte: lambda v, d: b"\x50" + _UBYTE(v),
    t.UShort: lambda v, d: b"\x60" + _USHORT(v),
    t.UInt: _uint,
    t.ULong: _ulong,
    t.Byte: lambda v, d: b"\x51" + _BYTE(v),
    t.Short: lambda v, d: b"\x61" + _SHORT(v),
    t.Int: _int,
    t.Long: _long,
    t.Float: lambda v, d: b"\x72" + _FLOAT(v),
    t.Char: lambda v, d: b"\x73" + _UINT(ord(v)),
    t.Timestamp: lambda v, d: b"\x83" + _TIMESTAMP(v),
    t.Decimal: _decimal,
    t.Described: _described,
    t.Array: _array,
    datetime.datetime: lambda v, d: b"\x83" + _TIMESTAMP(_milliseconds(v)),
    uuid.UUID: lambda v, d: b"\x98" + v.bytes,
    bytearray: lambda v, d: variable(0xA0, bytes(v)),
    memoryview: lambda v, d: variable(0xA0, bytes(v)),
}


def _encoder(kind: type) -> _Encoder:
    for base in kind.__mro__:
        found = _ENCODERS.get(base)
        if found is not None:
            return found
    if issubclass(kind, Mapping):
        return _map
    raise TypeError(f"no AMQP type for {kind.__name__}")


def _encode(value: Any, depth: int) -> bytes:
    if depth <= 0:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    return (_ENCODERS.get(kind) or _encoder(kind))(value, depth - 1)


def encode(value: Any) -> bytes:
    """Return the AMQP encoding of ``value``, constructor included.

    int: ulong when >= 0, else long; float: double; str: string; bytes: binary;
    dict: map; list and tuple: list; an aware datetime: timestamp; UUID: uuid. The wrappers of
    ``amqp1_driver.codec.types`` choose the other AMQP types.

    :raises TypeError: the value has no AMQP type.
    :raises ValueError: the value is outside the range of its type.
    """
    return _encode(value, MAX_DEPTH)
