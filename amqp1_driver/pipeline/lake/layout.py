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

"""Folders of a lake, and reading and replacing its tables."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from amqp1_driver.pipeline.lake.storage import Storage
from amqp1_driver.pipeline.transform import schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: the gold tables and their columns
GOLD = {
    "operations": schemas.OPERATIONS,
    "durations": schemas.DURATIONS,
    "errors": schemas.ERRORS,
    "lifetimes": schemas.LIFETIMES,
    "usage": schemas.USAGE,
    "audit": schemas.AUDIT,
}
_BATCH = StructField("batch", StringType())
_COMPRESSION = "zstd"


class Lake:
    """A folder with ``bronze``, ``silver``, ``malformed``, ``gold`` and the stages' checkpoints.

    :param root: folder, or the URL of one on a file system that Spark knows
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self.storage = Storage(spark)

    @property
    def bronze(self) -> str:
        return f"{self.root}/bronze"

    @property
    def silver(self) -> str:
        return f"{self.root}/silver"

    @property
    def malformed(self) -> str:
        return f"{self.root}/malformed"

    @property
    def touched(self) -> str:
        """Days that gold has to be computed for again, a file for each batch of silver."""
        return f"{self.root}/_touched"

    def gold(self, table: str) -> str:
        """Folder of a gold table."""
        return f"{self.root}/gold/{table}"

    def checkpoint(self, stage: str) -> str:
        """Spark's checkpoint of a stage."""
        return f"{self.root}/_checkpoints/{stage}"

    # -- reading ---------------------------------------------------------------------------

    def read_silver(self) -> DataFrame:
        """Silver as it is now, with the column ``batch``."""
        return self._read(self.silver, StructType([*schemas.SILVER.fields, _BATCH]))

    def read_malformed(self) -> DataFrame:
        """What could not be read, with the column ``batch``."""
        return self._read(self.malformed, StructType([*schemas.MALFORMED.fields, _BATCH]))

    def read_gold(self, table: str) -> DataFrame:
        """A gold table as it is now."""
        return self._read(self.gold(table), GOLD[table])

    def _read(self, folder: str, schema: StructType) -> DataFrame:
        if not self.storage.exists(folder):
            return self.spark.createDataFrame([], schema)
        frame = self.spark.read.schema(schema).parquet(folder)
        return frame.select(*schema.fieldNames())

    # -- writing ---------------------------------------------------------------------------

    def write_batch(self, rows: DataFrame, folder: str, label: str) -> None:
        """Add a batch's rows by day; a batch that is written again replaces what it left."""
        _replace(rows.withColumn("batch", F.lit(label)), folder, "day", "batch")

    def write_gold(self, table: str, rows: DataFrame, days: Iterable[datetime.date]) -> None:
        """Replace these days of a gold table; all rows are of these days."""
        folder = self.gold(table)
        there = {f"day={day}" for day in days} & set(self.storage.names(folder))
        before = {name: self.storage.names(f"{folder}/{name}") for name in there}
        _replace(rows.repartition("day"), folder, "day")
        for name, files in before.items():
            # Spark leaves a partition alone that no row is of: then what it had is out of date.
            if self.storage.names(f"{folder}/{name}") == files:
                self.storage.delete(f"{folder}/{name}")


def _replace(rows: DataFrame, folder: str, *partitions: str) -> None:
    (rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
     .option("compression", _COMPRESSION).partitionBy(*partitions).parquet(folder))
