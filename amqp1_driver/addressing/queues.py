# SPDX-License-Identifier: Apache-2.0

"""The base of addressers for buses on which the driver declares queues. Pure, for any thread.

================  =======================================  =====================================
for               queue                                    sent to
================  =======================================  =====================================
RPC, any one      ``openstack:rpc:anycast:EX:TOPIC``       the queue
RPC, one          ``openstack:rpc:unicast:EX:TOPIC:SRV``   the queue
RPC, all          ``openstack:rpc:multicast:EX:TOPIC:U``   its name without ``:U``, as a key
notifications     ``openstack:notify:EX:TOPIC``            its name, as a key
... of a pool     ``openstack:notify:EX:TOPIC:POOL``       (the same: every pool has a copy)
================  =======================================  =====================================

``U`` distinguishes the listener from all others. Keys are routing keys of a direct exchange that
every virtual host has (``amq.direct``): an exchange of our own would outlive all its users.

A virtual host that must be part of the address goes in front: ``openstack:vhost:VHOST:rpc:…``.
The addressers percent-encode colons and percent signs inside a name. Different destinations never
share a queue.
"""

import dataclasses
from abc import abstractmethod
from typing import ClassVar

from amqp1_driver.addressing.base import (
    Addresser,
    Binding,
    Declaration,
    Destination,
    Node,
    Queue,
    Service,
    escapes,
)


class QueueAddresser(Addresser):
    """An addresser of queues with names, and of keys of one exchange; see the module."""

    __slots__ = ()

    ESCAPES: ClassVar[dict[int, str]] = escapes("%:")

    def target(self, dest: Destination) -> Node:
        if dest.service is Service.NOTIFY:
            return Node(self._keyed(dest), self._notify_queue(dest, None))
        if dest.fanout:
            return Node(self._keyed(dest))
        queue = self._rpc_queue(dest)
        # The sender does not declare the queue of one server: if it is missing, so is the server.
        return Node(self._address(queue), () if dest.server else (queue,))

    def _rpc_source(self, dest: Destination) -> Node:
        queue = self._rpc_queue(dest)
        if dest.server:
            return Node(self._address(queue), (queue,))
        return self._shared(queue, (queue,))

    def _fanout_source(self, dest: Destination, pool: str | None, unique: str) -> Node:
        """Return the node of the listener's exclusive queue, which ends with the connection."""
        dest = dataclasses.replace(dest, fanout=True)
        queue = self._fanout_queue(self._name(dest, unique))
        return Node(self._address(queue), (queue, self._binding(queue, dest)))

    def _notify_source(self, dest: Destination, pool: str | None) -> Node:
        self._check(pool)
        declare = self._notify_queue(dest, pool)
        return self._shared(declare[0], declare)

    def _notify_queue(self, dest: Destination, pool: str | None) -> tuple[Queue, Binding]:
        queue = self._lasting_queue(self._name(dest, *filter(None, (pool,))), pool)
        return queue, self._binding(queue, dest)

    def _binding(self, queue: Queue, dest: Destination) -> Binding:
        return Binding(self._exchange, queue.name, self._name(dest))

    def _name(self, dest: Destination, *more: str) -> str:
        vhost = ("vhost", self.config.vhost) if self.config.vhost else ()
        kind = (dest.distribution,) if dest.service is Service.RPC else ()
        names = ("openstack", *vhost, dest.service.value, *kind, *self._names(dest), *more)
        return ":".join(name.translate(self.ESCAPES) for name in names)

    # -- what differs by bus ---------------------------------------------------

    @property
    @abstractmethod
    def _exchange(self) -> str:
        """Return the exchange of the keys."""

    @abstractmethod
    def _rpc_queue(self, dest: Destination) -> Queue: ...

    @abstractmethod
    def _fanout_queue(self, name: str) -> Queue: ...

    @abstractmethod
    def _lasting_queue(self, name: str, pool: str | None) -> Queue:
        """Return the queue of a pool of notification listeners, or of those without a pool."""

    @abstractmethod
    def _address(self, queue: Queue) -> str: ...

    @abstractmethod
    def _keyed(self, dest: Destination) -> str:
        """Return the address whose messages the exchange routes by the key of a destination."""

    def _shared(self, queue: Queue, declare: tuple[Declaration, ...]) -> Node:
        """Return the node of a queue that several links may read."""
        return Node(self._address(queue), declare)
