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

"""How long messages took, by address and operation; of those that got there.

Percentiles are the smallest value that is not below the share asked for, by Spark's
``percentile_approx``: its rank is off by at most 1/``ACCURACY`` of the number of values, and it is
exact for fewer values than that.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_records import messages

ACCURACY = 10_000
#: what is measured: name -> column
MEASURES = {"total": "total_us", "handover": "handover_us", "wait": "wait_us", "ack": "ack_us",
            "reply": "reply_us"}  # fmt: skip
SHARES = (0.5, 0.9, 0.99, 0.999)
NAMES = ("p50", "p90", "p99", "p999")
#: classes of the histogram for each power of ten
CLASSES = 5


def percentiles(column: str | Column) -> Column:
    """An array of the percentiles :data:`SHARES`."""
    return F.percentile_approx(column, list(SHARES), ACCURACY)


def latency(records: DataFrame, by: tuple[str, ...] = ("place", "operation")) -> DataFrame:
    """Percentiles of each measure.

    :returns: ``by``, measure, count, p50, p90, p99, p999, max; microseconds; no row without values
    """
    sent = messages(records).filter(~F.col("failed"))
    measures = F.explode(F.array(*(
        F.struct(F.lit(name).alias("measure"), F.col(column).alias("us"))
        for name, column in MEASURES.items())))  # fmt: skip
    long = sent.select(*by, measures.alias("m")).select(*by, "m.*").filter("us is not null")
    found = long.groupBy(*by, "measure").agg(
        F.count("*").alias("count"), percentiles("us").alias("p"), F.max("us").alias("max"))
    return found.select(
        *by, "measure", "count",
        *(F.col("p")[i].alias(name) for i, name in enumerate(NAMES)), "max",
    ).orderBy(*by, "measure")  # fmt: skip


def spread(records: DataFrame) -> DataFrame:
    """How total times are distributed, in classes that are equally wide on a logarithmic scale.

    :returns: operation, class, count; class n goes from 10^(n/5) to 10^((n+1)/5) microseconds, and
        what took less than 1 microsecond is in class 0
    """
    us = F.greatest(F.col("total_us"), F.lit(1))
    # 1000 has to be in class 15 though the logarithm of it is a little less than 3
    number = F.floor(F.log10(us) * CLASSES + 1e-9).cast("int")
    sent = messages(records).filter(~F.col("failed") & F.col("total_us").isNotNull())
    return sent.groupBy("operation", number.alias("class")).count().orderBy("operation", "class")
