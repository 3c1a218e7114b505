# SPDX-License-Identifier: Apache-2.0

"""Which end belongs to which start."""

from __future__ import annotations

from typing import Any

from tests.pipeline.transform.frames import plain, silver


def _row(
    time: str, event: str, request: str | None, resource: str | None, **more: Any
) -> dict[str, Any]:
    return {"time": time, "event": event, "request_id": request, "resource_id": resource, **more}


def test_pairs(spark: Any) -> None:
    from amqp1_driver.pipeline.transform.operations import operations

    frame = operations(
        silver(
            spark,
            # two instances of one request, in each other's way
            _row("02 08:00:00", "a.start", "r1", "x"),
            _row("02 08:00:01", "a.start", "r1", "y"),
            _row("02 08:00:04", "a.end", "r1", "y"),
            _row("02 08:00:09", "a.end", "r1", "x"),
            # a second attempt: the first failed, or only never ended
            _row("02 08:00:00", "b.start", "r2", "x"),
            _row("02 08:00:02", "b.error", "r2", "x", error="no room"),
            _row("02 08:00:03", "b.start", "r2", "x"),
            _row("02 08:00:04", "b.start", "r2", "x"),
            _row("02 08:00:08", "b.end", "r2", "x"),
            # start and end at the same time, the end taken in first
            _row("02 08:00:00", "c.end", "r3", "x"),
            _row("02 08:00:00", "c.start", "r3", "x"),
            # an end without a start, and an error after an end
            _row("02 08:00:00", "d.end", "r4", "x"),
            _row("02 08:00:01", "d.error", "r4", "x", error="late"),
            # over midnight; and later than is looked for
            _row("02 23:59:59", "e.start", "r5", "x"),
            _row("03 00:00:01", "e.end", "r5", "x"),
            _row("02 12:00:00", "f.start", "r6", "x"),
            _row("04 00:00:00", "f.end", "r6", "x"),
            # without a request id the resource is enough, without both nothing belongs together
            _row("02 08:00:00", "g.start", None, "x"),
            _row("02 08:00:05", "g.end", None, "x"),
            _row("02 08:00:00", "h.start", None, None),
            _row("02 08:00:05", "h.end", None, None),
            # a start without an id takes that of its end, if it can be only one
            _row("02 08:00:00", "i.start", "r9", None),
            _row("02 08:00:01", "i.end", "r9", "p"),
            _row("02 08:00:00", "j.start", "r9", None),
            _row("02 08:00:01", "j.end", "r9", "p"),
            _row("02 08:00:02", "j.end", "r9", "q"),
            # no phase: no operation
            _row("02 08:00:00", "k.exists", "r10", "x"),
        )
    )
    assert sorted(
        (
            row.event,
            row.started_at or row.ended_at,
            row.outcome,
            row.resource_id,
            row.seconds,
            row.error,
            str(row.day)[8:],
        )
        for row in frame.collect()
    ) == [
        ("a", plain("02 08:00:00"), "ended", "x", 9.0, None, "02"),
        ("a", plain("02 08:00:01"), "ended", "y", 3.0, None, "02"),
        ("b", plain("02 08:00:00"), "failed", "x", 2.0, "no room", "02"),
        ("b", plain("02 08:00:03"), "unmatched", "x", None, None, "02"),
        ("b", plain("02 08:00:04"), "ended", "x", 4.0, None, "02"),
        ("c", plain("02 08:00:00"), "ended", "x", 0.0, None, "02"),
        ("d", plain("02 08:00:00"), "orphaned", "x", None, None, "02"),
        ("d", plain("02 08:00:01"), "orphaned", "x", None, "late", "02"),
        ("e", plain("02 23:59:59"), "ended", "x", 2.0, None, "02"),
        ("f", plain("02 12:00:00"), "unmatched", "x", None, None, "02"),
        ("f", plain("04 00:00:00"), "orphaned", "x", None, None, "04"),
        ("g", plain("02 08:00:00"), "ended", "x", 5.0, None, "02"),
        ("i", plain("02 08:00:00"), "ended", "p", 1.0, None, "02"),
        ("j", plain("02 08:00:00"), "unmatched", None, None, None, "02"),
        ("j", plain("02 08:00:01"), "orphaned", "p", None, None, "02"),
        ("j", plain("02 08:00:02"), "orphaned", "q", None, None, "02"),
    ]


def test_errors(spark: Any) -> None:
    from amqp1_driver.pipeline.transform.errors import errors

    host = {"publisher_host": "h"}
    frame = errors(
        silver(
            spark,
            {"time": "02 08:00:00", "event": "a.start", **host},
            {"time": "02 08:00:01", "event": "a.end", **host},
            {"time": "02 08:00:02", "event": "a.error", "error": "first", **host},
            {"time": "02 08:00:03", "event": "a.error", "error": "second", **host},
            {"time": "02 08:00:04", "event": "a.error", **host},
            {"time": "02 08:00:00", "event": "b.start", **host},
            {"time": "02 08:00:00", "event": "c", "failed": True},
            {"time": "03 08:00:00", "event": "c"},
        )
    )
    assert sorted((*tuple(row)[2:], str(row.day)[8:]) for row in frame.collect()) == [
        ("a", 5, 4, 3, 0.75, "second", "02"),
        ("b", 1, 0, 0, None, None, "02"),
        ("c", 1, 1, 0, 0.0, None, "03"),
        ("c", 1, 1, 1, 1.0, None, "02"),
    ]
