# SPDX-License-Identifier: Apache-2.0

"""The figures by which the report judges credit, windows and timeouts.  Pure; any thread."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_latency import ACCURACY
from amqp1_driver.pipeline.transform.telemetry_records import NOWHERE, messages

#: the two kinds of traffic; the driver has options of its own for each
RPC, NOTIFY = "rpc", "notify"
#: seconds to which gaps between uses of a link are exact
RESOLUTION = 10


def _p(column: str | Column, share: float) -> Column:
    return F.percentile_approx(column, share, ACCURACY)


def flows(records: DataFrame) -> DataFrame:
    """Measure the messages to each address, for which its readers need credit.

    :returns: place, traffic, count, peak (most in a second), fanout, acks (number of messages with
        a known round trip), ack (p99 of the round trip, microseconds), size (p99, bytes); the
        highest peak first
    """
    traffic = F.when(F.col("operation") == "notification", NOTIFY).otherwise(RPC)
    sends = records.filter((F.col("kind") == "send") & (F.col("place") != NOWHERE))
    sends = sends.withColumn("traffic", traffic)
    peaks = sends.groupBy("place", "traffic", F.date_trunc("second", "time").alias("s")).count()
    peaks = peaks.groupBy("place", "traffic").agg(F.max("count").alias("peak"))
    ack = F.when(~F.col("failed"), F.col("ack_us"))
    each = sends.groupBy("place", "traffic").agg(
        F.count("*").alias("count"),
        F.bool_or(F.col("operation") == "fanout").alias("fanout"),
        F.count(ack).alias("acks"),
        _p(ack, 0.99).alias("ack"),
        _p("size", 0.99).alias("size"),
    )
    return (
        each.join(peaks, ["place", "traffic"])
        .select(
            "place",
            "traffic",
            "count",
            "peak",
            "fanout",
            "acks",
            "ack",
            "size",
        )
        .orderBy(F.desc("peak"), "place", "traffic")
    )


def busiest(records: DataFrame) -> DataFrame:
    """Find the most messages of one client in a second, in one row.

    :returns: sends, calls, replies; each is the highest count of any client
    """
    sends = F.count_if(F.col("kind") == "send")
    calls = F.count_if(F.col("operation") == "call")
    replies = F.count_if(F.col("operation") == "reply")
    each = (
        messages(records)
        .groupBy("client", F.date_trunc("second", "time").alias("s"))
        .agg(sends.alias("sends"), calls.alias("calls"), replies.alias("replies"))
    )
    return each.agg(*(F.max(name).alias(name) for name in ("sends", "calls", "replies")))


def times(records: DataFrame) -> DataFrame:
    """Measure total times by the operations that have a timeout option each.

    :returns: what (call, cast, notification, reply; fanouts are casts), count (messages that
        arrived), p999, max (their times, microseconds), late (messages that timed out)
    """
    what = F.when(F.col("operation") == "fanout", "cast").otherwise(F.col("operation"))
    arrived = F.when(~F.col("failed"), F.col("total_us"))
    return (
        messages(records)
        .filter("operation != 'heartbeat'")
        .groupBy(what.alias("what"))
        .agg(
            F.count(arrived).alias("count"),
            _p(arrived, 0.999).alias("p999"),
            F.max(arrived).alias("max"),
            F.count_if(F.col("outcome") == "timeout").alias("late"),
        )
        .orderBy("what")
    )


def waits(records: DataFrame) -> DataFrame:
    """Measure waits within the process, and round trips of calls, in one row.

    Each count comes before its p99, in microseconds.

    :returns: handovers, handover (p99 of the time until the I/O thread has a message), answers,
        answer_wait (p99 of the time until a reply goes out), call_acks, call_ack (p99 of the time
        from sending a call to its outcome), replied, call_reply (p99 of the time to its reply)
    """
    call = (F.col("operation") == "call") & ~F.col("failed")
    wait = F.when(F.col("operation") == "reply", F.col("wait_us"))
    ack, reply = F.when(call, F.col("ack_us")), F.when(call, F.col("reply_us"))
    return messages(records).agg(
        F.count("handover_us").alias("handovers"),
        _p("handover_us", 0.99).alias("handover"),
        F.count(wait).alias("answers"),
        _p(wait, 0.99).alias("answer_wait"),
        F.count(ack).alias("call_acks"),
        _p(ack, 0.99).alias("call_ack"),
        F.count(reply).alias("replied"),
        _p(reply, 0.99).alias("call_reply"),
    )


def gaps(records: DataFrame) -> DataFrame:
    """Measure for how long sending links were unused between two uses, in one row.

    The gaps are exact to :data:`RESOLUTION` seconds; shorter gaps do not count.

    :returns: count, p99 (seconds), links (number of pairs of client and address)
    """
    sends = records.filter((F.col("kind") == "send") & (F.col("place") != NOWHERE))
    number = F.floor(F.unix_timestamp("time") / RESOLUTION)
    used = sends.select("client", "place", number.alias("n")).distinct()
    order = Window.partitionBy("client", "place").orderBy("n")
    gap = (F.col("n") - F.lag("n").over(order) - 1) * RESOLUTION
    found = used.select("client", "place", gap.alias("gap"))
    long = F.when(F.col("gap") > 0, F.col("gap"))
    return found.agg(
        F.count(long).alias("count"),
        _p(long, 0.99).alias("p99"),
        F.countDistinct("client", "place").alias("links"),
    )
