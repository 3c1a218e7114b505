# SPDX-License-Identifier: Apache-2.0

"""Small literal frames."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

RECEIVED = datetime.datetime(2026, 3, 10, tzinfo=datetime.UTC)


def at(text: str) -> datetime.datetime:
    """``02 08:30:00`` is the 2nd of March 2026, in UTC."""
    return datetime.datetime.fromisoformat(f"2026-03-{text}").replace(tzinfo=datetime.UTC)


def plain(text: str) -> datetime.datetime:
    """As :func:`at`, as Spark gives it back: without a zone."""
    return at(text).replace(tzinfo=None)


def raw(spark: Any, bodies: list[bytes | None]) -> Any:
    """Rows of the source with these bodies; ``seq`` is the place in the list."""
    from amqp1_driver.pipeline.source.schema import RAW

    return spark.createDataFrame(
        [
            (
                seq,
                "queue",
                f"amqp-{seq}",
                None if body is None else bytearray(body),
                None,
                None,
                0,
                None,
                RECEIVED,
            )
            for seq, body in enumerate(bodies)
        ],
        RAW,
    )


def message(event_type: str, payload: Any, **fields: Any) -> dict[str, Any]:
    """A notification as oslo.messaging's notifier makes it."""
    return {
        "message_id": "m-1",
        "publisher_id": "compute.host-1",
        "event_type": event_type,
        "priority": "INFO",
        "timestamp": "2026-03-02 08:00:00.250000",
        "payload": payload,
        **fields,
    }


def wrapped(inner: Mapping[str, Any], **context: Any) -> bytes:
    """In the envelope of this driver."""
    return json.dumps(
        {"request": {"oslo.version": "2.0", "oslo.message": json.dumps(inner)}, "context": context}
    ).encode()


def silver(spark: Any, *rows: Mapping[str, Any]) -> Any:
    """Rows of silver from what matters; ``time`` as ``02 08:30:00``, ``event`` with its phase."""
    from amqp1_driver.pipeline.transform.schemas import SILVER

    made = []
    for number, row in enumerate(rows):
        time = at(row["time"])
        event, _, phase = row["event"].rpartition(".")
        if phase not in ("start", "end", "error"):
            event, phase = row["event"], None
        values = {
            "message_id": f"m-{number:03d}",
            "failed": phase == "error",
            **row,
            "time": time,
            "day": time.date(),
            "event": event,
            "phase": phase,
            "received_time": RECEIVED,
        }
        made.append(tuple(values.get(name) for name in SILVER.fieldNames()))
    return spark.createDataFrame(made, SILVER)
