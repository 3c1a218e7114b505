# SPDX-License-Identifier: Apache-2.0

"""Writers for ``df.write`` and ``writeStream``: the bus accepts each row, or the row's task fails.

Spark makes a writer in the process that plans, and publishes in tasks. A task that Spark tries
again sends its rows again, with the same ids. Messages sent before a failure stay sent: the bus has
no transaction over many tasks.
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

#: names of local properties that Spark sets for the tasks of a stream
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclasses.dataclass
class Published(WriterCommitMessage):
    """The result of a task.

    :param accepted: number of messages that the bus has accepted
    :param resent: number of sends repeated after a lost connection
    """

    accepted: int = 0
    resent: int = 0


class _Writer:
    """The base of both writers. The process that plans makes it; Spark pickles it for the tasks.

    :param options: options of the sink
    :param schema: schema of the data frame
    :raises ValueError: the rows of the data frame are not messages
    """

    def __init__(self, options: WriterOptions, schema: StructType) -> None:
        self._options = options
        self._job = uuid.uuid4().hex
        rows.check(
            ((field.name, field.dataType.simpleString()) for field in schema.fields),
            options.destination(),
        )

    def publish(self, batches: Iterable[Any]) -> Published:
        """Send all rows of a task, and wait until the bus has accepted them.

        :raises AmqpError: the bus has not accepted one of the messages
        :raises ValueError: a row has no address, and the options give none
        """
        # Imported here: planning needs no connection, and a process must not fork while proton has
        # one.
        from amqp1_driver.pipeline import bus
        from amqp1_driver.pipeline.publish.publisher import Publisher

        options = self._options
        prefix = self._prefix()
        client = bus.make_client(options.url, options.exchange, options.driver)
        with Publisher(client, options.max_in_flight, options.timeout) as publisher:
            for message in rows.messages(
                batches, options.destination(), lambda number: f"{prefix}-{number}"
            ):
                publisher.send(*message)
            publisher.flush()
            return Published(publisher.accepted, publisher.resent)

    def _prefix(self) -> str:
        """Return the prefix of the task's message ids.

        The prefix is the same if Spark repeats the task or the batch.
        """
        context = TaskContext.get()
        local = context.getLocalProperty if context is not None else lambda name: None
        begin = self._options.id_prefix or local(_QUERY) or self._job
        batch = local(_BATCH)
        partition = context.partitionId() if context is not None else 0
        return f"{begin}-{batch}-{partition}" if batch is not None else f"{begin}-{partition}"


class Amqp1Writer(_Writer, DataSourceArrowWriter):
    """The writer of a batch."""

    def write(self, iterator: Iterator[Any]) -> Published:
        """Send the rows of a task; see :meth:`_Writer.publish`."""
        return self.publish(iterator)


class Amqp1StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of a stream."""

    def write(self, iterator: Iterator[Any]) -> Published:
        """Send the rows of a task; see :meth:`_Writer.publish`."""
        return self.publish(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: the bus has accepted all rows already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: accepted rows stay on the bus; Spark repeats the batch with the same ids."""
