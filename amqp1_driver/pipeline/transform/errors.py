# SPDX-License-Identifier: Apache-2.0

"""The error rate of notifications by day, host and event.  Pure; any thread."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import typed
from amqp1_driver.pipeline.transform.schemas import ERRORS


def errors(silver: DataFrame) -> DataFrame:
    """Return rows of :data:`ERRORS`.

    ``results`` counts all notifications except starts that did not fail. ``errors`` counts those
    with the phase ``error`` or the priority ERROR or CRITICAL. ``error_rate`` is ``errors`` divided
    by ``results``, null if there are no results.
    """
    is_result = F.coalesce(F.col("phase") != "start", F.lit(True)) | F.col("failed")
    results = F.count_if(is_result)
    failures = F.count_if("failed")
    return typed(
        silver.groupBy("day", "publisher_host", "event").agg(
            F.count(F.lit(1)).alias("notifications"),
            results.alias("results"),
            failures.alias("errors"),
            F.when(results > 0, failures / results).alias("error_rate"),
            F.max_by("error", F.when(F.col("error").isNotNull(), F.col("time"))).alias(
                "last_error"
            ),
        ),
        ERRORS,
    )
