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

"""Queues and exchanges of RabbitMQ 4, by its address format v2.

================  =======================================  =====================================
for               queue                                    sent to
================  =======================================  =====================================
RPC, any one      ``openstack:rpc:anycast:EX:TOPIC``       the queue
RPC, one          ``openstack:rpc:unicast:EX:TOPIC:SRV``   the queue
RPC, all          ``openstack:rpc:multicast:EX:TOPIC:U``   exchange of that name without ``:U``
notifications     ``openstack:notify:EX:TOPIC``            exchange ``openstack:notify:EX``
... of a pool     ``openstack:notify:EX:TOPIC:POOL``       (the same: every pool has a copy)
================  =======================================  =====================================

A virtual host that must be part of the address goes in front: ``openstack:vhost:VHOST:rpc:…``.
Colons and percent signs inside a name are percent-encoded: different destinations never share
a queue. Queues outlive connections but not forever: they expire when unused, except the one
for notifications without a pool, which keeps them for listeners yet to come.
"""

import dataclasses
from urllib.parse import quote

from amqp1_driver.addressing.base import (
    AddressConfig,
    Binding,
    Destination,
    Exchange,
    Node,
    Queue,
    Service,
)
from amqp1_driver.exceptions import UnsupportedFeature


@dataclasses.dataclass(frozen=True, slots=True)
class RabbitmqAddresser:
    """See the module. Immutable, for any thread.

    :param bus: name of the bus, for errors.
    :param pools: False only when this syntax is forced upon another kind of bus.
    """

    config: AddressConfig
    bus: str = "RabbitMQ"
    pools: bool = True

    def target(self, dest: Destination) -> Node:
        if dest.service is Service.NOTIFY:
            exchange = self._notify_exchange(dest)
            return Node(
                _exchange_address(exchange.name, dest.topic),
                self._notify_queue(dest, exchange, None),
            )
        if dest.fanout:
            exchange = self._fanout_exchange(dest)
            return Node(_exchange_address(exchange.name), (exchange,))
        if dest.server:
            # Not declared by the sender: without the server's queue nobody is there, and the
            # message comes back RELEASED instead of waiting for a server that is no more.
            return Node(_queue_address(self._unicast_queue(dest, dest.server).name))
        queue = self._anycast_queue(dest)
        return Node(_queue_address(queue.name), (queue,))

    def sources(self, dest: Destination, *, pool: str | None, unique: str) -> tuple[Node, ...]:
        if dest.service is Service.NOTIFY:
            if pool and not self.pools:
                raise UnsupportedFeature(f"notification pools are not supported by {self.bus}")
            declare = self._notify_queue(dest, self._notify_exchange(dest), pool or None)
            return (Node(_queue_address(declare[1].name), declare),)
        queues = [self._anycast_queue(dest)]
        if dest.server:
            queues.insert(0, self._unicast_queue(dest, dest.server))
        nodes = [Node(_queue_address(queue.name), (queue,)) for queue in queues]
        return (*nodes, self._fanout_source(dest, unique))

    def _anycast_queue(self, dest: Destination) -> Queue:
        return self._expiring(self._rpc_name("anycast", dest))

    def _unicast_queue(self, dest: Destination, server: str) -> Queue:
        return self._expiring(self._rpc_name("unicast", dest, server))

    def _fanout_exchange(self, dest: Destination) -> Exchange:
        return Exchange(self._rpc_name("multicast", dest), "fanout", durable=True)

    def _fanout_source(self, dest: Destination, unique: str) -> Node:
        """A queue of this listener alone, gone with its connection."""
        exchange = self._fanout_exchange(dest)
        queue = Queue(
            self._rpc_name("multicast", dest, unique),
            durable=False,
            exclusive=True,
            auto_delete=False,
            arguments=(("x-queue-type", "classic"),),
        )
        binding = Binding(exchange.name, queue.name, "")
        return Node(_queue_address(queue.name), (exchange, queue, binding))

    def _notify_exchange(self, dest: Destination) -> Exchange:
        name = self._name(Service.NOTIFY.value, self.config.exchange_of(dest))
        return Exchange(name, "direct", durable=True)

    def _notify_queue(
        self, dest: Destination, exchange: Exchange, pool: str | None
    ) -> tuple[Exchange, Queue, Binding]:
        names = [Service.NOTIFY.value, self.config.exchange_of(dest), dest.topic]
        queue = self._expiring(self._name(*names, pool)) if pool else _durable(self._name(*names))
        return (exchange, queue, Binding(exchange.name, queue.name, dest.topic))

    def _expiring(self, name: str) -> Queue:
        return _durable(name, ("x-expires", self.config.queue_expiry_ms))

    def _rpc_name(self, kind: str, dest: Destination, *more: str) -> str:
        return self._name(Service.RPC.value, kind, self.config.exchange_of(dest), dest.topic, *more)

    def _name(self, *names: str) -> str:
        vhost = ("vhost", self.config.vhost) if self.config.vhost else ()
        return ":".join(map(_escape, ("openstack", *vhost, *names)))


def _durable(name: str, *arguments: tuple[str, object]) -> Queue:
    """The type is given because the default type can be set by virtual host."""
    return Queue(
        name,
        durable=True,
        exclusive=False,
        auto_delete=False,
        arguments=(("x-queue-type", "classic"), *arguments),
    )


def _escape(name: str) -> str:
    return name.replace("%", "%25").replace(":", "%3A")


def _queue_address(name: str) -> str:
    return f"/queues/{quote(name, safe='')}"


def _exchange_address(name: str, key: str | None = None) -> str:
    address = f"/exchanges/{quote(name, safe='')}"
    return address if key is None else f"{address}/{quote(key, safe='')}"


def reply_node(unique: str) -> Node:
    """An exclusive queue for replies, where the broker can't make one by itself (4.0).

    :param unique: of the process and fork
    """
    queue = Queue(
        f"openstack:reply:{_escape(unique)}",
        durable=False,
        exclusive=True,
        auto_delete=False,
        arguments=(("x-queue-type", "classic"),),
    )
    return Node(_queue_address(queue.name), (queue,))
