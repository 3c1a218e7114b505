# SPDX-License-Identifier: Apache-2.0

"""The bus's ends of links, and the messages on them. Everything here lives on the bus thread.

Only this module, the engine and its flow echoes call proton. The message path calls proton's C
functions directly: the wrapper objects of the Python binding cost more than the protocol itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cproton import (
    PN_ACCEPTED,
    PN_MODIFIED,
    PN_REJECTED,
    PN_RELEASED,
    PN_SND_SETTLED,
    pn_delivery,
    pn_delivery_remote_state,
    pn_delivery_settle,
    pn_delivery_settled,
    pn_delivery_update,
    pn_link_advance,
    pn_link_credit,
    pn_link_drained,
    pn_link_flow,
    pn_link_get_drain,
    pn_link_queued,
    pn_link_send,
)
from proton import Condition, Delivery

from amqp1_driver.flowframe import add_link_state

if TYPE_CHECKING:
    from .engine import Engine

#: Limit of message bytes that the bus holds for a connection whose client does not read. One
#: message in progress may exceed the limit.
UNSENT_LIMIT = 16 * 1024 * 1024
#: Credit window of a producer: messages in flight or without an outcome.
CREDIT = 250

#: The bus takes the bytes of an unfinished message out of proton's buffer as soon as there are this
#: many, because proton does not release the memory of its buffer.
PIECE = 1 << 20

_NAMES = {
    0: "none",
    PN_ACCEPTED: "accepted",
    PN_REJECTED: "rejected",
    PN_RELEASED: "released",
    PN_MODIFIED: "modified",
}


class Outcome(NamedTuple):
    """A terminal delivery state (AMQP 1.0 3.4); state 0 = settled without a delivery state."""

    state: int
    condition: Any = None
    failed: bool = False
    undeliverable: bool = False
    annotations: Any = None

    @property
    def name(self) -> str:
        """Return the name of the state as the counters use it."""
        return _NAMES.get(self.state, "none")


NONE = Outcome(0)
ACCEPTED = Outcome(PN_ACCEPTED)
RELEASED = Outcome(PN_RELEASED)
DELIVERY_FAILED = Outcome(PN_MODIFIED, failed=True)


def rejected(condition: str, description: str) -> Outcome:
    """Return REJECTED with an error condition."""
    return Outcome(PN_REJECTED, Condition(condition, description))


class Refused(Exception):
    """A refusal of an attach by the behaviour; the bus answers with a detach and this condition."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.condition = condition
        self.description = description


class Item(Protocol):
    """An unsettled delivery of a consumer; :meth:`settle` receives its outcome."""

    def settle(self, outcome: Outcome) -> None: ...


def write_outcome(handle: Any, outcome: Outcome) -> None:
    """Send an outcome for a delivery, with all its fields; the caller then settles."""
    if outcome.state == PN_REJECTED or outcome.state == PN_MODIFIED:
        delivery = Delivery(handle)
        delivery.local.condition = outcome.condition
        delivery.local.failed = outcome.failed
        delivery.local.undeliverable = outcome.undeliverable
        delivery.local.annotations = outcome.annotations
        delivery.update(outcome.state)
    elif outcome.state:
        pn_delivery_update(handle, outcome.state)


