# SPDX-License-Identifier: Apache-2.0

"""Queues and exchanges of Apache Qpid Broker-J. Pure, for any thread.

The names are those of :mod:`amqp1_driver.addressing.queues`; slashes and backslashes are encoded,
too. The address of a queue is its name, that of a key ``amq.direct/KEY``. The broker accepts and
drops a message to a key without queues. A notifier therefore declares the queue for listeners that
come later.

Broker-J has no queues that expire when they are unused: it deletes a queue when the last reader of
the queue closes, or never.

- The queue of one server disappears with its last reader, because the server is gone then.
- The queue for any server stays if casts are durable, because a cast may wait in it. With the
  option ``delete_unused_queues`` the last reader, on closing in order, deletes an empty queue.
- The queues of notifications stay.
"""

from amqp1_driver.addressing.base import Destination, Queue, escapes
from amqp1_driver.addressing.queues import QueueAddresser


class BrokerJAddresser(QueueAddresser):
    """The addresser for Apache Qpid Broker-J. Immutable, for any thread."""

    __slots__ = ()

    ESCAPES = escapes("%:/\\")
    _exchange = "amq.direct"

    def _rpc_queue(self, dest: Destination) -> Queue:
        one = dest.server is not None
        return Queue(
            self._name(dest),
            durable=True,
            exclusive=False,
            auto_delete=one or not self.config.durable_casts,
            temporary=not one and self.config.rabbitmq.rpc.temporary,
        )

    def _fanout_queue(self, name: str) -> Queue:
        return Queue(name, durable=False, exclusive=True, auto_delete=False, temporary=True)

    def _lasting_queue(self, name: str, pool: str | None) -> Queue:
        return Queue(name, durable=True, exclusive=False, auto_delete=False)

    def _address(self, queue: Queue) -> str:
        return queue.name

    def _keyed(self, dest: Destination) -> str:
        return f"{self._exchange}/{self._name(dest)}"
