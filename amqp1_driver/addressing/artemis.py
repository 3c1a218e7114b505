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

from amqp1_driver.addressing.base import Addresser, Destination, Node, Queue, Service, escapes

QUEUE = "queue"
TOPIC = "topic"
_ESCAPES = escapes("%:*#?")
_ESCAPES_IN_WORD = escapes("%:*#?.")


class ArtemisAddresser(Addresser):
    """The addresser for ActiveMQ Artemis. Immutable, for any thread."""

    __slots__ = ()

    def target(self, dest: Destination) -> Node:
        address = self._address(dest)
        if dest.service is Service.NOTIFY:
            kept = Queue(f"{address}::{address}", durable=True, exclusive=False, auto_delete=False)
            return Node(address, (kept,), TOPIC)
        return Node(address, capability=TOPIC if dest.fanout else QUEUE)

    def _notify_source(self, dest: Destination, pool: str | None) -> Node:
        self._check(pool)
        address = self._address(dest)
        queue = f"{address}:{pool.translate(_ESCAPES)}" if pool else address
        return Node(f"{address}::{queue}", capability=TOPIC)

    def _address(self, dest: Destination) -> str:
        vhost = self.config.vhost
        words = ["openstack", *(("vhost", vhost.translate(_ESCAPES_IN_WORD)) if vhost else ())]
        words.append(dest.service.value)
        if dest.service is Service.RPC:
            words.append(dest.distribution)
        names = ":".join(name.translate(_ESCAPES) for name in self._names(dest))
        return ".".join((*words, names))
