# SPDX-License-Identifier: Apache-2.0

"""The figures of a lake's report: Spark aggregates the tables into few rows of plain values.

On the driver program's thread.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from amqp1_driver.pipeline.lake.layout import Lake

#: rows of a list, at most
MOST_ROWS = 20
_HOURS = (
    "instance_hours",
    "vcpu_hours",
    "ram_gib_hours",
    "disk_gb_hours",
    "volume_gb_hours",
    "port_hours",
)


class Figures(NamedTuple):
    """The rows of the report's tables and plots, as tuples in the order of display."""

    #: kind, notifications, failed
    services: list[tuple[Any, ...]]
    #: day, tenant, vCPU hours
    vcpus: list[tuple[datetime.date, str, float]]
    #: tenant, and its hours of each kind over all days
    usage: list[tuple[Any, ...]]
    #: event, ended, failed, unmatched, orphaned, median, p99, longest (the last three in seconds)
    operations: list[tuple[Any, ...]]
    #: day, event, started, resource, tenant, host of starts without an end; newest first
    unmatched: list[tuple[Any, ...]]
    #: host, event, results, errors, rate, last error; most errors first
    errors: list[tuple[Any, ...]]
    #: day, status, resources
    audit: list[tuple[datetime.date, str, int]]
    #: day, kind, resource, tenant, host, status, reason, where audit and observation disagree;
    #: newest first
    disagreements: list[tuple[Any, ...]]
    #: reason, messages
    malformed: list[tuple[str, int]]


def figures(lake: Lake) -> Figures:
    """Read the tables of the lake, and return the figures of the report."""
    usage, operations = lake.read_gold("usage"), lake.read_gold("operations")
    audit = lake.read_gold("audit")
    kind = F.coalesce("kind", F.lit("other")).alias("kind")
    counts = (F.count(F.lit(1)), F.count_if("failed"))
    return Figures(
        services=_rows(lake.read_silver().groupBy(kind).agg(*counts).orderBy("kind")),
        vcpus=_rows(
            usage.where("vcpu_hours > 0")
            .select("day", _known("tenant_id"), "vcpu_hours")
            .orderBy("day", "tenant_id")
        ),
        usage=_rows(
            usage.groupBy(_known("tenant_id"))
            .agg(*(F.sum(name).alias(name) for name in _HOURS))
            .orderBy(F.desc("vcpu_hours"), "tenant_id")
        ),
        operations=_rows(_by_event(operations)),
        unmatched=_rows(
            operations.where("outcome = 'unmatched'")
            .orderBy(F.desc("started_at"))
            .limit(MOST_ROWS)
            .select("day", "event", "started_at", "resource_id", "tenant_id", "publisher_host")
        ),
        errors=_rows(_by_host(lake.read_gold("errors"))),
        audit=_rows(audit.groupBy("day", "status").count().orderBy("day", "status")),
        disagreements=_rows(
            audit.where("status <> 'matched'")
            .orderBy(F.desc("day"), "kind", "resource_id")
            .limit(MOST_ROWS)
            .select("day", "kind", "resource_id", "tenant_id", "host", "status", "reason")
        ),
        malformed=_rows(
            lake.read_malformed().groupBy("reason").count().orderBy(F.desc("count"), "reason")
        ),
    )


def _rows(frame: DataFrame) -> list[Any]:
    return [tuple(row) for row in frame.collect()]


def _known(name: str) -> Column:
    return F.coalesce(name, F.lit("unknown")).alias(name)


def _by_event(operations: DataFrame) -> DataFrame:
    ended = F.when(F.col("outcome") == "ended", F.col("seconds"))
    return (
        operations.groupBy("event")
        .agg(
            *(
                F.count_if(F.col("outcome") == outcome)
                for outcome in ("ended", "failed", "unmatched", "orphaned")
            ),
            F.percentile(ended, 0.5),
            F.percentile(ended, 0.99),
            F.max(ended),
        )
        .orderBy("event")
    )


def _by_host(errors: DataFrame) -> DataFrame:
    summed = errors.groupBy("publisher_host", "event").agg(
        F.sum("results").alias("results"),
        F.sum("errors").alias("errors"),
        F.max_by("last_error", F.when(F.col("last_error").isNotNull(), F.col("day"))).alias("last"),
    )
    summed = summed.where("errors > 0").withColumn("rate", F.col("errors") / F.col("results"))
    return (
        summed.select(_known("publisher_host"), "event", "results", "errors", "rate", "last")
        .orderBy(F.desc("errors"), "publisher_host", "event")
        .limit(MOST_ROWS)
    )
