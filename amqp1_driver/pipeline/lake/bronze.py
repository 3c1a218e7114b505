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

"""The stage bronze: from the bus, by way of the spool, into Parquet files by date of receipt.

Spark's file sink writes each batch once: its files count when the list of them is in
``_spark_metadata``, and a batch that is made again after a crash replaces nothing and adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amqp1_driver.pipeline.transform.bronze import bronze

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from amqp1_driver.pipeline.lake.layout import Lake


def start(lake: Lake, options: Mapping[str, str], trigger: Mapping[str, Any]) -> StreamingQuery:
    """The running query from the data source ``amqp1`` into the lake's bronze.

    :param options: of the data source
    :param trigger: arguments of ``DataStreamWriter.trigger``
    :raises ValueError: the table is of another query than the checkpoint
    """
    _check(lake)
    raw = lake.spark.readStream.format("amqp1").options(**options).load()
    return (
        bronze(raw).writeStream.queryName("bronze").format("parquet")
        .option("path", lake.bronze).option("compression", "zstd")
        .option("checkpointLocation", lake.checkpoint("bronze"))
        .partitionBy("date").trigger(**trigger).start()
    )


def _check(lake: Lake) -> None:
    """A new checkpoint counts its batches from 0, and Spark's file sink takes those whose number is
    in the list already for written: their rows would be lost without a word."""
    listed = lake.storage.names(f"{lake.bronze}/_spark_metadata")
    checkpoint = lake.checkpoint("bronze")
    if listed and not lake.storage.exists(f"{checkpoint}/metadata"):
        raise ValueError(
            f"{lake.bronze} has batches, but their checkpoint {checkpoint} is not there: bring it "
            f"back; or have silver take what is there (--bronze {lake.bronze}), move that folder "
            "away, and start again")
