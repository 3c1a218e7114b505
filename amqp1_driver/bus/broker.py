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

"""Broker behaviour: the bus stores messages and owns them once it has accepted them.

Nodes come to be when somebody attaches or sends to them. Queues have competing consumers; topics
(``broadcast.…``, ``…/multicast/…``) give each subscriber a copy; ``ADDRESS::POOL`` is a queue of
its own that gets a copy of everything sent to ADDRESS.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from .addresses import is_multicast, split_pool
from .behaviour import Behaviour
from .counters import Counters
from .links import (
    ACCEPTED,
    CREDIT,
    DELIVERY_FAILED,
    RELEASED,
    Consumer,
    Item,
    Outcome,
    Producer,
    Refused,
    Transfer,
    rejected,
)
from .messages import read_header, read_to
from .primitives import Malformed
from .queues import Completion, Entry, Limits, Queue

#: Addresses of dynamic nodes: never created by a mere attach or send.
_TEMPORARY = "amqp1-bus.temp."


class Node:
    """One address: a queue with its pools, or a topic with its subscriptions."""

    def __init__(self, name: str, owner: Consumer | None) -> None:
        self.name = name
        self.owner = owner
        self.topic = is_multicast(name)
        #: None = the queue of the address itself; str = pool; Consumer = a topic's subscriber.
        self.queues: dict[str | Consumer | None, Queue] = {}
        self.producers: set[Producer] = set()
        self.consumers = 0
        self._pooled = False

    @property
    def unused(self) -> bool:
        """Nothing would be lost if it were deleted. Pools are for ever: they collect."""
        if self.producers or self.consumers:
            return False
        return all(not isinstance(k, str) and q.depth == 0 for k, q in self.queues.items())

    def adjust(self) -> None:
        """The watermarks have changed what its producers may send."""
        for producer in self.producers:
            producer.adjust()


class Broker(Behaviour):
    """See the module; lives on the bus thread.

    ``node`` of a producer is (Node, pool or None), None for the anonymous terminus; of a consumer
    (Node, Queue).
    """

    mode = "broker"
    product = "amqp1-bus-broker"
    max_frame = 131072

    def __init__(
        self,
        counters: Counters,
        clock: Callable[[], float] = time.monotonic,
        limits: Limits = Limits(),  # noqa: B008 - immutable
    ) -> None:
        super().__init__(counters, clock)
        self._limits = limits
        self._nodes: dict[str, Node] = {}
        #: Queue -> when its timer is due.
        self._timers: dict[Queue, float] = {}

    # -- nodes ---------------------------------------------------------------

    def _node(self, name: str) -> Node | None:
        """Find or create; None for a temporary address that is not (any more) there."""
        node = self._nodes.get(name)
        if node is None and not name.startswith(_TEMPORARY):
            node = self._create(name, None)
        return node

    def _create(self, name: str, owner: Consumer | None) -> Node:
        node = self._nodes[name] = Node(name, owner)
        if not node.topic:
            self._queue(node, None)
        return node

    def _queue(self, node: Node, key: str | Consumer | None) -> Queue:
        queue = node.queues.get(key)
        if queue is None:
            name = node.name if key is None else f"{node.name}::{getattr(key, 'name', key)}"
            queue = node.queues[key] = Queue(
                name, self._limits, self.counters, self.clock, node.adjust, self._watch
            )
        return queue

    def _reap(self, node: Node) -> None:
        """Delete a node that nobody uses."""
        if node.unused and self._nodes.get(node.name) is node:
            del self._nodes[node.name]

    def _delete(self, node: Node) -> None:
        """Delete a temporary node with its owner; its producers are told."""
        self._nodes.pop(node.name, None)
        for queue in node.queues.values():
            queue.delete()
        for producer in list(node.producers):
            producer.detach("amqp:resource-deleted", f"{node.name} has been deleted")

    def new_address(self, link_name: str) -> str:
        """A name nobody can guess or reuse."""
        return _TEMPORARY + secrets.token_urlsafe(12)

    # -- links ---------------------------------------------------------------

    def allowance(self, producer: Producer) -> int:
        """A window of 250, and never more than fits below the high watermark."""
        wanted = CREDIT - producer.held
        if self._limits.capacity and producer.node is not None:
            for queue in self._destinations(*producer.node):
                wanted = min(wanted, queue.room)
        return wanted

    def producer_attached(self, producer: Producer) -> None:
        """Credit at once, consumers or not, unless a queue is full."""
        if producer.address is None:
            return
        name, pool = split_pool(producer.address)
        node = self._node(name)
        if node is None:
            raise Refused("amqp:not-found", f"no node {name}")
        if pool is not None:
            self._queue(node, pool)
        producer.node = (node, pool)
        node.producers.add(producer)

    def producer_detached(self, producer: Producer) -> None:
        """What was accepted stays."""
        if producer.node is not None:
            node = producer.node[0]
            node.producers.discard(producer)
            self._reap(node)

    def consumer_attached(self, consumer: Consumer, dynamic: bool) -> None:
        """Subscribe to the queue, the pool or the topic."""
        assert consumer.address is not None
        name, pool = split_pool(consumer.address)
        node = self._create(name, consumer) if dynamic else self._node(name)
        if node is None:
            raise Refused("amqp:not-found", f"no node {name}")
        queue = self._queue(node, consumer if node.topic and pool is None else pool)
        queue.consumers.append(consumer)
        node.consumers += 1
        consumer.node = (node, queue)

    def consumer_detached(self, consumer: Consumer) -> None:
        """What it held goes back with delivery-count + 1; a dynamic node goes with its link."""
        node, queue = consumer.node
        node.consumers -= 1
        queue.consumers.remove(consumer)
        for item in consumer.unsettled.values():
            item.settle(DELIVERY_FAILED)
        consumer.unsettled.clear()
        if consumer in node.queues:
            node.queues.pop(consumer).delete()
            node.adjust()
        if node.owner is consumer:
            self._delete(node)
            return
        queue.dispatch()
        self._reap(node)

    # -- messages ------------------------------------------------------------

    def _destinations(self, node: Node, pool: str | None) -> list[Queue]:
        if pool is not None:
            return [node.queues[pool]]
        return list(node.queues.values())

    def transferred(self, transfer: Transfer) -> None:
        """Store, complete the transfer unless a full queue holds it back, deliver."""
        try:
            header = read_header(transfer.data)
            where = transfer.producer.node or self._relay(transfer)
        except Malformed as exc:
            transfer.settle(rejected("amqp:decode-error", str(exc)))
            return
        if where is None:
            return
        queues = self._destinations(*where)
        completion = None
        if not transfer.settled and any(q.saturated for q in queues):
            completion = Completion(transfer)
        now = self.clock()
        expiry = now + header.ttl_ms / 1000 if header.ttl_ms else None
        for queue in queues:
            entry = Entry(queue, transfer.data, now, expiry, header.delivery_count)
            queue.enqueue(entry, completion)
        if completion is None:
            transfer.settle(ACCEPTED)
        for queue in queues:
            queue.dispatch()

    def _relay(self, transfer: Transfer) -> tuple[Node, str | None] | None:
        """Where a message on the anonymous terminus goes; None = settled here."""
        to = read_to(transfer.data)
        if to is None:
            transfer.settle(rejected("amqp:precondition-failed", "the message has no 'to'"))
            return None
        name, pool = split_pool(to)
        node = self._node(name)
        if node is None:
            # The owner of a temporary address has gone: nobody will ever read this.
            self.counters.dropped += 1
            transfer.settle(RELEASED)
            return None
        if pool is not None:
            self._queue(node, pool)
        return node, pool

    def flow(self, consumer: Consumer) -> None:
        """Deliver what waited for this credit."""
        consumer.node[1].dispatch()

    def settled(self, consumer: Consumer, item: Item, outcome: Outcome) -> None:
        """The queue decides what becomes of the message; then the next one may go."""
        item.settle(outcome)
        consumer.node[1].dispatch()

    def _watch(self, queue: Queue, expiry: float) -> None:
        """Have expired messages dropped in time even if nobody reads the queue."""
        due = self._timers.get(queue)
        if due is None or expiry < due:
            self._timers[queue] = expiry
            self.call_at(expiry, lambda: self._sweep(queue, expiry))

    def _sweep(self, queue: Queue, due: float) -> None:
        if self._timers.get(queue) != due:
            return
        del self._timers[queue]
        upcoming = queue.sweep()
        if upcoming is not None:
            self._watch(queue, upcoming)
        node = self._nodes.get(split_pool(queue.name)[0])
        if node is not None:
            self._reap(node)

    def depth(self, address: str) -> int:
        """Messages held by the queue of an address or pool, or by a topic's subscriptions."""
        name, pool = split_pool(address)
        node = self._nodes.get(name)
        if node is None:
            return 0
        if node.topic and pool is None:
            return sum(q.depth for q in node.queues.values())
        queue = node.queues.get(pool)
        return queue.depth if queue is not None else 0
