# SPDX-License-Identifier: Apache-2.0

"""Queues and exchanges of Apache Qpid Broker-J. Pure, for any thread.

================  =======================================  ======================================
for               queue                                    sent to
================  =======================================  ======================================
RPC, any one      ``openstack:rpc:anycast:EX:TOPIC``       the queue
RPC, one          ``openstack:rpc:unicast:EX:TOPIC:SRV``   the queue
RPC, all          ``openstack:rpc:multicast:EX:TOPIC:U``   key of that name without ``:U``
notifications     ``openstack:notify:EX:TOPIC``            key of that name
... of a pool     ``openstack:notify:EX:TOPIC:POOL``       (the same: every pool has a copy)
================  =======================================  ======================================

``U`` distinguishes the listener from all others. The address of a queue is its name. Keys are
routing keys of the exchange ``amq.direct``, which always exists: ``amq.direct/KEY``. The broker
accepts and drops a message to a key without queues. A notifier therefore declares the queue for
listeners that come later.
A virtual host that must be part of the address goes in front: ``openstack:vhost:VHOST:rpc:…``.
The addresser percent-encodes colons, slashes, backslashes and percent signs inside names.
Different destinations never share a queue.

Broker-J has no queues that expire when they are unused: it deletes a queue when the last reader of
the queue closes, or never.

- The queue of one server disappears with its last reader, because the server is gone then.
- The queue for any server stays if casts are durable, because a cast may wait in it. With the
  option ``delete_unused_queues`` the last reader, on closing in order, deletes an empty queue.
- The queues of notifications stay.
"""

import dataclasses
import re

from amqp1_driver.addressing.base import (
    AddressConfig,
    Binding,
    Destination,
    Node,
    Queue,
    Service,
)
from amqp1_driver.exceptions import UnsupportedFeature

EXCHANGE = "amq.direct"


@dataclasses.dataclass(frozen=True, slots=True)
class BrokerJAddresser:
    """The addresser for Apache Qpid Broker-J. Immutable, for any thread.

    :param bus: name of the bus, for errors.
    :param pools: False only when an option forces this syntax upon another kind of bus.
    """

    config: AddressConfig
    bus: str = "Qpid Broker-J"
    pools: bool = True

    def target(self, dest: Destination) -> Node:
        if dest.service is Service.NOTIFY:
            return Node(f"{EXCHANGE}/{self._notify_key(dest)}", self._notify_queue(dest, None))
        if dest.fanout:
            return Node(f"{EXCHANGE}/{self._rpc_name('multicast', dest)}")
        if dest.server:
            # The sender does not declare this queue: if the queue is missing, so is the server.
            return Node(self._unicast_queue(dest, dest.server).name)
        queue = self._anycast_queue(dest)
        return Node(queue.name, (queue,))

    def sources(self, dest: Destination, *, pool: str | None, unique: str) -> tuple[Node, ...]:
        if dest.service is Service.NOTIFY:
            if pool and not self.pools:
                raise UnsupportedFeature(f"notification pools are not supported by {self.bus}")
            declare = self._notify_queue(dest, pool or None)
            return (Node(declare[0].name, declare),)
        queues = [self._anycast_queue(dest)]
        if dest.server:
            queues.insert(0, self._unicast_queue(dest, dest.server))
        nodes = [Node(queue.name, (queue,)) for queue in queues]
        return (*nodes, self._fanout_source(dest, unique))

    def _anycast_queue(self, dest: Destination) -> Queue:
        return _queue(
            self._rpc_name("anycast", dest),
            auto_delete=not self.config.durable_casts,
            temporary=self.config.rabbitmq.rpc.temporary,
        )

    def _unicast_queue(self, dest: Destination, server: str) -> Queue:
        return _queue(self._rpc_name("unicast", dest, server), auto_delete=True)

    def _fanout_source(self, dest: Destination, unique: str) -> Node:
        """Return the node of the listener's exclusive queue, which ends with the connection."""
        name = self._rpc_name("multicast", dest, unique)
        queue = Queue(name, durable=False, exclusive=True, auto_delete=False, temporary=True)
        return Node(name, (queue, Binding(EXCHANGE, name, self._rpc_name("multicast", dest))))

    def _notify_key(self, dest: Destination, *more: str) -> str:
        return self._name(Service.NOTIFY.value, self.config.exchange_of(dest), dest.topic, *more)

    def _notify_queue(self, dest: Destination, pool: str | None) -> tuple[Queue, Binding]:
        queue = _queue(self._notify_key(dest, *((pool,) if pool else ())), auto_delete=False)
        return (queue, Binding(EXCHANGE, queue.name, self._notify_key(dest)))

    def _rpc_name(self, kind: str, dest: Destination, *more: str) -> str:
        return self._name(Service.RPC.value, kind, self.config.exchange_of(dest), dest.topic, *more)

    def _name(self, *names: str) -> str:
        vhost = ("vhost", self.config.vhost) if self.config.vhost else ()
        return ":".join(map(_escape, ("openstack", *vhost, *names)))


def _queue(name: str, *, auto_delete: bool, temporary: bool = False) -> Queue:
    return Queue(name, durable=True, exclusive=False, auto_delete=auto_delete, temporary=temporary)


def _escape(name: str) -> str:
    return re.sub(r"[%:/\\]", lambda found: f"%{ord(found.group()):02X}", name)
