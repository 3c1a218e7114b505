# SPDX-License-Identifier: Apache-2.0

"""The job that goes on, with copies looked up in Spark's state; and the count of received rows."""

from __future__ import annotations

import datetime
import threading
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amqp1_driver.pipeline.generate import story
from tests.pipeline.lake import support
from tests.pipeline.lake.support import rows


def test_on_and_on_until_told_to_end(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files, one a batch; a copy in the second of what was in the first."""
    from amqp1_driver.pipeline.lake import gold, job
    from amqp1_driver.pipeline.lake.layout import Lake
    from amqp1_driver.pipeline.lake.plan import Plan

    # Gold is another test's: here it would cost twenty seconds.
    day = datetime.date(2026, 3, 2)
    monkeypatch.setattr(gold, "refresh", lambda lake, until: gold.Refreshed([day], 1, until))
    lake = Lake(spark, str(tmp_path / "lake"))
    emissions = list(story.emissions())
    copy = next(
        number for number, emission in enumerate(emissions) if emission.message_id == "s-8-again"
    )
    support.add_bronze(tmp_path / "bronze", emissions[:copy], 0)
    end, told = threading.Event(), [0]

    def tell(summary: job.Summary) -> None:
        told.append(summary.taken.notifications)
        if told[-1] == 54 or len(told) == 400:
            end.set()
        elif told[-1] == 8 and 8 not in told[:-1]:
            support.add_bronze(tmp_path / "bronze", emissions[copy:], copy)

    plan = Plan(
        bronze=str(tmp_path / "bronze"),
        every=0.1,
        gold_every=0.2,
        dedup_within="2 hours",
        files_per_batch=1,
    )
    summary = job.run(lake, plan, end, tell)
    assert {8, 54} < {*told, -1}
    taken = summary.taken
    assert (taken.rows, taken.notifications, taken.malformed, taken.copies) == (59, 54, 5, None)
    assert summary.touched == [day]
    found = rows(lake.read_silver(), "message_id")
    assert found == sorted((f"s-{number}",) for number in range(1, 55))
    # what gold is to know: one note for each batch
    assert len(lake.storage.names(lake.touched)) == 2


class Query:
    """A query of 2 rows a batch; it remembers 100 batches, and ends with the third wait."""

    def __init__(self) -> None:
        self.recentProgress: deque[dict[str, int]] = deque(maxlen=100)
        self.waits = 0
        self.isActive = True

    @property
    def lastProgress(self) -> dict[str, int] | None:
        return self.recentProgress[-1] if self.recentProgress else None

    def batches(self, first: int, end: int) -> None:
        for number in range(first, end):
            self.recentProgress.append({"batchId": number, "numInputRows": 2})
        # a trigger without data reports the number of the batch to come
        self.recentProgress.append({"batchId": end, "numInputRows": 0})

    def awaitTermination(self, timeout: float | None = None) -> bool:
        if timeout is None:
            while not self.awaitTermination(1):
                pass
            return True
        if self.waits < 3:
            self.waits += 1
            self.batches(80 * (self.waits - 1), 80 * self.waits)
        return self.waits == 3

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


class Stage:
    """A stage silver that has nothing to do."""

    def start(self, *_: Any) -> Query:
        query = Query()
        query.waits = 2
        return query


def test_received_rows_are_counted_beyond_what_spark_remembers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from amqp1_driver.pipeline.lake import bronze, gold, job
    from amqp1_driver.pipeline.lake.plan import Plan

    monkeypatch.setattr(bronze, "start", lambda *_: Query())
    monkeypatch.setattr(gold, "refresh", lambda lake, until: gold.Refreshed([], 0, until))
    summary: Any = job.Summary()
    nothing: Any = None
    stage: Any = Stage()
    job._once(nothing, Plan(source={"url": "amqp:"}), stage, "bronze", summary)
    # 3 waits of 80 batches with 2 rows each
    assert summary.received == 480


def test_a_job_that_goes_on_counts_between_computations_of_gold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from amqp1_driver.pipeline.lake import bronze, gold, job
    from amqp1_driver.pipeline.lake.plan import Plan

    query = Query()

    class End(threading.Event):
        """An event whose third wait finds it set; each wait takes 80 batches and no time."""

        def wait(self, timeout: float | None = None) -> bool:
            return query.awaitTermination(0)

    monkeypatch.setattr(bronze, "start", lambda *_: query)
    monkeypatch.setattr(gold, "refresh", lambda lake, until: gold.Refreshed([], 0, until))
    # one computation of gold only: the clock stands still
    monkeypatch.setattr(job, "time", SimpleNamespace(monotonic=lambda: 0.0))
    summary: Any = job.Summary()
    nothing: Any = None
    stage: Any = Stage()
    plan = Plan(source={"url": "amqp:"}, every=1.0, gold_every=60.0)
    job._on_and_on(nothing, plan, stage, "bronze", summary, End(), None)
    assert summary.received == 480
