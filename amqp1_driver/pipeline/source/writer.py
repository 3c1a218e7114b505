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

"""``df.write.format("amqp1")`` and ``writeStream``: each row is accepted by the bus, or its task
fails.

A task that is tried again sends its rows again, with the same ids. What was sent before a
failure stays sent: the bus has no transaction over many tasks.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from amqp1_driver.pipeline.publish import rows
from amqp1_driver.pipeline.publish.options import WriterOptions

#: what Spark tells the tasks of a stream
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclasses.dataclass
class Published(WriterCommitMessage):
    """What a task has done.

    :param accepted: messages that the bus has accepted
    :param resent: of these, sent twice because a connection was lost
    """

    accepted: int = 0
    resent: int = 0


class _Writer:
    """What both writers do. Made where the job is planned, then pickled for its tasks.

    :param options: of the sink
    :param schema: of the data frame
    :raises ValueError: its rows are no messages
    """

    def __init__(self, options: WriterOptions, schema: StructType) -> None:
        self._options = options
        self._job = uuid.uuid4().hex
        rows.check(((field.name, field.dataType.simpleString()) for field in schema.fields),
                   options.destination())

    def publish(self, batches: Iterable[Any]) -> Published:
        """Send all rows of a task, and wait until the bus has accepted them."""
        # late: planning needs no connection, and proton is not to be forked with one
        from amqp1_driver.pipeline import bus
        from amqp1_driver.pipeline.publish.publisher import Publisher

        options = self._options
        prefix = self._prefix()
        client = bus.make_client(options.url, options.exchange, options.driver)
        with Publisher(client, options.max_in_flight, options.timeout) as publisher:
            for message in rows.messages(batches, options.destination(),
                                         lambda number: f"{prefix}-{number}"):
                publisher.send(*message)
            publisher.flush()
            return Published(publisher.accepted, publisher.resent)

    def _prefix(self) -> str:
        """The same for the same task, also when Spark runs it, or all of the batch, again."""
        context = TaskContext.get()
        local = context.getLocalProperty if context is not None else lambda name: None
        begin = self._options.id_prefix or local(_QUERY) or self._job
        batch = local(_BATCH)
        partition = context.partitionId() if context is not None else 0
        return f"{begin}-{batch}-{partition}" if batch is not None else f"{begin}-{partition}"


class Amqp1Writer(_Writer, DataSourceArrowWriter):
    """Of a batch."""

    def write(self, iterator: Iterator[Any]) -> Published:
        """See :meth:`_Writer.publish`; in a task."""
        return self.publish(iterator)


class Amqp1StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Of a stream."""

    def write(self, iterator: Iterator[Any]) -> Published:
        """See :meth:`_Writer.publish`; in a task."""
        return self.publish(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All is on the bus already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What is on the bus stays there; the batch comes again, with the same ids."""
