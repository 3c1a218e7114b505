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

"""Usage of each tenant by day, from the lifetimes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import typed
from amqp1_driver.pipeline.transform.schemas import USAGE

_US_PER_HOUR = 3_600_000_000
_MIB_PER_GIB = 1024


def usage(lifetimes: DataFrame) -> DataFrame:
    """Rows of :data:`USAGE`; sums are of whole numbers, so no order of rows changes them."""
    span = F.unix_micros("end") - F.unix_micros("begin")

    def hours(kind: str, amount: Column, divisor: int = 1) -> Column:
        # Microseconds times megabytes of a large cloud do not fit 64 bits. No day has more than
        # 12 digits of them, no bigint more than 20: nothing that a service writes overflows.
        product = span.cast("decimal(12,0)") * F.coalesce(amount, F.lit(0)).cast("decimal(20,0)")
        total = F.sum(F.when(F.col("kind") == kind, product).otherwise(F.lit(0)))
        return total.cast("double") / (_US_PER_HOUR * divisor)

    def number(kind: str) -> Column:
        return F.count_distinct(F.when(F.col("kind") == kind, F.col("resource_id")))

    one = F.lit(1)
    return typed(lifetimes.groupBy("day", "tenant_id").agg(
        number("instance").alias("instances"),
        hours("instance", one).alias("instance_hours"),
        hours("instance", F.col("vcpus")).alias("vcpu_hours"),
        hours("instance", F.col("memory_mb"), _MIB_PER_GIB).alias("ram_gib_hours"),
        hours("instance", F.col("disk_gb")).alias("disk_gb_hours"),
        number("volume").alias("volumes"),
        hours("volume", F.col("size_gb")).alias("volume_gb_hours"),
        number("port").alias("ports"),
        hours("port", one).alias("port_hours"),
    ), USAGE)
