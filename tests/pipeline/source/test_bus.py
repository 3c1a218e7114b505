# SPDX-License-Identifier: Apache-2.0

"""From the embedded bus through collector, spool and Spark into Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.testing.fixture import BusFixture
from tests.pipeline.collect.support import publish
from tests.pipeline.source.query import Query


@pytest.fixture
def bus() -> Iterator[BusFixture]:
    with BusFixture("broker", queue_capacity=100_000) as made:
        yield made


def test_each_message_is_in_the_files_once(spark: Any, tmp_path: Path, bus: BusFixture) -> None:
    """More than the spool takes at a time, in one run after another."""
    query = Query(spark, tmp_path, "amqp1", bus.url())
    options = {"maxSpoolRows": 400, "maxRowsPerTrigger": 150, "lingerMs": 5, "drainIdleMs": 300}
    publish(bus.url(), "a", range(300))
    query.run(**options)
    assert len(query.result()) == 300
    # The newest segment, of 200 rows at most, stays: more than twice what there is room for.
    publish(bus.url(), "a", range(300, 1500))
    batches = query.run(**options)
    assert sum(batches) == 1200
    assert max(batches) <= 150

    rows = query.result()
    assert [seq for seq, _, _ in rows] == list(range(1, 1501))
    assert sorted(name for _, name, _ in rows) == sorted(f"m{number}" for number in range(1500))
    assert {body for _, _, body in rows} == {f"{number}.........." for number in range(1500)}
    status = json.loads((query.spool / "status.json").read_text())
    assert (status["high"], status["max_rows"], status["duplicates"]) == (1500, 400, 0)
