# SPDX-License-Identifier: Apache-2.0

"""Queues of RabbitMQ 4, in its address format v2. Pure, for any thread.

The names are those of :mod:`amqp1_driver.addressing.queues`. RabbitMQ releases a message whose key
has no queue (outcome RELEASED).

Queues outlive connections and servers, and expire when unused. The queue for notifications
without a pool does not expire by default: it keeps notifications for listeners that come later.
The driver never deletes a queue that others send to. RabbitMQ has no command that deletes a queue
on condition that it is unused or empty, so messages in the queue or with its reader would be in
doubt. For the same reason RabbitMQ releases a message for one server whose queue is missing,
instead of keeping it for a server that has gone.
"""

from urllib.parse import quote

from amqp1_driver.addressing.base import Declaration, Destination, Node, Queue, QueueOptions
from amqp1_driver.addressing.queues import QueueAddresser
from amqp1_driver.exceptions import UnsupportedFeature

#: name of a property of a receiving link, and of a filter of its source
PRIORITY = "rabbitmq:priority"


class RabbitmqAddresser(QueueAddresser):
    """The addresser for RabbitMQ 4. Immutable, for any thread."""

    __slots__ = ()

    @property
    def _exchange(self) -> str:
        return self.config.rabbitmq.exchange

    def _rpc_queue(self, dest: Destination) -> Queue:
        return _queue(self._name(dest), self.config.rabbitmq.rpc)

    def _fanout_queue(self, name: str) -> Queue:
        return _exclusive(name, auto_delete=True)

    def _lasting_queue(self, name: str, pool: str | None) -> Queue:
        options = self.config.rabbitmq
        return _queue(name, options.pools if pool else options.notifications)

    def _notify_source(self, dest: Destination, pool: str | None) -> Node:
        self._check(pool)
        if pool and self.config.rabbitmq.pools.kind == "stream":
            raise UnsupportedFeature(
                "there are no notification pools on streams, whose listeners get every message "
                "anyway: option notification_queue_type must be classic or quorum"
            )
        return QueueAddresser._notify_source(self, dest, pool)

    def _address(self, queue: Queue) -> str:
        return _queue_address(queue)

    def _keyed(self, dest: Destination) -> str:
        exchange, key = (quote(name, safe="") for name in (self._exchange, self._name(dest)))
        return f"/exchanges/{exchange}/{key}"

    def _shared(self, queue: Queue, declare: tuple[Declaration, ...]) -> Node:
        priority = self.config.rabbitmq.priority
        properties = ((PRIORITY, priority),) if priority else ()
        return Node(_queue_address(queue), declare, properties=properties)


def _queue(name: str, options: QueueOptions) -> Queue:
    return Queue(
        name,
        durable=options.lasting,
        exclusive=False,
        auto_delete=False,
        arguments=options.arguments(),
    )


def _exclusive(name: str, *, auto_delete: bool) -> Queue:
    """Return a queue of this connection alone; RabbitMQ's exclusive queues are always classic."""
    return Queue(
        name,
        durable=False,
        exclusive=True,
        auto_delete=auto_delete,
        arguments=QueueOptions().arguments(),
    )


def _queue_address(queue: Queue) -> str:
    return f"/queues/{quote(queue.name, safe='')}"


def reply_node(unique: str) -> Node:
    """Return the node of an exclusive queue for replies, for RabbitMQ 4.0.

    Later releases create a node for replies themselves.

    :param unique: text that identifies the process and fork
    """
    name = f"openstack:reply:{unique.translate(QueueAddresser.ESCAPES)}"
    queue = _exclusive(name, auto_delete=False)
    return Node(_queue_address(queue), (queue,))
