# SPDX-License-Identifier: Apache-2.0

"""The names of encoder.py, decoder.py and types.py that encode and decode primitive values.

Pure, for any thread.
"""

from amqp1_driver.codec.decoder import decode
from amqp1_driver.codec.encoder import MAX_DEPTH, NULL, encode
from amqp1_driver.codec.types import (
    Array,
    Byte,
    Char,
    Decimal,
    Described,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

__all__ = [
    "MAX_DEPTH",
    "NULL",
    "Array",
    "Byte",
    "Char",
    "Decimal",
    "Described",
    "Float",
    "Int",
    "Long",
    "Short",
    "Symbol",
    "Timestamp",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "decode",
    "encode",
]
