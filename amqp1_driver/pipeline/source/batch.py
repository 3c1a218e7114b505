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

"""Batch: collect what is there until the links are idle, then read the spool.

Spark has no call that tells a batch source that its rows have arrived, and plans one frame more
than once when it is used more than once. So a read purges nothing: the same rows come again, with
those collected since, until :func:`confirm` is called. That is at least once.
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
    """Nothing is opened but while Spark plans."""

    def __init__(self, options: SourceOptions, factory: Factory) -> None:
        self._options = options
        self._factory = factory

    def partitions(self) -> Sequence[InputPartition]:
        """Collect, and give all rows that were not confirmed.

        :raises CollectorFailed: nothing can be collected
        :raises Missing: rows are missing and failOnDataLoss is set
        """
        collection = Collection(self._options, self._factory)
        try:
            high = collection.drain()
            spool = collection.spool
            planned = ranges.plan(spool, spool.committed + 1, high, self._options.tasks(),
                                  self._options.fail_on_data_loss)
        finally:
            collection.close()
        return planned or [ranges.RowRange()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a partition."""
        return ranges.read(partition, self._options.fail_on_data_loss)


def confirm(spool_dir: str | os.PathLike[str], seq: int) -> None:
    """Purge the rows of batch reads up to ``seq``, which is the greatest one written elsewhere.

    Not while a streaming query uses the spool: that is fenced out by this.

    :raises ValueError: the spool has no such row
    :raises SpoolError: the spool cannot be opened
    """
    spool = Spool.open(spool_dir)
    try:
        spool.commit(seq)
    finally:
        spool.close()
