# SPDX-License-Identifier: Apache-2.0

"""Broker mode of the bus: the bus stores messages and owns each message it has accepted.

The broker creates a node when a client attaches or sends to it. Queues have competing consumers. A
topic (``broadcast.…``, ``…/multicast/…``) gives each subscriber a copy. ``ADDRESS::POOL`` is a
separate queue that gets a copy of each message sent to ADDRESS.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from amqp1_driver.wire.types import WireError

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
from .log import logger
from .messages import read_header, read_to
from .queues import Completion, Entry, Limits, Queue

LOG = logger(__name__)

#: Seconds between log lines about a full queue.
REMIND = 10.0
#: Prefix of the addresses of dynamic nodes. An attach or a send to such an address never creates
#: the node.
_TEMPORARY = "amqp1-bus.temp."


class Node:
    """An address: a queue with its pools, or a topic with its subscriptions."""

    def __init__(self, name: str, owner: Consumer | None) -> None:
        self.name = name
        self.owner = owner
        self.topic = is_multicast(name)
        #: Queues by key. None: the queue of the address itself; str: a pool; Consumer: a subscriber
        #: of a topic.
        self.queues: dict[str | Consumer | None, Queue] = {}
        self.producers: set[Producer] = set()
        self.consumers = 0

    @property
    def unused(self) -> bool:
        """Return whether the broker can delete this node without losing messages.

        A pool is permanent because it collects messages; a node with a pool is never unused.
        """
        if self.producers or self.consumers:
            return False
        return all(not isinstance(k, str) and q.depth == 0 for k, q in self.queues.items())

    def adjust(self) -> None:
        """Update the credit of all producers of this node."""
        for producer in self.producers:
            producer.adjust()


class _Blockade:
    """The log state of a full queue.

    ``since``: time at which the queue became full; ``times``: how often the queue has become full
    since the last check by ``Broker._remind``.
    """

    def __init__(self, since: float) -> None:
        self.since = since
        self.times = 1
        self.full = True


class Broker(Behaviour):
    """Broker mode; lives on the bus thread. The module docstring describes the mode.

    ``node`` of a producer is (Node, pool or None), None for the anonymous terminus. ``node`` of a
    consumer is (Node, Queue).
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
        self._limited = limits != Limits()
        #: Address, with its pool if any -> the watermarks of that address alone.
        self._own_limits: dict[str, Limits] = {}
        #: Queue that is full, or was full at the last check -> its log state.
        self._full: dict[Queue, _Blockade] = {}
        self._nodes: dict[str, Node] = {}

    # -- nodes ---------------------------------------------------------------

    def _node(self, name: str) -> Node | None:
        """Find or create a node.

        :returns: None for a temporary address that does not exist (any more)
        """
        node = self._nodes.get(name)
        if node is None and not name.startswith(_TEMPORARY):
            node = self._create(name, None)
        return node

    def _find(self, address: str) -> tuple[Node, str | None] | None:
        """Find or create the node and the pool of an address to which a client sends.

        :returns: None for a temporary address that does not exist (any more)
        """
        name, pool = split_pool(address)
        node = self._node(name)
        if node is None:
            return None
        if pool is not None:
            self._queue(node, pool)
        return node, pool

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
                name,
                self._limits_of(node, name),
                self,
                lambda: self._passed(node, node.queues.get(key)),
            )
        return queue

    # -- watermarks ------------------------------------------------------------

    def _limits_of(self, node: Node, name: str) -> Limits:
        """Return the watermarks of a queue.

        The queues of a topic's subscribers have the watermarks of the topic.
        """
        found = self._own_limits.get(name)
        if found is None and node.topic:
            found = self._own_limits.get(node.name)
        return self._limits if found is None else found

    def limit(self, address: str | None, limits: Limits | None) -> None:
        """Change watermarks with effect at once.

        :param address: a queue (ADDRESS, ADDRESS::POOL) or a topic; None: all addresses without
            watermarks of their own
        :param limits: the new watermarks; None: the common watermarks apply to the address again;
            with ``address`` None: there is no common limit
        """
        if address is None:
            self._limits = limits or Limits()
        elif limits is None:
            self._own_limits.pop(address, None)
        else:
            self._own_limits[address] = limits
        self._limited = self._limits != Limits() or bool(self._own_limits)
        for node in list(self._nodes.values()):
            for queue in list(node.queues.values()):
                wanted = self._limits_of(node, queue.name)
                if wanted != queue.limits:
                    queue.limit(wanted)

    def _passed(self, node: Node, queue: Queue | None) -> None:
        """Update log state and credit after a queue has passed a watermark or dropped messages."""
        if queue is not None:
            now = self.clock()
            blockade = self._full.get(queue)
            if queue.saturated and blockade is None:
                self._full[queue] = _Blockade(now)
                self._say_full(queue, node)
                self.call_at(now + REMIND, lambda: self._remind(queue, node))
            elif blockade is not None and blockade.full != queue.saturated:
                self._changed(blockade, queue, now)
        node.adjust()
        self._reap(node)

    def _changed(self, blockade: _Blockade, queue: Queue, now: float) -> None:
        blockade.full = queue.saturated
        if queue.saturated:
            blockade.times += 1
            blockade.since = now
        elif blockade.times == 1:
            LOG.info(
                "Queue %s takes messages again: it has %d messages, %d bytes, and was full "
                "for %.1f s",
                queue.name,
                queue.depth,
                queue.size,
                now - blockade.since,
            )

    def _say_full(self, queue: Queue, node: Node) -> None:
        LOG.warning(
            "Queue %s is full: it has %d messages, %d bytes (limits: %s); no credit for "
            "%d producer(s)",
            queue.name,
            queue.depth,
            queue.size,
            queue.limits,
            len(node.producers),
        )

    def _remind(self, queue: Queue, node: Node) -> None:
        """Log the state of a queue that was full at the last check.

        The check repeats every ``REMIND`` seconds until the queue is no longer full.
        """
        blockade = self._full[queue]
        if blockade.times > 1:
            LOG.warning(
                "Queue %s was full %d times within %g s, and %s now",
                queue.name,
                blockade.times,
                REMIND,
                "is" if queue.saturated else "is not",
            )
        elif queue.saturated:
            self._say_full(queue, node)
        if not queue.saturated and blockade.times <= 1:
            del self._full[queue]
            return
        blockade.times = 1 if queue.saturated else 0
        self.call_at(self.clock() + REMIND, lambda: self._remind(queue, node))

    def _reap(self, node: Node) -> None:
        """Delete a node if no client uses it."""
        if node.unused and self._nodes.get(node.name) is node:
            del self._nodes[node.name]

    def _delete(self, node: Node) -> None:
        """Delete a temporary node, because the consumer that owns it has detached.

        The broker detaches the producers of the node with an error.
        """
        self._nodes.pop(node.name, None)
        for queue in node.queues.values():
            queue.delete()
        for producer in list(node.producers):
            producer.detach("amqp:resource-deleted", f"{node.name} has been deleted")

    def new_address(self, link_name: str) -> str:
        """Return an address that no client can guess or reuse."""
        return _TEMPORARY + secrets.token_urlsafe(12)

    # -- links ---------------------------------------------------------------

    def allowance(self, producer: Producer) -> int:
        """Return a credit window of 250 messages, limited to the room below the high watermark."""
        wanted = CREDIT - producer.held
        if self._limited and producer.node is not None:
            for queue in self._destinations(*producer.node):
                wanted = min(wanted, queue.room)
        return wanted

    def producer_attached(self, producer: Producer) -> None:
        """Register a producer.

        The producer gets credit at once, with or without consumers, unless a queue is full.
        """
        if producer.address is None:
            return
        found = self._find(producer.address)
        if found is None:
            raise _no_node(producer.address)
        producer.node = found
        found[0].producers.add(producer)

    def producer_detached(self, producer: Producer) -> None:
        """Remove a producer. The broker keeps the messages it has accepted from this producer."""
        if producer.node is not None:
            node = producer.node[0]
            node.producers.discard(producer)
            self._reap(node)

    def consumer_attached(self, consumer: Consumer, dynamic: bool) -> None:
        """Subscribe a consumer to the queue, the pool or the topic."""
        assert consumer.address is not None
        name, pool = split_pool(consumer.address)
        node = self._create(name, consumer) if dynamic else self._node(name)
        if node is None:
            raise _no_node(consumer.address)
        queue = self._queue(node, consumer if node.topic and pool is None else pool)
        queue.consumers.append(consumer)
        node.consumers += 1
        consumer.node = (node, queue)

    def consumer_detached(self, consumer: Consumer) -> None:
        """Remove a consumer.

        Its unsettled messages return to the queue with delivery-count + 1. A dynamic node ends with
        the link that created it.
        """
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
        """Store a message and dispatch it to consumers.

        The broker settles the transfer at once unless a full queue holds it back.
        """
        try:
            header = read_header(transfer.data)
            where = transfer.producer.node or self._relay(transfer)
        except WireError as exc:
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
        """Find the destination of a message on the anonymous terminus.

        :returns: node and pool; None if this method has settled the transfer
        """
        to = read_to(transfer.data)
        if to is None:
            transfer.settle(rejected("amqp:precondition-failed", "the message has no 'to'"))
            return None
        found = self._find(to)
        if found is None:
            # The owner of the temporary address has detached: no client will ever read this
            # message.
            self.counters.dropped += 1
            transfer.settle(RELEASED)
        return found

    def flow(self, consumer: Consumer) -> None:
        consumer.node[1].dispatch()

    def settled(self, consumer: Consumer, item: Item, outcome: Outcome) -> None:
        """Settle the message in its queue, then dispatch the next one."""
        item.settle(outcome)
        consumer.node[1].dispatch()

    def depth(self, address: str) -> int:
        """Return the number of messages held for an address.

        The address is that of a queue, of a pool, or of a topic with all its subscriptions.
        """
        name, pool = split_pool(address)
        node = self._nodes.get(name)
        if node is None:
            return 0
        if node.topic and pool is None:
            return sum(q.depth for q in node.queues.values())
        queue = node.queues.get(pool)
        return queue.depth if queue is not None else 0


def _no_node(address: str) -> Refused:
    return Refused("amqp:not-found", f"no node {split_pool(address)[0]}")
