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

"""The bus's ends of links and what travels on them. Everything here lives on the bus thread.

Only this module, the engine and its endpoints call proton. Its C functions are called directly on
the message path: the wrapper objects of the Python binding cost more than the protocol itself.
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

if TYPE_CHECKING:
    from .endpoints import Endpoints

#: Credit of a producer: messages that may be on their way or without an outcome.
CREDIT = 250

_NAMES = {
    0: "none",
    PN_ACCEPTED: "accepted",
    PN_REJECTED: "rejected",
    PN_RELEASED: "released",
    PN_MODIFIED: "modified",
}


class Outcome(NamedTuple):
    """A terminal delivery state (AMQP 1.0 3.4); state 0 = settled without saying any."""

    state: int
    condition: Any = None
    failed: bool = False
    undeliverable: bool = False
    annotations: Any = None

    @property
    def name(self) -> str:
        """Name of the state as the counters use it."""
        return _NAMES.get(self.state, "none")


NONE = Outcome(0)
ACCEPTED = Outcome(PN_ACCEPTED)
RELEASED = Outcome(PN_RELEASED)
DELIVERY_FAILED = Outcome(PN_MODIFIED, failed=True)


def rejected(condition: str, description: str) -> Outcome:
    """REJECTED with an error condition."""
    return Outcome(PN_REJECTED, Condition(condition, description))


class Refused(Exception):
    """A behaviour refuses an attach; becomes a detach with this condition."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.condition = condition
        self.description = description


class Item(Protocol):
    """What a consumer holds unsettled: something that wants to know the outcome."""

    def settle(self, outcome: Outcome) -> None: ...


def _own(value: Any) -> Any:
    """Copy out of proton's memory: binaries come as views that die with the delivery."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {_own(k): _own(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_own(v) for v in value]
    return value


def read_outcome(handle: Any) -> Outcome | None:
    """Outcome that the peer gave to the delivery it received; None = nothing terminal yet."""
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
    """What both directions share. ``link`` is proton's wrapper: it keeps the C object alive."""

    def __init__(self, endpoints: Endpoints, link: Any, address: str | None) -> None:
        self.endpoints = endpoints
        self.link = link
        self.impl = link._impl
        self.address = address
        self.name: str = link.name
        self.closed = False
        #: Whatever the behaviour keeps for this link.
        self.node: Any = None

    def forget(self) -> None:
        """The link is closed: messages that it has sent may outlive it, proton's memory not."""
        self.link = self.impl = None

    def detach(self, condition: str, description: str) -> None:
        """Detach (closed) by the bus with an error, e.g. because the node was deleted."""
        if not self.closed:
            self.endpoints.detach(self, Condition(condition, description))


class Producer(Link):
    """A link on which a client sends to the bus; ``address`` None = the anonymous terminus."""

    def __init__(self, endpoints: Endpoints, link: Any, address: str | None) -> None:
        super().__init__(endpoints, link, address)
        #: Transfers received and not yet settled.
        self.held = 0

    def adjust(self) -> None:
        """Bring the peer's credit to what the behaviour wants now: top up, or withdraw.

        Topped up only once below half, so that one flow frame serves many transfers; withdrawn
        only when nothing at all is wanted, as a queue at its high watermark does.
        """
        if self.closed:
            return
        wanted = self.endpoints.behaviour.window(self)
        # Credit that the peer still has: proton counts arrived but unread transfers in.
        granted = pn_link_credit(self.impl) - pn_link_queued(self.impl)
        if wanted <= 0:
            change = -granted if granted > 0 else 0
        else:
            change = wanted - granted if granted * 2 < wanted else 0
        if change:
            pn_link_flow(self.impl, change)
            self.endpoints.touch()

    @property
    def credit(self) -> int:
        """Credit that the peer has left."""
        return int(pn_link_credit(self.impl) - pn_link_queued(self.impl))


class Transfer:
    """A message received from a producer, to be settled once (no matter how often asked)."""

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
        """True for a presettled transfer and for one that has its outcome."""
        return self._handle is None

    def settle(self, outcome: Outcome) -> None:
        """Tell the producer the outcome, if it is still there."""
        handle, self._handle = self._handle, None
        producer = self.producer
        if handle is None or producer.closed:
            return
        if outcome.state == PN_REJECTED or outcome.state == PN_MODIFIED:
            delivery = Delivery(handle)
            delivery.local.condition = outcome.condition
            delivery.local.failed = outcome.failed
            delivery.local.undeliverable = outcome.undeliverable
            delivery.local.annotations = outcome.annotations
            delivery.update(outcome.state)
        elif outcome.state:
            pn_delivery_update(handle, outcome.state)
        pn_delivery_settle(handle)
        producer.held -= 1
        producer.endpoints.counters.outcomes[outcome.name] += 1
        producer.endpoints.touch()
        producer.adjust()


class Consumer(Link):
    """A link on which a client receives from the bus."""

    def __init__(self, endpoints: Endpoints, link: Any, address: str | None) -> None:
        super().__init__(endpoints, link, address)
        self.presettled = link.remote_snd_settle_mode == PN_SND_SETTLED
        #: proton's delivery -> what was delivered, in the order of sending.
        self.unsettled: dict[Any, Item] = {}
        self._tags = 0

    @property
    def credit(self) -> int:
        """How many more messages the client takes now."""
        return 0 if self.closed else int(pn_link_credit(self.impl))

    def send(self, data: bytes, item: Item | None, tag: bytes | None = None) -> bool:
        """Send a message; needs credit. ``item`` None = presettled; ``tag`` None = any.

        Returns True if it went settled, so that ``item`` will hear nothing more.
        """
        self._tags += 1
        handle = pn_delivery(self.impl, tag or b"%x" % self._tags)
        pn_link_send(self.impl, data)
        pn_link_advance(self.impl)
        counters = self.endpoints.counters
        counters.messages_out += 1
        self.endpoints.touch()
        if item is None or self.presettled:
            counters.presettled_out += 1
            pn_delivery_settle(handle)
            return True
        self.unsettled[handle] = item
        return False

    def drained(self) -> None:
        """Answer a drain request: use up the credit that nothing is left for (2.6.7)."""
        if pn_link_get_drain(self.impl) and self.credit > 0:
            pn_link_drained(self.impl)
            self.endpoints.touch()
