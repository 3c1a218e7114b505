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

"""The job: bronze, silver and gold in their order, once or continuously."""

from __future__ import annotations

import dataclasses
import datetime
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from amqp1_driver.pipeline.lake import bronze, gold
from amqp1_driver.pipeline.lake.layout import Lake
from amqp1_driver.pipeline.lake.plan import Plan
from amqp1_driver.pipeline.lake.silver import SilverStage, Taken

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ONCE: Mapping[str, Any] = {"availableNow": True}
#: seconds that a query may take to stop
STOP_SECONDS = 60
#: seconds between looks whether a stage has failed
LOOK = 1.0


@dataclasses.dataclass
class Summary:
    """What one run has done; times in seconds."""

    received: int = 0
    taken: Taken = dataclasses.field(default_factory=Taken)
    touched: list[datetime.date] = dataclasses.field(default_factory=list)
    until: datetime.datetime | None = None
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time of a block to that of the stage."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - began


def run(lake: Lake, plan: Plan, end: threading.Event | None = None,
        tell: Callable[[Summary], None] | None = None) -> Summary:
    """Do it. What was not finished the last time is finished first.

    :param end: set to end a continuous run
    :param tell: called after each computation of gold
    :raises StreamingQueryException: a stage failed; started again, the job goes on from there
    """
    summary = Summary()
    stage = SilverStage(lake, plan.dedup_within)
    summary.taken = stage.taken
    folder = plan.bronze or lake.bronze
    lake.storage.make(folder)
    if plan.every is None:
        _once(lake, plan, stage, folder, summary)
    else:
        _on_and_on(lake, plan, stage, folder, summary, end or threading.Event(), tell)
    return summary


def _once(lake: Lake, plan: Plan, stage: SilverStage, folder: str, summary: Summary) -> None:
    if plan.source is not None:
        with summary.timed("bronze"):
            query = bronze.start(lake, plan.source, ONCE)
            query.awaitTermination()
        summary.received = _received(query)
    with summary.timed("silver"):
        stage.start(folder, ONCE, plan.files_per_batch).awaitTermination()
    _gold(lake, plan, summary)


def _on_and_on(lake: Lake, plan: Plan, stage: SilverStage, folder: str, summary: Summary,
               end: threading.Event, tell: Callable[[Summary], None] | None) -> None:
    trigger = {"processingTime": f"{plan.every} seconds"}
    queries: list[StreamingQuery] = []
    try:
        if plan.source is not None:
            queries.append(bronze.start(lake, plan.source, trigger))
        queries.append(stage.start(folder, trigger, plan.files_per_batch))
        over = False
        while not over:
            over = _ended(queries, end, plan.gold_every)
            if over:
                _stop(queries)
                # at once: who starts the job again need not wait for gold
                _raise(queries)
            _gold(lake, plan, summary)
            if tell is not None:
                tell(summary)
    finally:
        _stop(queries)
        summary.received = sum(_received(query) for query in queries[:-1])


def _raise(queries: list[StreamingQuery]) -> None:
    """:raises StreamingQueryException: a query has failed"""
    for query in queries:
        error = query.exception()
        if error is not None:
            raise error


def _ended(queries: list[StreamingQuery], end: threading.Event, seconds: float) -> bool:
    """Wait so long; true at once when the end is asked for, soon when a query has failed."""
    until = time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        if end.wait(max(0.0, min(LOOK, left))) or not all(query.isActive for query in queries):
            return True
        if left <= LOOK:
            return False


def _gold(lake: Lake, plan: Plan, summary: Summary) -> None:
    with summary.timed("gold"):
        refreshed = gold.refresh(lake, plan.until)
    summary.touched = sorted({*summary.touched, *refreshed.touched})
    summary.until = refreshed.until or summary.until


def _stop(queries: list[StreamingQuery]) -> None:
    for query in queries:
        if query.isActive:
            query.stop()
            query.awaitTermination(STOP_SECONDS)


def _received(query: StreamingQuery) -> int:
    """Rows of the batches that Spark remembers (spark.sql.streaming.numRecentProgressUpdates)."""
    return sum(progress["numInputRows"] for progress in query.recentProgress)
