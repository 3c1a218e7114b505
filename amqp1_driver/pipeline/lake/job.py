# SPDX-License-Identifier: Apache-2.0

"""The job: it runs bronze, silver and gold in order, once or continuously.

On the driver program's thread.
"""

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
#: seconds to wait for a query to stop
STOP_SECONDS = 60
#: seconds between two checks whether a stage has failed
LOOK = 1


@dataclasses.dataclass
class Summary:
    """The results of one run; times in seconds."""

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


def run(
    lake: Lake,
    plan: Plan,
    end: threading.Event | None = None,
    tell: Callable[[Summary], None] | None = None,
) -> Summary:
    """Run the stages; each first finishes what the last run left unfinished.

    :param end: event that ends a continuous run
    :param tell: function that a continuous run calls after each computation of gold
    :raises StreamingQueryException: a stage failed; the next run goes on from there
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
            received = _Received(bronze.start(lake, plan.source, ONCE))
            while not received.query.awaitTermination(LOOK):
                received.look()
        summary.received = received.look()
    with summary.timed("silver"):
        stage.start(folder, ONCE, plan.files_per_batch).awaitTermination()
    _gold(lake, plan, summary)


def _on_and_on(
    lake: Lake,
    plan: Plan,
    stage: SilverStage,
    folder: str,
    summary: Summary,
    end: threading.Event,
    tell: Callable[[Summary], None] | None,
) -> None:
    trigger = {"processingTime": f"{plan.every} seconds"}
    queries: list[StreamingQuery] = []
    received: _Received | None = None
    try:
        if plan.source is not None:
            received = _Received(bronze.start(lake, plan.source, trigger))
            queries.append(received.query)
        queries.append(stage.start(folder, trigger, plan.files_per_batch))
        over = False
        while not over:
            over = _ended(queries, end, plan.gold_every, received)
            if over:
                _stop(queries)
                # Raise before gold: a supervisor can then restart the job at once.
                _raise(queries)
            _gold(lake, plan, summary)
            if tell is not None:
                tell(summary)
    finally:
        _stop(queries)
        if received is not None:
            summary.received = received.look()


def _raise(queries: list[StreamingQuery]) -> None:
    """Raise the error of the first query that has failed.

    :raises StreamingQueryException: a query has failed
    """
    for query in queries:
        error = query.exception()
        if error is not None:
            raise error


def _ended(
    queries: list[StreamingQuery],
    end: threading.Event,
    seconds: float,
    received: _Received | None = None,
) -> bool:
    """Wait up to ``seconds`` for the end of the run, and count received rows meanwhile.

    :returns: True at once when ``end`` is set, and within :data:`LOOK` seconds when a query is no
        longer active; False after ``seconds``
    """
    until = time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        if received is not None:
            received.look()
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


class _Received:
    """A count of the rows that a query has received.

    Spark remembers a limited number of batches (spark.sql.streaming.numRecentProgressUpdates, 100
    by default). The job therefore looks every :data:`LOOK` seconds, except while it computes gold.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self._rows, self._batch = 0, -1

    def look(self) -> int:
        """Add the batches since the last look; return the number of rows so far."""
        last = self.query.lastProgress
        if last is not None and last["batchId"] > self._batch:
            for progress in self.query.recentProgress:
                # A progress without rows may have the number of the next batch.
                if progress["numInputRows"] and progress["batchId"] > self._batch:
                    self._rows += progress["numInputRows"]
                    self._batch = progress["batchId"]
        return self._rows
