# SPDX-License-Identifier: Apache-2.0

"""The folders of a lake, and methods that read and replace its tables.

On the driver program's thread, and for batches of silver on their query's.
"""

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
        """Return the folder with the days that gold must compute again: a file per silver batch."""
        return f"{self.root}/_touched"

    def gold(self, table: str) -> str:
        """Return the folder of a gold table."""
        return f"{self.root}/gold/{table}"

    def checkpoint(self, stage: str) -> str:
        """Return the folder with Spark's checkpoint of a stage."""
        return f"{self.root}/_checkpoints/{stage}"

    # -- reading ---------------------------------------------------------------------------

    def read_silver(self) -> DataFrame:
        """Return silver as it is now, with the column ``batch``."""
        return self._read(self.silver, StructType([*schemas.SILVER.fields, _BATCH]))

    def read_malformed(self) -> DataFrame:
        """Return the malformed messages, with the column ``batch``."""
        return self._read(self.malformed, StructType([*schemas.MALFORMED.fields, _BATCH]))

    def read_gold(self, table: str) -> DataFrame:
        """Return a gold table as it is now."""
        return self._read(self.gold(table), GOLD[table])

    def _read(self, folder: str, schema: StructType) -> DataFrame:
        if not self.storage.exists(folder):
            return self.spark.createDataFrame([], schema)
        frame = self.spark.read.schema(schema).parquet(folder)
        return frame.select(*schema.fieldNames())

    # -- writing ---------------------------------------------------------------------------

    def write_batch(self, rows: DataFrame, folder: str, label: str) -> None:
        """Add a batch's rows by day, replacing those of an earlier attempt at the same batch.

        :param label: name of the batch, the same in each attempt
        """
        _replace(rows.withColumn("batch", F.lit(label)), folder, "day", "batch")

    def write_gold(self, table: str, rows: DataFrame, days: Iterable[datetime.date]) -> None:
        """Replace these days of a gold table.

        :param rows: the new rows of these days, and of no other day
        """
        folder = self.gold(table)
        there = {f"day={day}" for day in days} & set(self.storage.names(folder))
        before = {name: self.storage.names(f"{folder}/{name}") for name in there}
        _replace(rows.repartition("day"), folder, "day")
        for name, files in before.items():
            # Spark leaves a partition without new rows alone; its old files are out of date.
            if self.storage.names(f"{folder}/{name}") == files:
                self.storage.delete(f"{folder}/{name}")


def _replace(rows: DataFrame, folder: str, *partitions: str) -> None:
    (
        rows.write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .option("compression", _COMPRESSION)
        .partitionBy(*partitions)
        .parquet(folder)
    )
