# SPDX-License-Identifier: Apache-2.0

"""The usage of each tenant by day, computed from lifetimes.  Pure; any thread."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import typed
from amqp1_driver.pipeline.transform.schemas import USAGE

_US_PER_HOUR = 3_600_000_000
_MIB_PER_GIB = 1024


def usage(lifetimes: DataFrame) -> DataFrame:
    """Return rows of :data:`USAGE`.

    The sums are of whole numbers, so they do not depend on the order of the rows.
    """
    span = F.unix_micros("end") - F.unix_micros("begin")

    def hours(kind: str, amount: Column, divisor: int = 1) -> Column:
        # Microseconds times megabytes of a large cloud do not fit 64 bits. The microseconds of a
        # day have at most 12 digits, and a bigint at most 20, so no value of a service overflows.
        product = span.cast("decimal(12,0)") * F.coalesce(amount, F.lit(0)).cast("decimal(20,0)")
        total = F.sum(F.when(F.col("kind") == kind, product).otherwise(F.lit(0)))
        return total.cast("double") / (_US_PER_HOUR * divisor)

    def number(kind: str) -> Column:
        return F.count_distinct(F.when(F.col("kind") == kind, F.col("resource_id")))

    one = F.lit(1)
    return typed(
        lifetimes.groupBy("day", "tenant_id").agg(
            number("instance").alias("instances"),
            hours("instance", one).alias("instance_hours"),
            hours("instance", F.col("vcpus")).alias("vcpu_hours"),
            hours("instance", F.col("memory_mb"), _MIB_PER_GIB).alias("ram_gib_hours"),
            hours("instance", F.col("disk_gb")).alias("disk_gb_hours"),
            number("volume").alias("volumes"),
            hours("volume", F.col("size_gb")).alias("volume_gb_hours"),
            number("port").alias("ports"),
            hours("port", one).alias("port_hours"),
        ),
        USAGE,
    )
