# SPDX-License-Identifier: Apache-2.0

"""Batch reads in Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.pipeline.source import confirm
from tests.pipeline.source.fake import FolderSource, publish


def test_rows_come_again_until_they_are_confirmed(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(FolderSource)
    queue, spool = tmp_path / "queue", tmp_path / "spool"
    publish(queue, "a", "b")

    def read() -> list[tuple[int, str]]:
        frame = (
            spark.read.format("folder")
            .option("url", str(queue))
            .option("topic", "t")
            .option("spoolDir", str(spool))
            .load()
        )
        return sorted((row.seq, row.message_id) for row in frame.collect())

    assert read() == [(1, "a"), (2, "b")]
    publish(queue, "c")
    assert read() == [(1, "a"), (2, "b"), (3, "c")]
    confirm(spool, 2)
    assert read() == [(3, "c")]
    confirm(spool, 3)
    assert read() == []
    with pytest.raises(ValueError, match="row 4 cannot be committed"):
        confirm(spool, 4)
