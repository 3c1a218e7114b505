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

"""Stalls: no credit was left, for a subscription or for messages to send."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_latency import ACCURACY

#: of a subscription of ours the credit was used up; messages of ours waited for the peer's
SUBSCRIPTION, SENDER = "subscription", "sender"


def stalls(records: DataFrame) -> DataFrame:
    """Stalls by address and side, those that lasted longest in all first.

    A stall that has not ended counts, but not its time. Its share of the time is that of the
    clients which stalled, each as long as there are records of it.

    :returns: place, side, clients, limit (highest credit of a subscription), stalls, open (have
        not ended), total, longest, p50 (microseconds), share
    """
    spans = records.groupBy("client").agg(
        (F.unix_micros(F.max("time")) - F.unix_micros(F.min("time"))).alias("span"))
    side = F.when(F.col("credit").isNull(), SENDER).otherwise(SUBSCRIPTION)
    each = records.filter(F.col("kind").isin("stall", "resume")).groupBy(
        "place", side.alias("side"), "client").agg(
        F.count_if(F.col("kind") == "stall").alias("begun"),
        F.count_if(F.col("kind") == "resume").alias("ended"),
        F.sum("total_us").alias("total"),
        F.max("total_us").alias("longest"), F.max("credit").alias("limit"))  # fmt: skip
    both = each.join(spans, "client")
    found = both.groupBy("place", "side").agg(
        F.count("*").alias("clients"), F.max("limit").alias("limit"),
        # one whose beginning was before the records is one all the same
        F.sum(F.greatest("begun", "ended")).alias("stalls"),
        F.sum(F.greatest(F.col("begun") - F.col("ended"), F.lit(0))).alias("open"),
        F.coalesce(F.sum("total"), F.lit(0)).alias("total"), F.max("longest").alias("longest"),
        F.sum("span").alias("span"))  # fmt: skip
    middle = records.filter(F.col("kind") == "resume").groupBy(
        F.col("place").alias("at"), side.alias("of")).agg(
        F.percentile_approx("total_us", 0.5, ACCURACY).alias("p50"))  # fmt: skip
    same = (F.col("place") == F.col("at")) & (F.col("side") == F.col("of"))
    share = F.when(F.col("span") > 0, F.least(F.col("total") / F.col("span"), F.lit(1.0)))
    return found.join(middle, same, "left").select(
        "place", "side", "clients", "limit", "stalls", "open", "total", "longest", "p50",
        share.alias("share"),
    ).orderBy(F.desc("total"), "place", "side")  # fmt: skip
