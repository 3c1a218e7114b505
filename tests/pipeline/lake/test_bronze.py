# SPDX-License-Identifier: Apache-2.0

"""The stage bronze does not begin where Spark would take its batches for written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.pipeline.generate import story
from tests.pipeline.lake import support


def test_a_table_without_its_checkpoint_is_refused(spark: Any, tmp_path: Path) -> None:
    from amqp1_driver.pipeline.lake import bronze
    from amqp1_driver.pipeline.lake.layout import Lake

    lake = Lake(spark, str(tmp_path))
    options = {"url": "amqp://127.0.0.1:1", "address": "a", "spoolDir": str(tmp_path / "spool")}
    listed = tmp_path / "bronze" / "_spark_metadata" / "0"
    listed.parent.mkdir(parents=True)
    listed.write_text("v1\n")
    with pytest.raises(
        ValueError,
        match=r"/bronze has batches, but their checkpoint .*/bronze "
        "is not there",
    ):
        bronze.start(lake, options, {"availableNow": True})
    assert not (tmp_path / "spool").exists()


def test_silver_may_start_before_bronze_has_a_file(spark: Any, tmp_path: Path) -> None:
    """The folder by which bronze is divided is a column from the begin."""
    from amqp1_driver.pipeline.lake.layout import Lake
    from amqp1_driver.pipeline.lake.silver import SilverStage

    lake = Lake(spark, str(tmp_path))
    lake.storage.make(lake.bronze)
    stage = SilverStage(lake)
    query = stage.start(lake.bronze, {"processingTime": "0 seconds"})
    try:
        query.processAllAvailable()
        support.add_bronze(lake.bronze, list(story.emissions())[:5], 1)
        # a trigger that had listed the folder before ends the first wait
        query.processAllAvailable()
        query.processAllAvailable()
    finally:
        query.stop()
    assert (stage.taken.rows, stage.taken.notifications) == (5, 5)
