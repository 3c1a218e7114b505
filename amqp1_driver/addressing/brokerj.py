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

"""Queues and exchanges of Apache Qpid Broker-J.

================  =======================================  ======================================
for               queue                                    sent to
================  =======================================  ======================================
RPC, any one      ``openstack:rpc:anycast:EX:TOPIC``       the queue
RPC, one          ``openstack:rpc:unicast:EX:TOPIC:SRV``   the queue
RPC, all          ``openstack:rpc:multicast:EX:TOPIC:U``   key of that name without ``:U``
notifications     ``openstack:notify:EX:TOPIC``            key of that name
... of a pool     ``openstack:notify:EX:TOPIC:POOL``       (the same: every pool has a copy)
================  =======================================  ======================================

The address of a queue is its name. Keys are those of the exchange ``amq.direct``, which is always
there: ``amq.direct/KEY``. What goes to a key without queues is accepted and dropped, so a notifier
sees to the queue for listeners yet to come.
A virtual host that must be part of the address goes in front: ``openstack:vhost:VHOST:rpc:…``.
Colons, slashes, backslashes and percent signs inside names are percent-encoded: different
destinations never share a queue.

Broker-J has no queues that expire when they are unused. A queue goes with its last reader, or
stays: that for one server goes, for then nobody is there; that for any server stays if casts
are to be durable, for then one may wait in it, unless its last reader stops in order and it is
empty; those of notifications stay.
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
    """See the module. Immutable, for any thread.

    :param bus: name of the bus, for errors.
    :param pools: False only when this syntax is forced upon another kind of bus.
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
            # Not declared by the sender: without the server's queue nobody is there.
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
        """A queue of this listener alone, gone with its connection."""
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
    return Queue(
        name, durable=True, exclusive=False, auto_delete=auto_delete, temporary=temporary
    )


def _escape(name: str) -> str:
    return re.sub(r"[%:/\\]", lambda found: f"%{ord(found.group()):02X}", name)
