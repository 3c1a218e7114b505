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

"""Rows of the spool and their Arrow form, which is also the form that Spark is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

#: what Spark makes of the columns of the data source; times are UTC
SCHEMA = pa.schema([
    pa.field("seq", pa.int64(), nullable=False),
    pa.field("address", pa.string()),
    pa.field("message_id", pa.string()),
    pa.field("body", pa.binary()),
    pa.field("content_type", pa.string()),
    pa.field("properties", pa.map_(pa.string(), pa.string())),
    pa.field("delivery_count", pa.int32()),
    pa.field("enqueued_time", pa.timestamp("us", tz="UTC")),
    pa.field("received_time", pa.timestamp("us", tz="UTC")),
])
#: rows and bytes in one record batch at most: what a worker sends to Spark in one piece
BATCH_ROWS = 8192
BATCH_BYTES = 16 * 1024 * 1024
#: bytes on disc at most, beside the texts and the body: offsets, numbers, validity bits
ROW_BYTES = 64
PROPERTY_BYTES = 10
#: of a character, at most
UTF8_BYTES = 4
#: padding and metadata of each record batch; schema, footer and magic of the file
BATCH_OVERHEAD = 8192
FILE_OVERHEAD = 8192


class Row(NamedTuple):
    """One delivery. Times are microseconds since 1970, UTC.

    ``body`` is the bytes of the body section, ``properties`` the application-properties as
    strings (AMQP 1.0, 3.2.5 to 3.2.8); ``delivery_count`` as in the header (3.2.1).
    """

    address: str | None
    message_id: str | None
    body: bytes
    content_type: str | None
    properties: dict[str, str] | None
    delivery_count: int
    enqueued_us: int | None
    received_us: int


def sizes(rows: Sequence[Row]) -> list[int]:
    """Bytes that each row takes in a segment at most, apart from the overhead of its batch."""
    found = []
    for address, message_id, body, content_type, properties, *_ in rows:
        size = ROW_BYTES + len(body)
        for text in (address, message_id, content_type):
            if text:
                size += len(text) if text.isascii() else UTF8_BYTES * len(text)
        if properties:
            for key, value in properties.items():
                size += PROPERTY_BYTES + UTF8_BYTES * (len(key) + len(value))
        found.append(size)
    return found


def to_batch(rows: Sequence[Row], first: int) -> Any:
    """A record batch of :data:`SCHEMA`; ``first`` is the sequence number of the first row."""
    addresses, ids, bodies, types, properties, counts, enqueued, received = zip(
        *rows, strict=True)
    columns = (
        range(first, first + len(rows)), addresses, ids, bodies, types,
        [None if entry is None else list(entry.items()) for entry in properties],
        counts, enqueued, received,
    )
    arrays = [pa.array(column, type=field.type)
              for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
