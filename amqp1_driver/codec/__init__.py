# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""AMQP 1.0 messages as bytes: what the driver sends and what it receives.

Pure; nothing here needs proton. Modules: types (AMQP types Python lacks), encoder and decoder
(primitive values; together ``primitives``), messages (written), reader and shapes (received),
payload (the JSON inside).
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
    "load_reply",
    "load_request",
]
