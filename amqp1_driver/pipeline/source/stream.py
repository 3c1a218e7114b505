# SPDX-License-Identifier: Apache-2.0

"""Streaming reads: the planning process collects into the spool, and workers read from it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from amqp1_driver.pipeline.source import offsets, ranges
from amqp1_driver.pipeline.source.collection import Collection, Factory
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Spool

#: seconds that latestOffset() waits if there is nothing to do; without this wait Spark would call
#: it about 100 times a second
HOLD = 0.1
#: seconds that the bus has for sending the first message once there is room again; on a busy
#: machine that takes longer than drainIdleMs
RETURN = 5.0


class Amqp1StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of a stream: Spark makes one in the process that plans, and others that only read.

    The reader therefore opens nothing before the first call that plans. Exactly one batch reads
    each row; the batch reads the row again if Spark repeats it after a crash.
    """

    def __init__(self, options: SourceOptions, factory: Factory) -> None:
        self._options = options
        self._factory = factory
        self._opened: Collection | None = None
        #: with availableNow: the last row that the spool had when it was drained; None otherwise
        self._target: int | None = None
        #: whether the bus may have more messages, and the seconds left for waiting for them
        self._more = False
        self._patience = options.drain_max

    def _collection(self) -> Collection:
        if self._opened is None:
            self._opened = Collection(self._options, self._factory)
        return self._opened

    # -- planning --------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return where a query without checkpoint begins: after the last committed row."""
        spool = self._collection().spool
        return offsets.make(spool, spool.committed)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of option maxRowsPerTrigger."""
        return ReadMaxRows(self._options.max_rows_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """Collect what is there now: until the links are idle or the spool is full."""
        self._drain()

    def _drain(self) -> None:
        collection, began = self._collection(), time.monotonic()
        self._target = collection.drain(self._patience)
        self._patience -= time.monotonic() - began
        self._more = self._patience > 0 and collection.full

    def _drain_again(self) -> None:
        """Collect the messages for which the spool had no room; all its rows are processed now.

        This also collects messages sent since the run began, because nothing distinguishes them
        from the others. The run therefore ends when it has caught up, or has waited for drainMaxMs
        in all.
        """
        collection, began = self._collection(), time.monotonic()
        if not collection.full:
            # The commit a moment ago has made room. The links count as idle, but only because
            # they had no credit.
            longest = max(RETURN, self._options.drain_idle)
            collection.wait(collection.spool.high + 1, min(self._patience, longest))
            self._patience -= time.monotonic() - began
        self._drain()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch.

        :raises CollectorFailed: the collector has failed
        :raises SpoolError: the checkpoint is of another spool
        """
        collection = self._collection()
        collection.check()
        collection.report()
        spool = collection.spool
        seq = offsets.seq(start, spool)
        high = max(seq, self._end(spool))
        if high == seq:
            # Spark commits a batch only when it plans the next one, and a spool full of processed
            # rows would wait for that for ever. So commit the rows up to ``seq`` now: Spark
            # asks for later rows only when the batch with these rows is done.
            if spool.committed < seq:
                spool.commit(seq)
            if self._target is None:
                collection.wait(seq + 1, HOLD)
            elif self._more:
                self._drain_again()
            high = max(seq, self._end(spool))
        if isinstance(limit, ReadMaxRows):
            high = min(high, seq + limit.max_rows)
        return offsets.make(spool, high)

    def _end(self, spool: Spool) -> int:
        """Return the last row that a batch may read now."""
        return spool.high if self._target is None else self._target

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the offset of the last durable row, for the progress of the query."""
        if self._opened is None:
            return None
        return offsets.make(self._opened.spool, self._opened.spool.high)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions of the rows after ``start`` up to ``end``.

        After a restart these are the rows of the unfinished batch.

        :raises Missing: rows are missing and failOnDataLoss is set
        """
        spool = self._collection().spool
        return ranges.plan(
            spool,
            offsets.seq(start, spool) + 1,
            offsets.seq(end, spool),
            self._options.tasks(),
            self._options.fail_on_data_loss,
        )

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the rows up to ``end`` in the spool: they are in the sink."""
        spool = self._collection().spool
        spool.commit(offsets.seq(end, spool))

    def stop(self) -> None:
        """Disconnect. Spark does not always call this method, so nothing depends on it."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    # -- in workers ------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the record batches of a partition."""
        return ranges.read(partition, self._options.fail_on_data_loss)