def _own(value: Any) -> Any:
    """Copy a value out of proton's memory.

    Proton returns binaries as views that become invalid with the delivery.
    """
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {_own(k): _own(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_own(v) for v in value]
    return value


def read_outcome(handle: Any) -> Outcome | None:
    """Return the receiving peer's outcome of a delivery, None while there is no terminal one."""
    state = pn_delivery_remote_state(handle)
    if state == PN_ACCEPTED:
        return ACCEPTED
    if state == PN_RELEASED:
        return RELEASED
    if state == PN_REJECTED:
        condition = Delivery(handle).remote.condition
        if condition is not None:
            condition.info = _own(condition.info)
        return Outcome(state, condition)
    if state == PN_MODIFIED:
        remote = Delivery(handle).remote
        notes = _own(remote.annotations) or None
        return Outcome(state, None, bool(remote.failed), bool(remote.undeliverable), notes)
    return NONE if pn_delivery_settled(handle) else None


class Link:
    """Base class of :class:`Producer` and :class:`Consumer`.

    ``link`` is proton's wrapper, which keeps the C object alive.
    """

    def __init__(self, engine: Engine, link: Any, address: str | None) -> None:
        self.engine = engine
        self.link = link
        self.impl = link._impl
        self.address = address
        self.name: str = link.name
        self.closed = False
        #: Data of the behaviour about this link.
        self.node: Any = None

    def forget(self) -> None:
        """Release proton's objects after the end of the link.

        Messages sent on the link may outlive the link, but proton's memory must not.
        """
        self.link = self.impl = None

    def detach(self, condition: str, description: str) -> None:
        """Detach the link (closed) with an error, e.g. after the deletion of its node."""
        if not self.closed:
            self.engine.detach(self, Condition(condition, description))


class Producer(Link):
    """A link on which a client sends to the bus; ``address`` None = the anonymous terminus."""

    def __init__(self, engine: Engine, link: Any, address: str | None) -> None:
        super().__init__(engine, link, address)
        #: Number of received transfers that are not yet settled.
        self.held = 0
        #: Received parts of an unfinished message; ``taken`` is their size in bytes.
        self.pieces: list[bytes] = []
        self.taken = 0

    def take(self, data: bytes) -> None:
        """Keep a part of an unfinished message."""
        self.pieces.append(data)
        self.taken += len(data)

    def whole(self, data: bytes) -> bytes:
        """Return the complete message that ends with ``data``."""
        if self.pieces:
            data = b"".join((*self.pieces, data))
            self.drop_pieces()
        return data

    def drop_pieces(self) -> None:
        """Discard an unfinished message."""
        self.pieces.clear()
        self.taken = 0

    def adjust(self) -> None:
        """Grant or withdraw credit until it matches what the behaviour allows now.

        The bus grants credit only when less than half of the allowed credit is left, so that one
        Flow frame serves many transfers. The bus withdraws credit only if the behaviour allows none
        at all, e.g. because a queue is at its high watermark.
        """
        if self.closed:
            return
        wanted = self.engine.behaviour.window(self)
        # Credit left at the peer: proton also counts transfers that arrived but are unread.
        granted = pn_link_credit(self.impl) - pn_link_queued(self.impl)
        if wanted <= 0:
            change = -granted if granted > 0 else 0
        else:
            change = wanted - granted if granted * 2 < wanted else 0
        if change:
            pn_link_flow(self.impl, change)
            self.engine.touch()

    @property
    def credit(self) -> int:
        """Return the credit left at the peer."""
        return int(pn_link_credit(self.impl) - pn_link_queued(self.impl))


class Transfer:
    """A message received from a producer. Only the first call of :meth:`settle` has an effect."""

    __slots__ = ("_handle", "data", "producer")

    def __init__(self, producer: Producer, handle: Any, data: bytes) -> None:
        self.producer = producer
        self.data = data
        self._handle = handle
        if pn_delivery_settled(handle):
            self._handle = None
            pn_delivery_settle(handle)
        else:
            producer.held += 1

    @property
    def settled(self) -> bool:
        """Return True for a presettled transfer and for a transfer that has its outcome."""
        return self._handle is None

    def settle(self, outcome: Outcome) -> None:
        """Send the outcome to the producer if its link is still attached."""
        handle, self._handle = self._handle, None
        producer = self.producer
        if handle is None or producer.closed:
            return
        write_outcome(handle, outcome)
        pn_delivery_settle(handle)
        producer.held -= 1
        engine = producer.engine
        engine.counters.outcomes[outcome.name] += 1
        engine.touch()
        producer.adjust()


class Consumer(Link):
    """A link on which a client receives from the bus."""

    def __init__(self, engine: Engine, link: Any, address: str | None) -> None:
        super().__init__(engine, link, address)
        self.presettled = link.remote_snd_settle_mode == PN_SND_SETTLED
        #: proton's delivery -> the object that receives the outcome, in the order of sending.
        self.unsettled: dict[Any, Item] = {}
        #: Handle of the link at this end (2.7.3); None until the outgoing Attach frame shows it.
        self.handle: int | None = None
        self._tags = 0
        self._given_back = 0

    @property
    def credit(self) -> int:
        """Return how many more messages the client takes now; 0 while the client does not read."""
        if self.closed or self.engine.congested:
            return 0
        return int(pn_link_credit(self.impl))

    def send(self, data: bytes, item: Item | None, tag: bytes | None = None) -> bool:
        """Send a message; the link must have credit.

        :param item: receives the outcome; None = send presettled
        :param tag: delivery-tag; None = any
        :returns: True if the message was sent settled; ``item`` then receives no outcome
        """
        self._tags += 1
        handle = pn_delivery(self.impl, tag or b"%x" % self._tags)
        pn_link_send(self.impl, data)
        pn_link_advance(self.impl)
        engine = self.engine
        counters = engine.counters
        counters.messages_out += 1
        engine.given += len(data)
        if engine.given > UNSENT_LIMIT:
            engine.weigh()
        engine.touch()
        if item is None or self.presettled:
            counters.presettled_out += 1
            pn_delivery_settle(handle)
            return True
        self.unsettled[handle] = item
        return False

    def drained(self) -> None:
        """Answer a drain request: use up the credit for which no messages are left (2.6.7)."""
        if pn_link_get_drain(self.impl) and self.credit > 0:
            self._given_back += pn_link_drained(self.impl)
            self.engine.touch()

    def drain_to_state(self, frames: bytes) -> bytes:
        """Add the state of this link to a Flow frame about its session (2.6.7).

        :returns: the changed frames; ``frames`` as they are while the handle is unknown
        """
        if self.handle is None:
            return frames
        queued = pn_link_queued(self.impl)
        sent = self._tags + self._given_back - queued
        return add_link_state(frames, self.handle, sent, pn_link_credit(self.impl) + queued)
