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

"""Connections: how long they took, which were lost, and how long until there was one again."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_records import lasted


def spells(records: DataFrame) -> DataFrame:
    """What lies between two times that a client's connection was ready.

    Spell 0 comes before the first time, spell n begins with the n-th.

    :returns: client, spell, began, lost (time when the connection went, null if it did not),
        reply_lost (only the reply link went), host (of the connection), error (the first),
        attempts (to connect), ready (when there was a connection again), next_host
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
        F.count_if(state == "connecting").alias("attempts"))  # fmt: skip
    following = Window.partitionBy("client").orderBy("spell")
    return found.select(
        "client", "spell", "began", "lost",
        (F.col("lost").isNull() & F.col("attaching") & (F.col("spell") > 0)).alias("reply_lost"),
        "host", "error", "attempts", F.lead("began").over(following).alias("ready"),
        F.lead("host").over(following).alias("next_host"))  # fmt: skip


def outages(found: DataFrame) -> DataFrame:
    """Connections lost that had been ready, the latest last.

    :param found: :func:`spells`
    :returns: client, lost, host, error, attempts, next_host (null: none until the records end),
        recovery_us
    """
    took = lasted("lost", "ready")
    return found.filter("spell > 0 and lost is not null").select(
        "client", "lost", "host", "error", "attempts", "next_host", took.alias("recovery_us"),
    ).orderBy("lost", "client")  # fmt: skip


def by_host(found: DataFrame) -> DataFrame:
    """Losses of each host, the most first.

    :param found: :func:`spells`
    :returns: host, connections (that were ready), lost, open (not made up for), reply_links (lost
        alone), p50, max (time to recover, microseconds)
    """
    took = F.when(F.col("lost").isNotNull(), lasted("lost", "ready"))
    lost = F.col("lost").isNotNull()
    return found.filter("spell > 0").groupBy("host").agg(
        F.count("*").alias("connections"), F.count_if(lost).alias("lost"),
        F.count_if(lost & F.col("ready").isNull()).alias("open"),
        F.count_if("reply_lost").alias("reply_links"),
        F.percentile_approx(took, 0.5).alias("p50"), F.max(took).alias("max"),
    ).orderBy(F.desc("lost"), "host")  # fmt: skip


def first(found: DataFrame) -> DataFrame:
    """How long the first connection of each client took, in one row.

    :param found: :func:`spells`
    :returns: count, p50, max (microseconds), vain (clients that never had one), once and
        longest_once (those with a single attempt)
    """
    took = lasted("began", "ready")
    single = F.when(F.col("attempts") == 1, took)
    return found.filter("spell = 0").agg(
        F.count("ready").alias("count"), F.percentile_approx(took, 0.5).alias("p50"),
        F.max(took).alias("max"), F.count_if(F.col("ready").isNull()).alias("vain"),
        F.count(single).alias("once"), F.max(single).alias("longest_once"))  # fmt: skip


def links(records: DataFrame) -> DataFrame:
    """Links that had to be attached again, by address and error.

    :returns: place, error, count
    """
    return records.filter((F.col("kind") == "link") & (F.col("state") == "reattach wait")).groupBy(
        "place", "error").count().orderBy(F.desc("count"), "place", "error")  # fmt: skip
