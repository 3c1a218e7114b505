# SPDX-License-Identifier: Apache-2.0

"""The operations of services: each start with its end, or one of them alone.  Pure; any thread.

A start and its end have the same event, request id and resource. A request may have several
attempts, since nova tries another host; each result belongs to the last start before it.

An end belongs to a start only until the end of the following day (:data:`HORIZON_DAYS`). So the
table of a day depends on that day and its neighbours only.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import typed
from amqp1_driver.pipeline.transform.schemas import DURATIONS, OPERATIONS

#: days after the start's day on which its end may come
HORIZON_DAYS = 1
#: order at equal times: a start comes first
_RANK = "CASE phase WHEN 'start' THEN 0 ELSE 1 END"
_KEYS = ("event", "request_id", "resource_id")


def operations(silver: DataFrame) -> DataFrame:
    """Return rows of :data:`OPERATIONS`.

    ``day`` is the day of the start, or of the end if there is no start. ``outcome`` is ``ended``,
    ``failed``, ``unmatched`` (a start without an end) or ``orphaned`` (an end or error without a
    start).
    """
    frame = silver.where(
        "phase IS NOT NULL AND (request_id IS NOT NULL OR resource_id IS NOT NULL)"
    )
    order = Window.partitionBy(*_KEYS).orderBy("time", F.expr(_RANK), "message_id")
    frame = _with_resource(frame).withColumns(
        {
            "_before": F.lag(F.struct("phase", "time")).over(order),
            "_next": F.lead(F.struct("phase", "time", "error", "tenant_id")).over(order),
        }
    )
    is_start = F.col("phase") == "start"
    closed = _pair(F.col("phase"), F.col("time"), F.col("_next.phase"), F.col("_next.time"))
    taken = _pair(F.col("_before.phase"), F.col("_before.time"), F.col("phase"), F.col("time"))
    # A result that belongs to a start has no row of its own.
    frame = frame.withColumns({"_closed": closed, "_taken": taken}).where("NOT _taken")
    closed = F.col("_closed")
    result = F.when(closed, F.col("_next.phase"))
    frame = frame.withColumns(
        {
            "outcome": F.when(result == "end", "ended")
            .when(result == "error", "failed")
            .when(is_start, "unmatched")
            .otherwise("orphaned"),
            "started_at": F.when(is_start, F.col("time")),
            "ended_at": F.when(closed, F.col("_next.time")).when(~is_start, F.col("time")),
            "error": F.when(closed, F.col("_next.error")).otherwise(F.col("error")),
            "tenant_id": F.coalesce("tenant_id", F.when(closed, F.col("_next.tenant_id"))),
        }
    )
    frame = frame.withColumn(
        "seconds", F.when(closed, (F.unix_micros("ended_at") - F.unix_micros("started_at")) / 1e6)
    )
    return typed(frame, OPERATIONS)


def durations(operations: DataFrame) -> DataFrame:
    """Return rows of :data:`DURATIONS`: operations by day and event.

    The times are of operations that ended. The percentiles are exact, with linear interpolation.
    """

    def count(outcome: str) -> Column:
        return F.count_if(F.col("outcome") == outcome)

    ended = F.when(F.col("outcome") == "ended", F.col("seconds"))
    return typed(
        operations.groupBy("day", "event").agg(
            count("ended").alias("finished"),
            count("failed").alias("failed"),
            count("unmatched").alias("unmatched"),
            count("orphaned").alias("orphaned"),
            F.avg(ended).alias("mean_s"),
            F.percentile(ended, 0.5).alias("p50_s"),
            F.percentile(ended, 0.99).alias("p99_s"),
            F.max(ended).alias("max_s"),
        ),
        DURATIONS,
    )


def _pair(phase: Column, time: Column, next_phase: Column, next_time: Column) -> Column:
    """Return whether a notification is a start and the next one is its result."""
    near = F.to_date(next_time) <= F.date_add(F.to_date(time), HORIZON_DAYS)
    return F.coalesce((phase == "start") & (next_phase != "start") & near, F.lit(False))


def _with_resource(frame: DataFrame) -> DataFrame:
    """Fill missing resource ids from the same event and request, if these name one resource only.

    neutron sends ``port.create.start`` before the port has an id.
    """
    same = Window.partitionBy("event", "request_id")
    only = F.when(
        F.min("resource_id").over(same) == F.max("resource_id").over(same),
        F.max("resource_id").over(same),
    )
    borrowed = F.when(F.col("request_id").isNotNull(), only)
    return frame.withColumn("resource_id", F.coalesce("resource_id", borrowed))
