# SPDX-License-Identifier: Apache-2.0

"""Python types for AMQP 1.0 values that plain Python types cannot distinguish.

Pure values, for any thread. The encoder chooses the AMQP type by these wrappers. The decoder
returns integers of every width as plain ``int``, and symbols, characters, decimals and timestamps
as the classes below.
"""

from dataclasses import dataclass
from typing import Any


class Symbol(str):
    """AMQP symbol (1.6.21): ASCII text for symbolic values."""

    __slots__ = ()


class Char(str):
    """AMQP char (1.6.16): one Unicode character."""

    __slots__ = ()


class UByte(int):
    """Unsigned 8-bit integer (1.6.3)."""

    __slots__ = ()


class UShort(int):
    """Unsigned 16-bit integer (1.6.4)."""

    __slots__ = ()


class UInt(int):
    """Unsigned 32-bit integer (1.6.5)."""

    __slots__ = ()


class ULong(int):
    """Unsigned 64-bit integer (1.6.6); the encoder uses it for a plain ``int`` >= 0, too."""

    __slots__ = ()


class Byte(int):
    """Signed 8-bit integer (1.6.7)."""

    __slots__ = ()


class Short(int):
    """Signed 16-bit integer (1.6.8)."""

    __slots__ = ()


class Int(int):
    """Signed 32-bit integer (1.6.9)."""

    __slots__ = ()


class Long(int):
    """Signed 64-bit integer (1.6.10); the encoder uses it for a plain negative ``int``, too."""

    __slots__ = ()


class Float(float):
    """32-bit IEEE 754 number (1.6.11); a plain ``float`` is a 64-bit double."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970-01-01T00:00:00Z (1.6.17)."""

    __slots__ = ()


class Decimal(bytes):
    """IEEE 754 decimal32/64/128 (1.6.13-1.6.15), kept as its 4, 8 or 16 raw bytes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A described value (1.2): a descriptor, usually a symbol or ulong, and a value."""

    descriptor: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Array:
    """AMQP array (1.6.24): items of one type. Decoded arrays are plain lists.

    :param item_type: the class that gives the AMQP type of all items, e.g. ``Symbol``, ``str``,
        ``ULong``.
    """

    items: tuple[Any, ...]
    item_type: type
