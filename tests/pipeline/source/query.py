# SPDX-License-Identifier: Apache-2.0

"""A streaming query from a spool to Parquet, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amqp1_driver.pipeline.source.schema import RAW
from amqp1_driver.pipeline.spool import Spool, SpoolLimits

#: seconds
DEADLINE = 100


class Query:
    """A query from the spool to Parquet, which can be run again and again."""

    def __init__(self, spark: Any, folder: Path, form: str = "folder", url: str = "") -> None:
        self.spark, self.form = spark, form
        self.queue, self.spool = folder / "queue", folder / "spool"
        self.sink, self.checkpoint = folder / "sink", folder / "checkpoint"
        self.queue.mkdir()
        self.url = url or str(self.queue)

    def frame(self, **options: Any) -> Any:
        return (
            self.spark.readStream.format(self.form)
            .option("url", self.url)
            .option("address", "a")
            .option("spoolDir", str(self.spool))
            .options(**options)
            .load()
        )

    def start(self, trigger: dict[str, Any] | None = None, **options: Any) -> Any:
        return (
            self.frame(**options)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**(trigger or {"availableNow": True}))
            .start(str(self.sink))
        )

    def run(self, **options: Any) -> list[int]:
        """Run it for what is there now; returns the rows of each batch."""
        query = self.start(**options)
        try:
            assert query.awaitTermination(DEADLINE)
        finally:
            query.stop()
        return [
            progress["numInputRows"]
            for progress in query.recentProgress
            if progress["numInputRows"]
        ]

    def result(self) -> list[tuple[int, str, str]]:
        return sorted(
            (each.seq, each.message_id, bytes(each.body).decode())
            for each in self.spark.read.schema(RAW).parquet(str(self.sink)).collect()
        )

    def open_spool(self, **limits: int) -> Spool:
        return Spool.open(self.spool, SpoolLimits(**limits) if limits else None)

    def segments(self) -> list[str]:
        return sorted(path.name for path in self.spool.glob("*.arrow"))
