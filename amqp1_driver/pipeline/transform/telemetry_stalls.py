# SPDX-License-Identifier: Apache-2.0

"""The stalls in telemetry: times at which a link had no credit.  Pure; any thread."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_latency import ACCURACY

#: side of a stall: the credit of our subscription was used up; our sender waited for the peer's
SUBSCRIPTION, SENDER = "subscription", "sender"


def stalls(records: DataFrame) -> DataFrame:
    """Count and measure stalls by address and side, the longest total time first.

    A stall that has not ended counts, but its time does not. ``share`` is ``total`` divided by the
    time from the first to the last record of each client that stalled, summed over these clients.

    :returns: place, side, clients, limit (highest credit of a subscription), stalls, open (stalls
        that have not ended), total, longest, p50 (microseconds), share
    """
    spans = records.groupBy("client").agg(
        (F.unix_micros(F.max("time")) - F.unix_micros(F.min("time"))).alias("span")
    )
    side = F.when(F.col("credit").isNull(), SENDER).otherwise(SUBSCRIPTION)
    each = (
        records.filter(F.col("kind").isin("stall", "resume"))
        .groupBy("place", side.alias("side"), "client")
        .agg(
            F.count_if(F.col("kind") == "stall").alias("begun"),
            F.count_if(F.col("kind") == "resume").alias("ended"),
            F.sum("total_us").alias("total"),
            F.max("total_us").alias("longest"),
            F.max("credit").alias("limit"),
        )
    )
    both = each.join(spans, "client")
    found = both.groupBy("place", "side").agg(
        F.count("*").alias("clients"),
        F.max("limit").alias("limit"),
        # A stall that began before the records also counts.
        F.sum(F.greatest("begun", "ended")).alias("stalls"),
        F.sum(F.greatest(F.col("begun") - F.col("ended"), F.lit(0))).alias("open"),
        F.coalesce(F.sum("total"), F.lit(0)).alias("total"),
        F.max("longest").alias("longest"),
        F.sum("span").alias("span"),
    )
    middle = (
        records.filter(F.col("kind") == "resume")
        .groupBy(F.col("place").alias("at"), side.alias("of"))
        .agg(F.percentile_approx("total_us", 0.5, ACCURACY).alias("p50"))
    )
    same = (F.col("place") == F.col("at")) & (F.col("side") == F.col("of"))
    share = F.when(F.col("span") > 0, F.least(F.col("total") / F.col("span"), F.lit(1.0)))
    return (
        found.join(middle, same, "left")
        .select(
            "place",
            "side",
            "clients",
            "limit",
            "stalls",
            "open",
            "total",
            "longest",
            "p50",
            share.alias("share"),
        )
        .orderBy(F.desc("total"), "place", "side")
    )


def total(found: DataFrame) -> DataFrame:
    """Add up the stalls of all addresses, in one row.

    :param found: rows of :func:`stalls`
    :returns: stalls
    """
    return found.agg(F.coalesce(F.sum("stalls"), F.lit(0)).alias("stalls"))


def of_subscriptions(found: DataFrame, places: Sequence[str]) -> DataFrame:
    """Return the stalls of the subscriptions to some addresses, at most one row for each.

    :param found: rows of :func:`stalls`
    """
    return found.filter((F.col("side") == SUBSCRIPTION) & F.col("place").isin(list(places)))
