# SPDX-License-Identifier: Apache-2.0

"""The failed messages in telemetry, by address, cause and stage.  Pure; any thread."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_latency import ACCURACY
from amqp1_driver.pipeline.transform.telemetry_records import messages


def rates(records: DataFrame) -> DataFrame:
    """Compute the share of messages that failed, by address and operation.

    :returns: place, operation, count, failed, share; only rows with failures, the most failures
        first
    """
    failed = F.count_if("failed")
    return (
        messages(records)
        .groupBy("place", "operation")
        .agg(
            F.count("*").alias("count"),
            failed.alias("failed"),
            (failed / F.count("*")).alias("share"),
        )
        .filter("failed > 0")
        .orderBy(F.desc("failed"), "place", "operation")
    )


def causes(records: DataFrame) -> DataFrame:
    """Count failures by operation, outcome, error and stage.

    :returns: operation, outcome, error, stage, failed, share (of all messages of the operation),
        first, last (times); the most failures first
    """
    sent = messages(records)
    all_of_them = sent.groupBy("operation").agg(F.count("*").alias("all"))
    found = (
        sent.filter("failed")
        .groupBy("operation", "outcome", "error", "stage")
        .agg(
            F.count("*").alias("failed"), F.min("time").alias("first"), F.max("time").alias("last")
        )
    )
    return (
        found.join(F.broadcast(all_of_them), "operation")
        .select(
            "operation",
            "outcome",
            "error",
            "stage",
            "failed",
            (F.col("failed") / F.col("all")).alias("share"),
            "first",
            "last",
        )
        .orderBy(F.desc("failed"), "operation", "outcome", "error", "stage")
    )


def timeouts(records: DataFrame) -> DataFrame:
    """Count the messages that timed out, by operation and by the stage in which they waited.

    :returns: operation, stage, count, p50, max (time until the timeout, microseconds), places
        (number of addresses); the highest count first
    """
    return (
        messages(records)
        .filter(F.col("outcome") == "timeout")
        .groupBy("operation", "stage")
        .agg(
            F.count("*").alias("count"),
            F.percentile_approx("total_us", 0.5, ACCURACY).alias("p50"),
            F.max("total_us").alias("max"),
            F.countDistinct("place").alias("places"),
        )
        .orderBy(F.desc("count"), "operation", "stage")
    )
