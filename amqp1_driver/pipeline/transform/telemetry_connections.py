# SPDX-License-Identifier: Apache-2.0

"""The connections in telemetry: times to connect, losses, recovery.  Pure; any thread."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_records import lasted


def spells(records: DataFrame) -> DataFrame:
    """Divide the records of each client's connection into spells.

    A spell lasts from one time at which the connection is ready to the next. Spell 0 comes before
    the first such time; spell n begins at the n-th.

    :returns: client, spell, began, lost (time when the connection was lost, null if it was not),
        reply_lost (whether only the reply link was lost), host (of the connection), error (the
        first), attempts (to connect), ready (time when a connection was ready again, null if none
        was), next_host
    """
    changes = records.filter(F.col("kind") == "connection")
    order = Window.partitionBy("client").orderBy("time")
    ready = (F.col("state") == "ready").cast("int")
    counted = changes.withColumn("spell", F.sum(ready).over(order))
    state = F.col("state")
    found = counted.groupBy("client", "spell").agg(
        F.min("time").alias("began"),
        F.min(F.when(state == "backoff", F.col("time"))).alias("lost"),
        F.coalesce(F.bool_or(state == "attaching"), F.lit(False)).alias("attaching"),
        F.min_by("host", "time").alias("host"),
        F.min_by("error", F.when(F.col("error").isNotNull(), F.col("time"))).alias("error"),
        F.count_if(state == "connecting").alias("attempts"),
    )
    following = Window.partitionBy("client").orderBy("spell")
    return found.select(
        "client",
        "spell",
        "began",
        "lost",
        (F.col("lost").isNull() & F.col("attaching") & (F.col("spell") > 0)).alias("reply_lost"),
        "host",
        "error",
        "attempts",
        F.lead("began").over(following).alias("ready"),
        F.lead("host").over(following).alias("next_host"),
    )


def outages(found: DataFrame) -> DataFrame:
    """Return the losses of connections that had been ready, the latest last.

    :param found: rows of :func:`spells`
    :returns: client, lost, host, error, attempts, next_host (null: no connection until the records
        end), recovery_us (null likewise)
    """
    took = lasted("lost", "ready")
    return (
        found.filter("spell > 0 and lost is not null")
        .select(
            "client",
            "lost",
            "host",
            "error",
            "attempts",
            "next_host",
            took.alias("recovery_us"),
        )
        .orderBy("lost", "client")
    )


def by_host(found: DataFrame) -> DataFrame:
    """Count the lost connections of each host, the host with the most first.

    :param found: rows of :func:`spells`
    :returns: host, connections (that were ready), lost, open (lost, and not ready again until the
        records end), reply_links (lost while the connection stayed), p50, max (time to recover,
        microseconds)
    """
    took = F.when(F.col("lost").isNotNull(), lasted("lost", "ready"))
    lost = F.col("lost").isNotNull()
    return (
        found.filter("spell > 0")
        .groupBy("host")
        .agg(
            F.count("*").alias("connections"),
            F.count_if(lost).alias("lost"),
            F.count_if(lost & F.col("ready").isNull()).alias("open"),
            F.count_if("reply_lost").alias("reply_links"),
            F.percentile_approx(took, 0.5).alias("p50"),
            F.max(took).alias("max"),
        )
        .orderBy(F.desc("lost"), "host")
    )


def losses(found: DataFrame) -> DataFrame:
    """Summarise the losses of connections that had been ready, of all hosts, in one row.

    :param found: rows of :func:`spells`
    :returns: lost (number of losses), recovered (losses with a connection that was ready
        afterwards), longest (time to recover, microseconds)
    """
    return found.filter("spell > 0 and lost is not null").agg(
        F.count("*").alias("lost"),
        F.count("ready").alias("recovered"),
        F.max(lasted("lost", "ready")).alias("longest"),
    )


def first(found: DataFrame) -> DataFrame:
    """Measure how long the first connection of each client took, in one row.

    :param found: rows of :func:`spells`
    :returns: count, p50, max (microseconds), vain (clients that never had a connection), once
        (number of first connections that took a single attempt), longest_once (the longest of
        these, microseconds)
    """
    took = lasted("began", "ready")
    single = F.when(F.col("attempts") == 1, took)
    return found.filter("spell = 0").agg(
        F.count("ready").alias("count"),
        F.percentile_approx(took, 0.5).alias("p50"),
        F.max(took).alias("max"),
        F.count_if(F.col("ready").isNull()).alias("vain"),
        F.count(single).alias("once"),
        F.max(single).alias("longest_once"),
    )


def links(records: DataFrame) -> DataFrame:
    """Count the links that the driver had to attach again, by address and error.

    :returns: place, error, count; the highest count first
    """
    return (
        records.filter((F.col("kind") == "link") & (F.col("state") == "reattach wait"))
        .groupBy("place", "error")
        .count()
        .orderBy(F.desc("count"), "place", "error")
    )
