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

"""The stage silver: from bronze's files to each notification once, and the malformed ones apart.

What a batch writes lies in ``day=D/batch=LABEL``. A batch that is made again after a crash has the
same label and the same rows, so it replaces what it left. The label begins with the id in the
checkpoint: after a checkpoint was deleted no batch takes the place of an older one.

A copy is found in silver itself, in the day of its timestamp, whenever it comes; or, with
``dedup_within``, among what was taken in so long before, in Spark's state, whose cost does not grow
with the day.
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

#: with the date that is in the names of folders: a query that starts before there is any would
#: not know of it, and fail with the first file
BRONZE = StructType([*RAW.fields, StructField("date", DateType())])


@dataclasses.dataclass
class Taken:
    """What this run of the stage has done."""

    rows: int = 0
    notifications: int = 0
    malformed: int = 0
    #: ``rows`` is without copies, which Spark's state has left out
    without_copies: bool = False

    @property
    def copies(self) -> int | None:
        """Rows that were there already; None if they were not counted."""
        if self.without_copies:
            return None
        return self.rows - self.notifications - self.malformed


class SilverStage:
    """Takes batches of bronze. Spark's thread of the query; one batch at a time.

    :param dedup_within: how long after the first a copy may come (``2 hours``); None: any time
    """

    def __init__(self, lake: Lake, dedup_within: str | None = None) -> None:
        self.lake = lake
        self.dedup_within = dedup_within
        self.taken = Taken(without_copies=dedup_within is not None)
        self._id = ""

    def start(self, bronze: str, trigger: Mapping[str, Any],
              files_per_batch: int = FILES_PER_BATCH) -> StreamingQuery:
        """The running query.

        :param bronze: folder with bronze's files, the lake's own or another
        :param trigger: arguments of ``DataStreamWriter.trigger``
        """
        stream = (self.lake.spark.readStream.schema(BRONZE)
                  .option("maxFilesPerTrigger", files_per_batch).parquet(bronze))
        if self.dedup_within is not None:
            stream = _deduplicated(stream, self.dedup_within)
        return (
            stream.writeStream.queryName("silver").foreachBatch(self.take)
            .option("checkpointLocation", self.lake.checkpoint("silver"))
            .trigger(**trigger).start()
        )

    def take(self, batch: DataFrame, batch_id: int) -> None:
        """Write one batch; again, if it was not finished the last time."""
        label = f"{self._query_id()}-{batch_id:08d}"
        # Two tables are made of it, and the JSON is to be parsed once.
        opened = batch if self.dedup_within is not None else envelope.opened(batch)
        opened = opened.persist()
        try:
            self._write(opened, label)
        finally:
            opened.unpersist()

    def _write(self, opened: DataFrame, label: str) -> None:
        counts = (opened.groupBy(F.to_date("time").alias("day"),
                                 F.col("reason").isNotNull().alias("bad")).count().collect())
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
        # After the rows: were it before, gold could take the note away without having seen them.
        self.lake.storage.write_json(
            f"{self.lake.touched}/{label}.json", [str(day) for day in days])
        self.taken.notifications += int(written.get.get("rows") or 0)

    def _query_id(self) -> str:
        """The begin of the id that Spark keeps in the checkpoint."""
        if not self._id:
            metadata = f"{self.lake.checkpoint('silver')}/metadata"
            self._id = str(self.lake.storage.read_json(metadata)["id"])[:8]
        return self._id


def _deduplicated(stream: DataFrame, within: str) -> DataFrame:
    """Opened rows without copies that come within a time of the first.

    The time is that of taking in, not the notification's: a row is so never too late for the
    watermark, which would drop it.
    """
    opened = envelope.opened(stream)
    alone = F.concat_ws(":", *(F.col(name).cast("string")
                               for name in ("received_time", "address", "seq")))
    keyed = opened.withColumns({
        "_taken": F.current_timestamp(),
        "_day": F.to_date("time"),
        "_id": F.when(F.col("reason").isNull(), F.col("n_message_id")).otherwise(alone),
    })
    kept = keyed.withWatermark("_taken", within).dropDuplicatesWithinWatermark(["_day", "_id"])
    return kept.drop("_taken", "_day", "_id")
