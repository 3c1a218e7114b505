# SPDX-License-Identifier: Apache-2.0

"""Batch reads: collect messages until the links are idle, then read the spool.

Spark does not tell a batch source that its rows have arrived, and plans a data frame again for each
use. A read therefore purges nothing: each read returns the same rows, and those collected since,
until the program calls :func:`confirm`. Delivery is at least once. Collecting is part of planning;
Spark's workers only read the spool's files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from amqp1_driver.pipeline.source import ranges
from amqp1_driver.pipeline.source.collection import Collection, Factory
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Spool


class Amqp1Reader(DataSourceReader):
    """A reader that opens the spool and connects to the bus only while Spark plans."""

    def __init__(self, options: SourceOptions, factory: Factory) -> None:
        self._options = options
        self._factory = factory

    def partitions(self) -> Sequence[InputPartition]:
        """Collect messages, and return partitions with all rows that are not confirmed.

        :raises CollectorFailed: the collector has failed, or its links are not attached after
            drainMaxMs
        :raises SpoolError: the spool cannot be opened
        :raises Missing: rows are missing and failOnDataLoss is set
        """
        collection = Collection(self._options, self._factory)
        try:
            high = collection.drain()
            spool = collection.spool
            planned = ranges.plan(
                spool,
                spool.committed + 1,
                high,
                self._options.tasks(),
                self._options.fail_on_data_loss,
            )
        finally:
            collection.close()
        return planned or [ranges.RowRange()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the record batches of a partition. Spark calls this in its workers."""
        return ranges.read(partition, self._options.fail_on_data_loss)


def confirm(spool_dir: str | os.PathLike[str], seq: int) -> None:
    """Purge the rows of batch reads up to ``seq``.

    Never call this while a streaming query uses the spool: the call fences the query out.

    :param seq: the greatest ``seq`` that the program has written elsewhere
    :raises ValueError: the spool has no such row
    :raises SpoolError: the spool cannot be opened
    """
    spool = Spool.open(spool_dir)
    try:
        spool.commit(seq)
    finally:
        spool.close()
