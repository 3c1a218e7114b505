# SPDX-License-Identifier: Apache-2.0

"""The stage bronze: from the bus through the spool into Parquet files by date of receipt.

Spark's file sink writes each batch once. The files of a batch count when their list is in
``_spark_metadata``; from then on a repetition of the batch after a crash replaces and adds nothing.
The functions run on the driver program's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amqp1_driver.pipeline.transform.bronze import bronze

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from amqp1_driver.pipeline.lake.layout import Lake


def start(lake: Lake, options: Mapping[str, str], trigger: Mapping[str, Any]) -> StreamingQuery:
    """Start the query from the data source ``amqp1`` into the lake's bronze, and return it.

    :param options: options of the data source
    :param trigger: arguments of ``DataStreamWriter.trigger``
    :raises ValueError: bronze has batches, but the checkpoint of their query is missing
    """
    _check(lake)
    raw = lake.spark.readStream.format("amqp1").options(**options).load()
    return (
        bronze(raw)
        .writeStream.queryName("bronze")
        .format("parquet")
        .option("path", lake.bronze)
        .option("compression", "zstd")
        .option("checkpointLocation", lake.checkpoint("bronze"))
        .partitionBy("date")
        .trigger(**trigger)
        .start()
    )


def _check(lake: Lake) -> None:
    """Refuse a bronze table whose checkpoint is missing.

    A query with a new checkpoint counts its batches from 0. Spark's file sink skips batches whose
    number is in its list already: their rows would be lost without an error.

    :raises ValueError: the list has batches, and there is no checkpoint
    """
    listed = lake.storage.names(f"{lake.bronze}/_spark_metadata")
    checkpoint = lake.checkpoint("bronze")
    if listed and not lake.storage.exists(f"{checkpoint}/metadata"):
        raise ValueError(
            f"{lake.bronze} has batches, but their checkpoint {checkpoint} is not there: bring it "
            f"back; or have silver take what is there (--bronze {lake.bronze}), move that folder "
            "away, and start again"
        )
