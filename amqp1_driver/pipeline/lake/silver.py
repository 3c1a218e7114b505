# SPDX-License-Identifier: Apache-2.0

"""The stage silver: from bronze's files to each notification once, and malformed messages apart.

A batch writes into ``day=D/batch=LABEL``. A repetition of the batch after a crash has the same
label and the same rows, so it replaces the files of the first attempt. The label begins with the id
of the query in the checkpoint: batches of a query with a new checkpoint never replace older ones.

The stage finds a copy by reading silver, in the day of the copy's timestamp, however late the copy
comes. With ``dedup_within`` it finds a copy in Spark's state instead, which holds only what came in
during that time: the cost does not grow with the day.

Batches run on the thread of Spark's query, everything else on the driver program's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from amqp1_driver.pipeline.lake.plan import FILES_PER_BATCH
from amqp1_driver.pipeline.source.schema import RAW
from amqp1_driver.pipeline.transform import envelope
from amqp1_driver.pipeline.transform import silver as table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from amqp1_driver.pipeline.lake.layout import Lake

#: the columns of bronze, with the date that is in the names of folders: a query that starts before
#: there is any folder would not know that column, and fail with the first file
BRONZE = StructType([*RAW.fields, StructField("date", DateType())])


@dataclasses.dataclass
class Taken:
    """The counts of one run of the stage."""

    rows: int = 0
    notifications: int = 0
    malformed: int = 0
    #: ``rows`` does not count copies: Spark's state has removed them before
    without_copies: bool = False

    @property
    def copies(self) -> int | None:
        """Return how many rows were copies; None if the stage did not count them."""
        if self.without_copies:
            return None
        return self.rows - self.notifications - self.malformed


class SilverStage:
    """A stage that takes batches of bronze, one at a time, on the thread of Spark's query.

    :param dedup_within: how long after the first a copy may come (``2 hours``); None: any time
    """

    def __init__(self, lake: Lake, dedup_within: str | None = None) -> None:
        self.lake = lake
        self.dedup_within = dedup_within
        self.taken = Taken(without_copies=dedup_within is not None)
        self._id = ""

    def start(
        self, bronze: str, trigger: Mapping[str, Any], files_per_batch: int = FILES_PER_BATCH
    ) -> StreamingQuery:
        """Start the query, and return it.

        :param bronze: folder with bronze's files, the lake's own or another
        :param trigger: arguments of ``DataStreamWriter.trigger``
        """
        stream = (
            self.lake.spark.readStream.schema(BRONZE)
            .option("maxFilesPerTrigger", files_per_batch)
            .parquet(bronze)
        )
        if self.dedup_within is not None:
            stream = _deduplicated(stream, self.dedup_within)
        return (
            stream.writeStream.queryName("silver")
            .foreachBatch(self.take)
            .option("checkpointLocation", self.lake.checkpoint("silver"))
            .trigger(**trigger)
            .start()
        )

    def take(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch, or write it again if the last attempt did not finish it."""
        label = f"{self._query_id()}-{batch_id:08d}"
        # Two tables come from these rows: persist them, so that Spark parses the JSON once.
        opened = batch if self.dedup_within is not None else envelope.opened(batch)
        opened = opened.persist()
        try:
            self._write(opened, label)
        finally:
            opened.unpersist()

    def _write(self, opened: DataFrame, label: str) -> None:
        counts = (
            opened.groupBy(F.to_date("time").alias("day"), F.col("reason").isNotNull().alias("bad"))
            .count()
            .collect()
        )
        self.taken.rows += sum(row["count"] for row in counts)
        malformed = sum(row["count"] for row in counts if row.bad)
        if malformed:
            self.lake.write_batch(table.malformed(opened), self.lake.malformed, label)
            self.taken.malformed += malformed
        days = sorted({row.day for row in counts if not row.bad})
        if not days:
            return
        rows = table.first_of_each(table.silver(opened))
        if self.dedup_within is None:
            known = self.lake.read_silver().where(F.col("day").isin(days))
            rows = table.unknown(rows, known.where(F.col("batch") != label))
        written = Observation()
        rows = rows.observe(written, F.count(F.lit(1)).alias("rows"))
        self.lake.write_batch(rows, self.lake.silver, label)
        # Write the note after the rows: otherwise gold could delete it without having seen them.
        self.lake.storage.write_json(
            f"{self.lake.touched}/{label}.json", [str(day) for day in days]
        )
        self.taken.notifications += int(written.get.get("rows") or 0)

    def _query_id(self) -> str:
        """Return the first 8 characters of the query's id, which Spark keeps in the checkpoint."""
        if not self._id:
            metadata = f"{self.lake.checkpoint('silver')}/metadata"
            self._id = str(self.lake.storage.read_json(metadata)["id"])[:8]
        return self._id


def _deduplicated(stream: DataFrame, within: str) -> DataFrame:
    """Return opened rows without the copies that come within a time of the first.

    The watermark follows the time at which silver takes a row in, not the notification's own time.
    A row is therefore never too late for the watermark, which would drop it.

    :param within: an interval in Spark's notation
    """
    opened = envelope.opened(stream)
    alone = F.concat_ws(
        ":", *(F.col(name).cast("string") for name in ("received_time", "address", "seq"))
    )
    keyed = opened.withColumns(
        {
            "_taken": F.current_timestamp(),
            "_day": F.to_date("time"),
            "_id": F.when(F.col("reason").isNull(), F.col("n_message_id")).otherwise(alone),
        }
    )
    kept = keyed.withWatermark("_taken", within).dropDuplicatesWithinWatermark(["_day", "_id"])
    return kept.drop("_taken", "_day", "_id")
