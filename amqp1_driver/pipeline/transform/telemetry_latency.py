# SPDX-License-Identifier: Apache-2.0

"""The latencies of messages that arrived, by address and operation.  Pure; any thread.

A percentile is the smallest value that at least the given share of the values does not exceed.
Spark's ``percentile_approx`` computes it. The result's rank is off by at most 1/``ACCURACY`` of the
number of values, and exact for fewer than ``ACCURACY`` values.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.telemetry_records import messages

ACCURACY = 10_000
#: measure -> its column in the records
MEASURES = {
    "total": "total_us",
    "handover": "handover_us",
    "wait": "wait_us",
    "ack": "ack_us",
    "reply": "reply_us",
}
SHARES = (0.5, 0.9, 0.99, 0.999)
NAMES = ("p50", "p90", "p99", "p999")
#: classes of the histogram for each power of ten
CLASSES = 5


def percentiles(column: str | Column) -> Column:
    """Return an array of the percentiles :data:`SHARES` of a column."""
    return F.percentile_approx(column, list(SHARES), ACCURACY)


def latency(records: DataFrame, by: tuple[str, ...] = ("place", "operation")) -> DataFrame:
    """Compute the percentiles of each measure.

    :param by: columns that group the messages
    :returns: ``by``, measure, count, p50, p90, p99, p999, max (microseconds); a group without
        values of a measure has no row
    """
    sent = messages(records).filter(~F.col("failed"))
    measures = F.explode(
        F.array(
            *(
                F.struct(F.lit(name).alias("measure"), F.col(column).alias("us"))
                for name, column in MEASURES.items()
            )
        )
    )
    long = sent.select(*by, measures.alias("m")).select(*by, "m.*").filter("us is not null")
    found = long.groupBy(*by, "measure").agg(
        F.count("*").alias("count"), percentiles("us").alias("p"), F.max("us").alias("max")
    )
    return found.select(
        *by,
        "measure",
        "count",
        *(F.col("p")[i].alias(name) for i, name in enumerate(NAMES)),
        "max",
    ).orderBy(*by, "measure")


def spread(records: DataFrame) -> DataFrame:
    """Count the total times in classes of equal width on a logarithmic scale.

    :returns: operation, class, count; class n goes from 10^(n/5) to 10^((n+1)/5) microseconds, and
        a time below 1 microsecond is in class 0
    """
    us = F.greatest(F.col("total_us"), F.lit(1))
    # 1000 belongs to class 15, though its computed logarithm is a little less than 3.
    number = F.floor(F.log10(us) * CLASSES + 1e-9).cast("int")
    sent = messages(records).filter(~F.col("failed") & F.col("total_us").isNotNull())
    return sent.groupBy("operation", number.alias("class")).count().orderBy("operation", "class")
