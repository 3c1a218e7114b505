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

"""Addresses of ActiveMQ Artemis, which creates what is asked for with a routing type.

==================  =================================  ====================================
for                 address                            queue
==================  =================================  ====================================
RPC, any one        ``openstack.rpc.anycast.EX:T``     of the same name (anycast)
RPC, one            ``openstack.rpc.unicast.EX:T:S``   of the same name (anycast)
RPC, all            ``openstack.rpc.multicast.EX:T``   one for each link, gone with it
notifications       ``openstack.notify.EX:T``          of the same name (multicast)
... of a pool       (the same)                         ``openstack.notify.EX:T:POOL``
==================  =================================  ====================================

A virtual host that must be part of the address comes second: ``openstack.vhost.VHOST.rpc…``.
Dots part the words that the broker's settings are matched by. What has a meaning to Artemis
(``*``, ``#``, ``?``, ``:``) is percent-encoded inside names, dots only in that of the virtual
host: different destinations never share an address.

By the capability ``queue`` or ``topic`` of its terminus a link says what it wants to be there.
To an address without queues Artemis accepts and drops, so a notifier sees to the queue for
listeners yet to come: Artemis creates it for a link to ``ADDRESS::QUEUE``.
"""

import dataclasses
import re

from amqp1_driver.addressing.base import AddressConfig, Destination, Node, Queue, Service
from amqp1_driver.exceptions import UnsupportedFeature

QUEUE = "queue"
TOPIC = "topic"


@dataclasses.dataclass(frozen=True, slots=True)
class ArtemisAddresser:
    """See the module. Immutable, for any thread.

    :param bus: name of the bus, for errors.
    :param pools: False only when this syntax is forced upon another kind of bus.
    """

    config: AddressConfig
    bus: str = "ActiveMQ Artemis"
    pools: bool = True

    def target(self, dest: Destination) -> Node:
        if dest.service is Service.NOTIFY:
            address = self._name(Service.NOTIFY.value, dest)
            kept = Queue(f"{address}::{address}", durable=True, exclusive=False, auto_delete=False)
            return Node(address, (kept,), TOPIC)
        if dest.fanout:
            return Node(self._name("rpc.multicast", dest), capability=TOPIC)
        if dest.server:
            return Node(self._name("rpc.unicast", dest, dest.server), capability=QUEUE)
        return Node(self._name("rpc.anycast", dest), capability=QUEUE)

    def sources(self, dest: Destination, *, pool: str | None, unique: str) -> tuple[Node, ...]:
        if dest.service is Service.NOTIFY:
            if pool and not self.pools:
                raise UnsupportedFeature(f"notification pools are not supported by {self.bus}")
            address = self._name(Service.NOTIFY.value, dest)
            queue = f"{address}:{_escape(pool)}" if pool else address
            return (Node(f"{address}::{queue}", capability=TOPIC),)
        group = Node(self._name("rpc.anycast", dest), capability=QUEUE)
        fanout = Node(self._name("rpc.multicast", dest), capability=TOPIC)
        own = (self.target(dest),) if dest.server else ()
        return (*own, group, fanout)

    def _name(self, kind: str, dest: Destination, *more: str) -> str:
        vhost = self.config.vhost
        words = ("openstack", *(("vhost", _escape_word(vhost)) if vhost else ()), kind)
        names = (self.config.exchange_of(dest), dest.topic, *more)
        return ".".join((*words, ":".join(map(_escape, names))))


def _escape(name: str) -> str:
    return re.sub(r"[%:*#?]", lambda found: f"%{ord(found.group()):02X}", name)


def _escape_word(name: str) -> str:
    return _escape(name).replace(".", "%2E")
