# SPDX-License-Identifier: Apache-2.0

"""Router mode of the bus, modelled on skupper-router and qpid-dispatch-router: it stores nothing.

A producer has no credit until a consumer attaches to its address. Outcomes travel end to end.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable

from cproton import PN_ACCEPTED, PN_MODIFIED, PN_REJECTED

from amqp1_driver.wire.types import WireError

from .addresses import is_multicast, normalise
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
    Transfer,
    rejected,
)
from .messages import read_to

#: Rank of the consumers' outcomes for a multicast message; the one of highest rank decides.
_RANK = {PN_MODIFIED: 1, PN_ACCEPTED: 2, PN_REJECTED: 3}

Backlog = deque[tuple[bytes, Item | None]]


class Address:
    """The consumers and the producers of one address."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.multicast = is_multicast(name)
        self.consumers: list[Subscription] = []
        self.producers: set[Producer] = set()
        self._turn = 0

    def choose(self) -> Subscription:
        """Choose a consumer by balanced distribution.

        The consumer with the fewest unsettled messages comes first, in turn among equals.
        """
        self._turn += 1
        count = len(self.consumers)
        order = (self.consumers[(self._turn + i) % count] for i in range(count))
        return min(order, key=Subscription.load)


class Subscription:
    """A consumer and the messages that wait for its credit."""

    def __init__(self, consumer: Consumer, address: Address) -> None:
        self.consumer = consumer
        self.address = address
        self.backlog: Backlog = deque()

    def load(self) -> int:
        """Return the number of messages given to this consumer that have no outcome yet."""
        return len(self.backlog) + len(self.consumer.unsettled)

    def forward(self, data: bytes, item: Item | None) -> None:
        """Deliver a message now or as soon as there is credit; ``item`` None = presettled."""
        self.backlog.append((data, item))
        self.pump()
        if item is None and len(self.backlog) > CREDIT:
            self._drop_presettled()

    def pump(self) -> None:
        """Send waiting messages, as far as the credit goes."""
        while self.backlog and self.consumer.credit > 0:
            data, item = self.backlog.popleft()
            if self.consumer.send(data, item) and item is not None:
                item.settle(ACCEPTED)

    def _drop_presettled(self) -> None:
        """Drop the oldest presettled message of a slow consumer, as a router does."""
        for position, (_, item) in enumerate(self.backlog):
            if item is None:
                del self.backlog[position]
                self.consumer.engine.counters.dropped += 1
                return


class Fanout:
    """One unsettled multicast transfer with one branch for each consumer.

    The transfer gets its outcome when every branch has settled.
    """

    def __init__(self, transfer: Transfer, branches: int) -> None:
        self._transfer = transfer
        self._open = branches
        self._result = RELEASED

    def settle(self, outcome: Outcome) -> None:
        """Account for one settled branch. REJECTED beats ACCEPTED beats MODIFIED beats RELEASED."""
        if _RANK.get(outcome.state, 0) > _RANK.get(self._result.state, 0):
            self._result = outcome
        self._open -= 1
        if self._open == 0:
            self._transfer.settle(self._result)


class Router(Behaviour):
    """Router mode; lives on the bus thread. The module docstring describes the mode.

    ``node`` of a producer is its :class:`Address` (None: anonymous terminus), of a consumer its
    :class:`Subscription`.
    """

    mode = "router"
    product = "amqp1-bus-router"
    max_frame = 16384

    def __init__(self, counters: Counters, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(counters, clock)
        self._id = secrets.token_hex(4)
        self._addresses: dict[str, Address] = {}
        #: Producers that may send. The router itself never withdraws credit.
        self._active: set[Producer] = set()

    def allowance(self, producer: Producer) -> int:
        """Return 0 before the first consumer, then a credit window of 250 messages.

        Messages in flight or without an outcome use up the window.
        """
        return CREDIT - producer.held if producer in self._active else 0

    def new_address(self, link_name: str) -> str:
        """Return an address like the dynamic ones of qpid-dispatch."""
        return f"amqp:/_topo/0/{self._id}/temp.{secrets.token_urlsafe(12)}"

    def _address(self, name: str) -> Address:
        key = normalise(name)
        address = self._addresses.get(key)
        if address is None:
            address = self._addresses[key] = Address(key)
        return address

    def _forget(self, address: Address) -> None:
        if not address.consumers and not address.producers:
            self._addresses.pop(address.name, None)

    def producer_attached(self, producer: Producer) -> None:
        """Register a producer.

        It gets credit at once on the anonymous terminus and on an address with a consumer.
        """
        if producer.address is None:
            self._active.add(producer)
            return
        address = producer.node = self._address(producer.address)
        address.producers.add(producer)
        if address.consumers:
            self._active.add(producer)

    def producer_detached(self, producer: Producer) -> None:
        """Remove a producer.

        The messages it has sent stay in flight; the router reports their outcomes to no one.
        """
        self._active.discard(producer)
        if producer.node is not None:
            producer.node.producers.discard(producer)
            self._forget(producer.node)

    def consumer_attached(self, consumer: Consumer, dynamic: bool) -> None:
        """Subscribe a consumer; the waiting producers of its address may send from now on."""
        assert consumer.address is not None
        address = self._address(consumer.address)
        subscription = consumer.node = Subscription(consumer, address)
        address.consumers.append(subscription)
        for producer in address.producers:
            self._active.add(producer)
            producer.adjust()

    def consumer_detached(self, consumer: Consumer) -> None:
        """Remove a consumer and settle its messages.

        Messages not yet sent to the consumer get RELEASED. Messages sent but not settled get
        MODIFIED with delivery-failed.
        """
        subscription: Subscription = consumer.node
        subscription.address.consumers.remove(subscription)
        for _, item in subscription.backlog:
            if item is not None:
                item.settle(RELEASED)
        for item in consumer.unsettled.values():
            item.settle(DELIVERY_FAILED)
        subscription.backlog.clear()
        consumer.unsettled.clear()
        self._forget(subscription.address)

    def transferred(self, transfer: Transfer) -> None:
        """Forward a message to one consumer or to all; without consumers, settle it as RELEASED."""
        address: Address | None = transfer.producer.node
        if address is None:
            try:
                to = read_to(transfer.data)
            except WireError as exc:
                transfer.settle(rejected("amqp:decode-error", str(exc)))
                return
            if to is None:
                transfer.settle(rejected("amqp:precondition-failed", "the message has no 'to'"))
                return
            address = self._addresses.get(normalise(to))
        if address is None or not address.consumers:
            if transfer.settled:
                self.counters.dropped += 1
            transfer.settle(RELEASED)
            return
        if not address.multicast:
            item = None if transfer.settled else transfer
            address.choose().forward(transfer.data, item)
            return
        everyone = list(address.consumers)
        fanout = None if transfer.settled else Fanout(transfer, len(everyone))
        for subscription in everyone:
            subscription.forward(transfer.data, fanout)

    def flow(self, consumer: Consumer) -> None:
        consumer.node.pump()

    def settled(self, consumer: Consumer, item: Item, outcome: Outcome) -> None:
        """Pass the outcome to the producer unchanged."""
        item.settle(outcome)

    def depth(self, address: str) -> int:
        """Return the number of messages that the consumers of an address have not settled."""
        found = self._addresses.get(normalise(address))
        return sum(s.load() for s in found.consumers) if found else 0
