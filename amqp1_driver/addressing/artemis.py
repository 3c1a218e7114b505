# SPDX-License-Identifier: Apache-2.0

"""Addresses of ActiveMQ Artemis. Pure, for any thread.

Artemis creates the address and the queue that a link asks for, with a routing type.

==================  =================================  ====================================
for                 address                            queue
==================  =================================  ====================================
RPC, any one        ``openstack.rpc.anycast.EX:T``     of the same name (anycast)
RPC, one            ``openstack.rpc.unicast.EX:T:S``   of the same name (anycast)
RPC, all            ``openstack.rpc.multicast.EX:T``   one for each link, deleted with it
notifications       ``openstack.notify.EX:T``          of the same name (multicast)
... of a pool       (the same)                         ``openstack.notify.EX:T:POOL``
==================  =================================  ====================================

A virtual host that must be part of the address comes second: ``openstack.vhost.VHOST.rpc…``.
Dots separate the words by which the broker's address settings match. The addresser
percent-encodes percent signs and the characters that have a meaning to Artemis (``*``, ``#``,
``?``, ``:``) inside names. It encodes dots only in the name of the virtual host. Different
destinations never share an address.

A link asks for a routing type by the capability of its terminus: ``queue`` for anycast, ``topic``
for multicast. Artemis accepts and drops a message to an address without queues. A notifier
therefore declares the queue for listeners that come later: Artemis creates the queue for a link
to ``ADDRESS::QUEUE``.
"""

import dataclasses
import re

from amqp1_driver.addressing.base import AddressConfig, Destination, Node, Queue, Service
from amqp1_driver.exceptions import UnsupportedFeature

QUEUE = "queue"
TOPIC = "topic"


@dataclasses.dataclass(frozen=True, slots=True)
class ArtemisAddresser:
    """The addresser for ActiveMQ Artemis. Immutable, for any thread.

    :param bus: name of the bus, for errors.
    :param pools: False only when an option forces this syntax upon another kind of bus.
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
