# SPDX-License-Identifier: Apache-2.0

"""The rows of the spool and their Arrow form, in which Spark also gets them.  Any thread."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

LOG = logging.getLogger(__name__)

#: columns of a segment, as Spark has them in Arrow for the data source; times are UTC
SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("address", pa.string()),
        pa.field("message_id", pa.string()),
        pa.field("body", pa.binary()),
        pa.field("content_type", pa.string()),
        pa.field("properties", pa.map_(pa.string(), pa.string())),
        pa.field("delivery_count", pa.int32()),
        pa.field("enqueued_time", pa.timestamp("us", tz="UTC")),
        pa.field("received_time", pa.timestamp("us", tz="UTC")),
    ]
)
#: most rows and bytes of one record batch, which a worker sends to Spark in one piece
BATCH_ROWS = 8192
BATCH_BYTES = 16 * 1024 * 1024
#: most bytes on disc of a row, and of one of its properties, beside texts and body: offsets,
#: numbers, validity bits
ROW_BYTES = 64
PROPERTY_BYTES = 10
#: name of the property with the reason why a message could not be read; the row's body then has
#: the bytes of the whole message, or of its body alone
UNDECODABLE = "amqp1:undecodable"
#: most characters of such a reason
REASON_LENGTH = 300
#: most bytes of a character
UTF8_BYTES = 4
#: errors that Arrow raises for a value that its column cannot hold
_REFUSED = (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError)
#: bytes of a record batch's padding and metadata; bytes of a file's schema, footer and magic
BATCH_OVERHEAD = 8192
FILE_OVERHEAD = 8192


class Row(NamedTuple):
    """A delivery, as the spool stores it. Times are microseconds since 1970, UTC.

    ``body`` holds the bytes of the body section, and ``properties`` the application-properties as
    strings (AMQP 1.0, 3.2.5 to 3.2.8). ``delivery_count`` comes from the header (3.2.1).
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
    """Return the most bytes that each row takes in a segment, without its batch's overhead."""
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
    """Make a record batch of :data:`SCHEMA`.

    If Arrow refuses a row, the other rows stay as they are. The refused row keeps its address, body
    and time of receipt, and its property :data:`UNDECODABLE` has the reason.

    :param rows: at least one
    :param first: sequence number of the first row
    """
    try:
        return _to_batch(rows, first)
    except _REFUSED:
        return _to_batch([_accepted(row) for row in rows], first)


def _accepted(row: Row) -> Row:
    """Return the row if Arrow accepts it; else a row reduced as in :func:`to_batch`."""
    try:
        _to_batch([row], 0)
    except _REFUSED as error:
        reason = f"{type(error).__name__}: {error}"[:REASON_LENGTH]
        reason = reason.encode("utf-8", "replace").decode()
        LOG.error("A row of the spool is kept without its properties: %s", reason)
        address = str(row.address or "").encode("utf-8", "replace").decode()
        return Row(
            address, None, bytes(row.body), None, {UNDECODABLE: reason}, 0, None, row.received_us
        )
    return row


def _to_batch(rows: Sequence[Row], first: int) -> Any:
    addresses, ids, bodies, types, properties, counts, enqueued, received = zip(*rows, strict=True)
    columns = (
        range(first, first + len(rows)),
        addresses,
        ids,
        bodies,
        types,
        [None if entry is None else list(entry.items()) for entry in properties],
        counts,
        enqueued,
        received,
    )
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
