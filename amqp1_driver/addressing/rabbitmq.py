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

"""Queues of RabbitMQ 4, by its address format v2.

================  =======================================  =====================================
for               queue                                    sent to
================  =======================================  =====================================
RPC, any one      ``openstack:rpc:anycast:EX:TOPIC``       the queue
RPC, one          ``openstack:rpc:unicast:EX:TOPIC:SRV``   the queue
RPC, all          ``openstack:rpc:multicast:EX:TOPIC:U``   its name without ``:U``, as a key
notifications     ``openstack:notify:EX:TOPIC``            its name, as a key
... of a pool     ``openstack:notify:EX:TOPIC:POOL``       (the same: every pool has a copy)
================  =======================================  =====================================

Keys are those of an exchange that every virtual host has (``amq.direct``): an exchange of our own
would outlive all who use it, and where a key has no queue a message comes back RELEASED.

A virtual host that must be part of the address goes in front: ``openstack:vhost:VHOST:rpc:…``.
Colons and percent signs inside a name are percent-encoded: different destinations never share
a queue. Queues outlive connections but not forever: the last server that stops in order deletes
those of RPC, and they expire when unused, except the one for notifications without a pool, which
keeps them for listeners yet to come.
"""

import dataclasses
from urllib.parse import quote

from amqp1_driver.addressing.base import AddressConfig, Binding, Destination, Node, Queue, Service
from amqp1_driver.addressing.queues import QueueOptions
from amqp1_driver.exceptions import UnsupportedFeature

#: property of a receiving link, and filter of its source
PRIORITY = "rabbitmq:priority"


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
            return Node(self._keyed(self._notify_key(dest)), self._notify_queue(dest, None))
        if dest.fanout:
            # Each server has its own queue for it; where there is none, nobody is there.
            return Node(self._keyed(self._rpc_name("multicast", dest)))
        if dest.server:
            # Not declared by the sender: without the server's queue nobody is there, and the
            # message comes back RELEASED instead of waiting for a server that is no more.
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
        """A queue that several may read."""
        priority = self.config.rabbitmq.priority
        properties = ((PRIORITY, priority),) if priority else ()
        return Node(_queue_address(queue.name), declare, properties=properties)

    def _anycast_queue(self, dest: Destination) -> Queue:
        return _queue(self._rpc_name("anycast", dest), self.config.rabbitmq.rpc)

    def _unicast_queue(self, dest: Destination, server: str) -> Queue:
        return _queue(self._rpc_name("unicast", dest, server), self.config.rabbitmq.rpc)

    def _fanout_source(self, dest: Destination, unique: str) -> Node:
        """A queue of this listener alone, gone with its connection."""
        queue = _exclusive(self._rpc_name("multicast", dest, unique))
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
        temporary=options.temporary,
    )


def _exclusive(name: str) -> Queue:
    """Of this connection alone. Classic: exclusive ones are nothing else."""
    return Queue(
        name,
        durable=False,
        exclusive=True,
        auto_delete=False,
        arguments=QueueOptions().arguments(),
        temporary=True,
    )


def _escape(name: str) -> str:
    return name.replace("%", "%25").replace(":", "%3A")


def _queue_address(name: str) -> str:
    return f"/queues/{quote(name, safe='')}"


def reply_node(unique: str) -> Node:
    """An exclusive queue for replies, where the broker can't make one by itself (4.0).

    :param unique: of the process and fork
    """
    queue = _exclusive(f"openstack:reply:{_escape(unique)}")
    return Node(_queue_address(queue.name), (queue,))
