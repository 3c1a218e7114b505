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

"""How much was sent, where to, and when."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_latency import ACCURACY
from amqp1_driver.pipeline.transform.telemetry_records import messages

#: seconds that a class of time may last
WIDTHS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800)
#: no more classes of time than this
MOST = 120


def width_for(seconds: float) -> int:
    """How many seconds a class of time lasts, for records over that many seconds."""
    return next((width for width in WIDTHS if seconds <= width * MOST), WIDTHS[-1])


def moment(width: int) -> Column:
    """Where the class of time that a record is in begins."""
    return F.timestamp_seconds(F.floor(F.unix_timestamp("time") / width) * width)


def hot(records: DataFrame, seconds: float) -> DataFrame:
    """Addresses by what is sent to them, the busiest first.

    :param seconds: how long the records go on for; at least 1 is taken
    :returns: place, count, rate (1/s), peak (most in a second), share (of all), skew (times the
        mean of all addresses), bytes
    """
    sends = records.filter(F.col("kind") == "send")
    each = sends.groupBy("place", F.date_trunc("second", "time").alias("second")).agg(
        F.count("*").alias("n"), F.sum("size").alias("bytes"))
    places = each.groupBy("place").agg(
        F.sum("n").alias("count"), F.max("n").alias("peak"),
        F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"))  # fmt: skip
    total = places.agg(F.sum("count").alias("all"), F.count("*").alias("places"))
    share = F.col("count") / F.col("all")
    return places.crossJoin(F.broadcast(total)).select(
        "place", "count", (F.col("count") / max(1.0, seconds)).alias("rate"), "peak",
        share.alias("share"), (share * F.col("places")).alias("skew"), "bytes",
    ).orderBy(F.desc("count"), "place")  # fmt: skip


def over_time(records: DataFrame, width: int) -> DataFrame:
    """Messages in classes of time.

    :param width: of a class, seconds
    :returns: moment, operation, count, rate (1/s), failed, p50, p99 (total time of those that got
        there, microseconds)
    """
    arrived = F.when(~F.col("failed"), F.col("total_us"))
    return messages(records).groupBy(moment(width).alias("moment"), "operation").agg(
        F.count("*").alias("count"), (F.count("*") / width).alias("rate"),
        F.count_if("failed").alias("failed"),
        F.percentile_approx(arrived, 0.5, ACCURACY).alias("p50"),
        F.percentile_approx(arrived, 0.99, ACCURACY).alias("p99"),
    ).orderBy("moment", "operation")  # fmt: skip
