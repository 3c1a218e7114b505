# SPDX-License-Identifier: Apache-2.0

"""The bronze table: the source's rows unchanged, by date of receipt.  Pure; any thread."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def bronze(raw: DataFrame) -> DataFrame:
    """Return the rows with ``date``, the UTC date of ``received_time``.

    The table is partitioned by ``date``.
    """
    return raw.withColumn("date", F.to_date("received_time"))
