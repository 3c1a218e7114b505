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

"""What failed, how, and where it stood."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_latency import ACCURACY
from amqp1_driver.pipeline.transform.telemetry_records import messages


def rates(records: DataFrame) -> DataFrame:
    """Share of messages that failed, by address and operation; those that have any.

    :returns: place, operation, count, failed, share; the most failures first
    """
    failed = F.count_if("failed")
    return messages(records).groupBy("place", "operation").agg(
        F.count("*").alias("count"), failed.alias("failed"),
        (failed / F.count("*")).alias("share"),
    ).filter("failed > 0").orderBy(F.desc("failed"), "place", "operation")  # fmt: skip


def causes(records: DataFrame) -> DataFrame:
    """Failures by operation, outcome, error and stage.

    :returns: operation, outcome, error, stage, failed, share (of all messages of the operation),
        first, last (times); the most failures first
    """
    sent = messages(records)
    all_of_them = sent.groupBy("operation").agg(F.count("*").alias("all"))
    found = sent.filter("failed").groupBy("operation", "outcome", "error", "stage").agg(
        F.count("*").alias("failed"), F.min("time").alias("first"), F.max("time").alias("last"))
    return found.join(F.broadcast(all_of_them), "operation").select(
        "operation", "outcome", "error", "stage", "failed",
        (F.col("failed") / F.col("all")).alias("share"), "first", "last",
    ).orderBy(F.desc("failed"), "operation", "outcome", "error", "stage")  # fmt: skip


def timeouts(records: DataFrame) -> DataFrame:
    """Messages whose time was up, by where they stood: what they were waiting for.

    :returns: operation, stage, count, p50, max (time until then, microseconds), places (addresses)
    """
    return messages(records).filter(F.col("outcome") == "timeout").groupBy(
        "operation", "stage").agg(
        F.count("*").alias("count"),
        F.percentile_approx("total_us", 0.5, ACCURACY).alias("p50"),
        F.max("total_us").alias("max"), F.countDistinct("place").alias("places"),
    ).orderBy(F.desc("count"), "operation", "stage")  # fmt: skip
