# SPDX-License-Identifier: Apache-2.0

"""The traffic in telemetry, by address and over time.  Pure; any thread."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_latency import ACCURACY
from amqp1_driver.pipeline.transform.telemetry_records import messages

#: seconds that an interval may last
WIDTHS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800)
#: most intervals, unless the widest interval is too narrow for that
MOST = 120


def width_for(seconds: float) -> int:
    """Return the width of the intervals in which the tables over time group the records.

    :param seconds: time from the first record to the last
    :returns: seconds; one of ``WIDTHS``
    """
    return next((width for width in WIDTHS if seconds <= width * MOST), WIDTHS[-1])


def moment(width: int) -> Column:
    """Return the column with the begin of the interval that a record falls into.

    :param width: seconds that an interval lasts
    """
    return F.timestamp_seconds(F.floor(F.unix_timestamp("time") / width) * width)


def hot(records: DataFrame, seconds: float) -> DataFrame:
    """Measure the messages to each address, the busiest first.

    :param seconds: time from the first record to the last; less than 1 counts as 1
    :returns: place, count, rate (1/s), peak (most in a second), share (of all messages), skew
        (count divided by the mean count of all addresses), bytes
    """
    sends = records.filter(F.col("kind") == "send")
    each = sends.groupBy("place", F.date_trunc("second", "time").alias("second")).agg(
        F.count("*").alias("n"), F.sum("size").alias("bytes")
    )
    places = each.groupBy("place").agg(
        F.sum("n").alias("count"),
        F.max("n").alias("peak"),
        F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
    )
    total = places.agg(F.sum("count").alias("all"), F.count("*").alias("places"))
    share = F.col("count") / F.col("all")
    return (
        places.crossJoin(F.broadcast(total))
        .select(
            "place",
            "count",
            (F.col("count") / max(1.0, seconds)).alias("rate"),
            "peak",
            share.alias("share"),
            (share * F.col("places")).alias("skew"),
            "bytes",
        )
        .orderBy(F.desc("count"), "place")
    )


def over_time(records: DataFrame, width: int) -> DataFrame:
    """Measure the messages of each interval of time, by operation.

    :param width: seconds that an interval lasts
    :returns: moment (begin of the interval), operation, count, rate (1/s), failed, p50, p99 (total
        time of messages that arrived, microseconds)
    """
    arrived = F.when(~F.col("failed"), F.col("total_us"))
    return (
        messages(records)
        .groupBy(moment(width).alias("moment"), "operation")
        .agg(
            F.count("*").alias("count"),
            (F.count("*") / width).alias("rate"),
            F.count_if("failed").alias("failed"),
            F.percentile_approx(arrived, 0.5, ACCURACY).alias("p50"),
            F.percentile_approx(arrived, 0.99, ACCURACY).alias("p99"),
        )
        .orderBy("moment", "operation")
    )
