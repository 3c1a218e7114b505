# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What credit, windows and timeouts are to be judged by."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_latency import ACCURACY
from amqp1_driver.pipeline.transform.telemetry_records import NOWHERE, messages

#: RPC or notifications: each has its own options
RPC, NOTIFY = "rpc", "notify"
#: gaps between uses of a link are known to this many seconds
RESOLUTION = 10


def _p(column: str | Column, share: float) -> Column:
    return F.percentile_approx(column, share, ACCURACY)


def flows(records: DataFrame) -> DataFrame:
    """What goes to each address, as its readers' credit has to bear it.

    :returns: place, traffic, count, peak (most in a second), fanout, acks (how many told the round
        trip), ack (its p99, microseconds), size (p99, bytes); the highest peak first
    """
    traffic = F.when(F.col("operation") == "notification", NOTIFY).otherwise(RPC)
    sends = records.filter((F.col("kind") == "send") & (F.col("place") != NOWHERE))
    sends = sends.withColumn("traffic", traffic)
    peaks = sends.groupBy("place", "traffic", F.date_trunc("second", "time").alias("s")).count()
    peaks = peaks.groupBy("place", "traffic").agg(F.max("count").alias("peak"))
    ack = F.when(~F.col("failed"), F.col("ack_us"))
    each = sends.groupBy("place", "traffic").agg(
        F.count("*").alias("count"), F.bool_or(F.col("operation") == "fanout").alias("fanout"),
        F.count(ack).alias("acks"), _p(ack, 0.99).alias("ack"), _p("size", 0.99).alias("size"))
    return each.join(peaks, ["place", "traffic"]).select(
        "place", "traffic", "count", "peak", "fanout", "acks", "ack", "size",
    ).orderBy(F.desc("peak"), "place", "traffic")  # fmt: skip


def busiest(records: DataFrame) -> DataFrame:
    """The most that one client did in a second, in one row.

    :returns: sends, calls, replies
    """
    sends = F.count_if(F.col("kind") == "send")
    calls = F.count_if(F.col("operation") == "call")
    replies = F.count_if(F.col("operation") == "reply")
    each = messages(records).groupBy("client", F.date_trunc("second", "time").alias("s")).agg(
        sends.alias("sends"), calls.alias("calls"), replies.alias("replies"))
    return each.agg(*(F.max(name).alias(name) for name in ("sends", "calls", "replies")))


def times(records: DataFrame) -> DataFrame:
    """Total times of what each timeout is for, and how many did not get there in time.

    :returns: what (call, cast, notification, reply; fanouts are casts), count, p999, max
        (microseconds), late
    """
    what = F.when(F.col("operation") == "fanout", "cast").otherwise(F.col("operation"))
    arrived = F.when(~F.col("failed"), F.col("total_us"))
    return messages(records).filter("operation != 'heartbeat'").groupBy(what.alias("what")).agg(
        F.count(arrived).alias("count"), _p(arrived, 0.999).alias("p999"),
        F.max(arrived).alias("max"), F.count_if(F.col("outcome") == "timeout").alias("late"),
    ).orderBy("what")  # fmt: skip


def waits(records: DataFrame) -> DataFrame:
    """What bounds of queues in the process are judged by, in one row.

    :returns: handovers, handover (p99), answers, answer_wait (p99 of replies until they went out),
        call_acks, call_ack (p99 of calls), replied, call_reply (p99); microseconds
    """
    call = (F.col("operation") == "call") & ~F.col("failed")
    wait = F.when(F.col("operation") == "reply", F.col("wait_us"))
    ack, reply = F.when(call, F.col("ack_us")), F.when(call, F.col("reply_us"))
    return messages(records).agg(
        F.count("handover_us").alias("handovers"), _p("handover_us", 0.99).alias("handover"),
        F.count(wait).alias("answers"), _p(wait, 0.99).alias("answer_wait"),
        F.count(ack).alias("call_acks"), _p(ack, 0.99).alias("call_ack"),
        F.count(reply).alias("replied"), _p(reply, 0.99).alias("call_reply"))  # fmt: skip


def gaps(records: DataFrame) -> DataFrame:
    """How long links to send on went unused between two uses, in one row.

    Known to :data:`RESOLUTION` seconds; shorter ones are left out.

    :returns: count, p99 (seconds), links (pairs of client and address)
    """
    sends = records.filter((F.col("kind") == "send") & (F.col("place") != NOWHERE))
    number = F.floor(F.unix_timestamp("time") / RESOLUTION)
    used = sends.select("client", "place", number.alias("n")).distinct()
    order = Window.partitionBy("client", "place").orderBy("n")
    gap = (F.col("n") - F.lag("n").over(order) - 1) * RESOLUTION
    found = used.select("client", "place", gap.alias("gap"))
    long = F.when(F.col("gap") > 0, F.col("gap"))
    return found.agg(F.count(long).alias("count"), _p(long, 0.99).alias("p99"),
                     F.countDistinct("client", "place").alias("links"))  # fmt: skip
