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

"""Streaming: the planning process collects into the spool, workers read from it."""

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

#: seconds; with nothing to do Spark asks about 100 times a second, unless it is held up
HOLD = 0.1
#: seconds that the bus has to send the first message once there is room again; on a busy machine
#: that takes longer than links have to be quiet to be idle
RETURN = 5.0


class Amqp1StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes one in the process that plans, and others that only read.

    So nothing is opened before the first call that plans. Each row is read by exactly one batch,
    and read again when that batch is repeated after a crash.
    """

    def __init__(self, options: SourceOptions, factory: Factory) -> None:
        self._options = options
        self._factory = factory
        self._opened: Collection | None = None
        #: of availableNow: the last row that the spool could take of what was there
        self._target: int | None = None
        #: whether there may be more, and seconds that may yet be spent on waiting for it
        self._more = False
        self._patience = options.drain_max

    def _collection(self) -> Collection:
        if self._opened is None:
            self._opened = Collection(self._options, self._factory)
        return self._opened

    # -- planning --------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Of a query without checkpoint: what nobody has committed comes first."""
        spool = self._collection().spool
        return offsets.make(spool, spool.committed)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Option maxRowsPerTrigger."""
        return ReadMaxRows(self._options.max_rows_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """Settle what is there now: the links have gone idle or the spool is full."""
        self._drain()

    def _drain(self) -> None:
        collection, began = self._collection(), time.monotonic()
        self._target = collection.drain(self._patience)
        self._patience -= time.monotonic() - began
        self._more = self._patience > 0 and collection.full

    def _drain_again(self) -> None:
        """All that the spool could take is processed, and there was no room for the rest.

        What comes meanwhile is taken too, as nobody can tell it from the rest. So the run ends
        when it has caught up, or has waited for messages for drainMaxMs in all.
        """
        collection, began = self._collection(), time.monotonic()
        if not collection.full:
            # There is room since a moment ago. Nothing has come on these links for a while, but
            # only because they had no credit.
            longest = max(RETURN, self._options.drain_idle)
            collection.wait(collection.spool.high + 1, min(self._patience, longest))
            self._patience -= time.monotonic() - began
        self._drain()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch.

        :raises CollectorFailed: nothing can be collected any more
        :raises SpoolError: the checkpoint is of another spool
        """
        collection = self._collection()
        collection.check()
        collection.report()
        spool = collection.spool
        seq = offsets.seq(start, spool)
        high = max(seq, self._end(spool))
        if high == seq:
            # Spark commits a batch only when it plans the next. A spool that is full of rows
            # already processed would wait for that for ever, so they are committed now: Spark
            # asks for what comes after them only once their batch is done.
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
        """The last row that may be read now."""
        return spool.high if self._target is None else self._target

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What is durable, for the progress of the query."""
        if self._opened is None:
            return None
        return offsets.make(self._opened.spool, self._opened.spool.high)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Rows after ``start`` to ``end``; after a restart those of the unfinished batch.

        :raises Missing: rows are missing and failOnDataLoss is set
        """
        spool = self._collection().spool
        return ranges.plan(spool, offsets.seq(start, spool) + 1, offsets.seq(end, spool),
                           self._options.tasks(), self._options.fail_on_data_loss)

    def commit(self, end: dict[str, Any]) -> None:
        """Rows up to ``end`` are in the sink."""
        spool = self._collection().spool
        spool.commit(offsets.seq(end, spool))

    def stop(self) -> None:
        """Disconnect; Spark does not always call it, so nothing depends on it."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    # -- in workers ------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a partition."""
        return ranges.read(partition, self._options.fail_on_data_loss)
