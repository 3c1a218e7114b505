# SPDX-License-Identifier: Apache-2.0

"""The codec for AMQP 1.0 messages that the driver sends and receives. For any thread.

Pure; no module needs proton. Modules: types (AMQP types that Python lacks), encoder and decoder
(primitive values; together ``primitives``), messages (encode messages), reader and shapes (decode
messages), payload (the JSON in the bodies).
"""

from amqp1_driver.codec.messages import (
    LARGE,
    MAX_TTL_MS,
    Encoded,
    Template,
    encode_data,
    encode_heartbeat,
    encode_message,
    encode_reply,
)
from amqp1_driver.codec.payload import (
    Request,
    compress,
    decompress,
    dump_reply,
    dump_request,
    load_notification,
    load_reply,
    load_request,
)
from amqp1_driver.codec.primitives import (
    Array,
    Described,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    decode,
    encode,
)
from amqp1_driver.codec.reader import Message, decode_message
from amqp1_driver.codec.shapes import Decoder

__all__ = [
    "LARGE",
    "MAX_TTL_MS",
    "Array",
    "Decoder",
    "Described",
    "Encoded",
    "Message",
    "Request",
    "Symbol",
    "Template",
    "Timestamp",
    "UInt",
    "ULong",
    "compress",
    "decode",
    "decode_message",
    "decompress",
    "dump_reply",
    "dump_request",
    "encode",
    "encode_data",
    "encode_heartbeat",
    "encode_message",
    "encode_reply",
    "load_notification",
    "load_reply",
    "load_request",
]
