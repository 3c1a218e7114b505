# SPDX-License-Identifier: Apache-2.0

"""Bronze's files without Spark, and tables as plain rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from amqp1_driver.pipeline.generate.story import Emission

RECEIVED = datetime.datetime(2026, 3, 10, 12, tzinfo=datetime.UTC)
_SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        ("address", pa.string()),
        ("message_id", pa.string()),
        ("body", pa.binary()),
        ("content_type", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("delivery_count", pa.int32()),
        ("enqueued_time", pa.timestamp("us", tz="UTC")),
        ("received_time", pa.timestamp("us", tz="UTC")),
    ]
)


def add_bronze(folder: str | Path, emissions: Iterable[Emission], first: int) -> None:
    """One file of bronze; ``first`` is the number of its first row."""
    rows = [
        {
            "seq": number,
            "address": f"notifications.{emission.priority}",
            "message_id": emission.message_id,
            "body": emission.body,
            "content_type": None,
            "properties": [],
            "delivery_count": 0,
            "enqueued_time": None,
            "received_time": RECEIVED + datetime.timedelta(milliseconds=number),
        }
        for number, emission in enumerate(emissions, first)
    ]
    path = Path(folder) / "date=2026-03-10" / f"{first:06d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), path)


def rows(frame: Any, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a frame, sorted, nulls first."""
    found = [tuple(row) for row in frame.select(*columns).collect()]
    return sorted(found, key=lambda row: [(value is not None, value) for value in row])
