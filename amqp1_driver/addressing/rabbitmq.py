# SPDX-License-Identifier: Apache-2.0

"""Queues of RabbitMQ 4, in its address format v2. Pure, for any thread.

================  =======================================  =====================================
for               queue                                    sent to
================  =======================================  =====================================
RPC, any one      ``openstack:rpc:anycast:EX:TOPIC``       the queue
RPC, one          ``openstack:rpc:unicast:EX:TOPIC:SRV``   the queue
RPC, all          ``openstack:rpc:multicast:EX:TOPIC:U``   its name without ``:U``, as a key
notifications     ``openstack:notify:EX:TOPIC``            its name, as a key
... of a pool     ``openstack:notify:EX:TOPIC:POOL``       (the same: every pool has a copy)
================  =======================================  =====================================

``U`` distinguishes the listener from all others. Keys are routing keys of an exchange that every
virtual host has (``amq.direct``): an exchange of our own would outlive all its users. RabbitMQ
releases a message whose key has no queue (outcome RELEASED).

A virtual host that must be part of the address goes in front: ``openstack:vhost:VHOST:rpc:…``.
The addresser percent-encodes colons and percent signs inside a name. Different destinations never
share a queue.

Queues outlive connections and servers, and expire when unused. The queue for notifications
without a pool does not expire by default: it keeps notifications for listeners that come later.
The driver never deletes a queue that others send to. RabbitMQ has no command that deletes a queue
on condition that it is unused or empty, so messages in the queue or with its reader would be in
doubt.
"""

import dataclasses
from urllib.parse import quote

from amqp1_driver.addressing.base import AddressConfig, Binding, Destination, Node, Queue, Service
from amqp1_driver.addressing.queues import QueueOptions
from amqp1_driver.exceptions import UnsupportedFeature

#: name of a property of a receiving link, and of a filter of its source
PRIORITY = "rabbitmq:priority"


@dataclasses.dataclass(frozen=True, slots=True)
class RabbitmqAddresser:
    """The addresser for RabbitMQ 4. Immutable, for any thread.

    :param bus: name of the bus, for errors.
    :param pools: False only when an option forces this syntax upon another kind of bus.
    """

    config: AddressConfig
    bus: str = "RabbitMQ"
    pools: bool = True

    def target(self, dest: Destination) -> Node:
        if dest.service is Service.NOTIFY:
            return Node(self._keyed(self._notify_key(dest)), self._notify_queue(dest, None))
        if dest.fanout:
            # Each server has its own fanout queue; without any queue there is no server.
            return Node(self._keyed(self._rpc_name("multicast", dest)))
        if dest.server:
            # The sender does not declare this queue. If the queue is missing, so is the server, and
            # RabbitMQ releases the message instead of keeping it for a server that has gone.
            return Node(_queue_address(self._unicast_queue(dest, dest.server).name))
        queue = self._anycast_queue(dest)
        return Node(_queue_address(queue.name), (queue,))

    def sources(self, dest: Destination, *, pool: str | None, unique: str) -> tuple[Node, ...]:
        if dest.service is Service.NOTIFY:
            return (self._notify_source(dest, pool or None),)
        anycast = self._anycast_queue(dest)
        nodes = [self._shared(anycast, (anycast,))]
        if dest.server:
            own = self._unicast_queue(dest, dest.server)
            nodes.insert(0, Node(_queue_address(own.name), (own,)))
        return (*nodes, self._fanout_source(dest, unique))

    def _notify_source(self, dest: Destination, pool: str | None) -> Node:
        if pool and not self.pools:
            raise UnsupportedFeature(f"notification pools are not supported by {self.bus}")
        if pool and self.config.rabbitmq.pools.kind == "stream":
            raise UnsupportedFeature(
                "there are no notification pools on streams, whose listeners get every message "
                "anyway: option notification_queue_type must be classic or quorum"
            )
        queue, binding = self._notify_queue(dest, pool)
        return self._shared(queue, (queue, binding))

    def _shared(self, queue: Queue, declare: tuple[Queue | Binding, ...]) -> Node:
        """Return the node of a queue that several links may read."""
        priority = self.config.rabbitmq.priority
        properties = ((PRIORITY, priority),) if priority else ()
        return Node(_queue_address(queue.name), declare, properties=properties)

    def _anycast_queue(self, dest: Destination) -> Queue:
        return _queue(self._rpc_name("anycast", dest), self.config.rabbitmq.rpc)

    def _unicast_queue(self, dest: Destination, server: str) -> Queue:
        return _queue(self._rpc_name("unicast", dest, server), self.config.rabbitmq.rpc)

    def _fanout_source(self, dest: Destination, unique: str) -> Node:
        """Return the node of an exclusive queue, which ends with its link or its connection."""
        queue = _exclusive(self._rpc_name("multicast", dest, unique), auto_delete=True)
        key = self._rpc_name("multicast", dest)
        binding = Binding(self.config.rabbitmq.exchange, queue.name, key)
        return Node(_queue_address(queue.name), (queue, binding))

    def _notify_queue(self, dest: Destination, pool: str | None) -> tuple[Queue, Binding]:
        options = self.config.rabbitmq.pools if pool else self.config.rabbitmq.notifications
        queue = _queue(self._notify_key(dest, pool), options)
        return queue, Binding(self.config.rabbitmq.exchange, queue.name, self._notify_key(dest))

    def _notify_key(self, dest: Destination, pool: str | None = None) -> str:
        more = (pool,) if pool else ()
        return self._name(Service.NOTIFY.value, self.config.exchange_of(dest), dest.topic, *more)

    def _rpc_name(self, kind: str, dest: Destination, *more: str) -> str:
        return self._name(Service.RPC.value, kind, self.config.exchange_of(dest), dest.topic, *more)

    def _name(self, *names: str) -> str:
        vhost = ("vhost", self.config.vhost) if self.config.vhost else ()
        return ":".join(map(_escape, ("openstack", *vhost, *names)))

    def _keyed(self, key: str) -> str:
        return f"/exchanges/{quote(self.config.rabbitmq.exchange, safe='')}/{quote(key, safe='')}"


def _queue(name: str, options: QueueOptions) -> Queue:
    return Queue(
        name,
        durable=options.lasting,
        exclusive=False,
        auto_delete=False,
        arguments=options.arguments(),
    )


def _exclusive(name: str, *, auto_delete: bool = False) -> Queue:
    """Return a queue of this connection alone; RabbitMQ's exclusive queues are always classic."""
    return Queue(
        name,
        durable=False,
        exclusive=True,
        auto_delete=auto_delete,
        arguments=QueueOptions().arguments(),
    )


def _escape(name: str) -> str:
    return name.replace("%", "%25").replace(":", "%3A")


def _queue_address(name: str) -> str:
    return f"/queues/{quote(name, safe='')}"


def reply_node(unique: str) -> Node:
    """Return the node of an exclusive queue for replies, for RabbitMQ 4.0.

    Later releases create a node for replies themselves.

    :param unique: text that identifies the process and fork
    """
    queue = _exclusive(f"openstack:reply:{_escape(unique)}")
    return Node(_queue_address(queue.name), (queue,))
