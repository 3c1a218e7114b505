# SPDX-License-Identifier: Apache-2.0

"""Small literal frames of records."""

from __future__ import annotations

import json
from typing import Any

from amqp1_driver.pipeline.transform import telemetry_records as base

#: the day of all records
DAY = "2026-11-21T"


def send(time: str, address: str | None = "nova", operation: str = "call", **fields: Any) -> str:
    """A message that got there, unless ``fields`` say otherwise."""
    return line(
        time,
        "send",
        **{"address": address, "operation": operation, "outcome": "accepted", **fields},
    )


def line(time: str, kind: str, **fields: Any) -> str:
    """A record as a line; ``time`` is that of the day."""
    record = {"time": f"{DAY}{time}Z", "kind": kind, "container": "c1", "pid": 1, "dropped": 0}
    return json.dumps({k: v for k, v in {**record, **fields}.items() if v is not None})


def parsed(spark: Any, *lines: str) -> Any:
    """Records as they are read, with what is none."""
    return base.of_lines(spark.createDataFrame([(text,) for text in lines], "value string"))


def good(spark: Any, *lines: str) -> Any:
    """The records."""
    return base.good(parsed(spark, *lines))


def rows(frame: Any, *names: str) -> list[tuple[Any, ...]]:
    """Values, all columns or some."""
    return [tuple(row) for row in (frame.select(*names) if names else frame).collect()]
