#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Subscriptions: what a listener reads, over links that come and go.

Lives on the I/O thread; a :class:`Delivery` is handed to the listener's
thread and comes back through the mailbox to be settled.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination, Node
from amqp1_driver.policy.credit import CreditWindow
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.engine_link import EngineReceiver, EngineSession
from amqp1_driver.protocol.link import Link, Scheduler
from amqp1_driver.protocol.states import LinkState

LOG = logging.getLogger(__name__)


class Delivery:
    """A received message that is not settled yet.

    :param receiver: whom to give it back to
    :param link: the link it came over; it can't be settled over another
    :param key: what the link calls it
    :param data: the encoded message
    :param settled: its outcome is final already; settling only makes room
    """

    __slots__ = ("address", "data", "host", "key", "link", "outcome", "receiver", "settled")

    def __init__(self, receiver: "Receiver", link: EngineReceiver | None, key: int,
                 data: bytes, settled: bool = False) -> None:
        self.receiver = receiver
        self.link = link
        self.key = key
        self.data = data
        self.outcome: Outcome | None = None
        self.settled = settled
        self.address = receiver.address
        self.host = receiver.host


class Sink(Protocol):
    """Where deliveries go: the delivery queue of a listener."""

    def deliver(self, delivery: Delivery) -> None: ...
    def use(self, later: Callable[[Callable[[], object]], object]) -> None: ...
    def interrupt(self) -> None: ...


class Receiver(Link):
    """One receiving link under a credit window.

    :param node: what to read
    :param credit: full level of the window, messages
    :param sink: where deliveries go
    :param on_change: told when the link is attached or has gone
    :param prepare: makes sure that the node is there, then calls on
    :param accept_early: accept each message as it comes: on a bus that stores
        nothing a batch that is accepted as a whole would make each sender wait
        until the batch is full
    """

    def __init__(self, scheduler: Scheduler, host: str, retry: Retry, node: Node, name: str,
                 session: Callable[[], EngineSession], credit: int, sink: Sink,
                 on_change: Callable[["Receiver", exceptions.AmqpError | None], None],
                 prepare: Callable[[Node, Callable[[], None]], None],
                 accept_early: bool = False) -> None:
        super().__init__(scheduler, host, retry)
        self.node = node
        self.address = node.address
        self.window = CreditWindow(credit)
        self.link: EngineReceiver | None = None
        self._name = name
        self._attempt = 0
        self._session = session
        self._sink = sink
        self._on_change = on_change
        self._prepare = prepare
        self._accept_early = accept_early
        self._stopping = False

    def stop(self) -> None:
        """No more credit; what still arrives goes back to the bus."""
        self._stopping = True
        self.window.stop()
        if self.link is not None and self.attached:
            self.link.drain()

    def settle(self, delivery: Delivery) -> None:
        """The application is done with a delivery."""
        outcome = delivery.outcome or Outcome.ACCEPTED
        link = self.link
        if link is None or delivery.link is not link:
            LOG.debug("A message from %s can't be settled %s any more: its link is gone",
                      self.address, outcome.value)
            return
        delivery.link = None  # settling it again must not count
        link.settle(delivery.key, outcome)
        grant = self.window.on_settled()
        if grant:
            link.grant(grant)

    # -- told by the engine --------------------------------------------------

    def link_delivery(self, key: int, data: bytes, settled: bool) -> None:
        if self._stopping:
            if self.link is not None:
                self.link.settle(key, Outcome.RELEASED)
            return
        if self.window.on_delivery():
            LOG.debug("Credit stall %d on %s at %s: all %d credits are used up",
                      self.window.stalls, self.address, self.host, self.window.limit)
        if self._accept_early and self.link is not None:
            self.link.settle(key, Outcome.ACCEPTED)
            settled = True
        self._sink.deliver(Delivery(self, self.link, key, data, settled))

    # -- inner -----------------------------------------------------------------

    def _open(self, engine: Engine) -> EngineReceiver:
        self._attempt += 1
        return engine.receiver(self._session(), f"{self._name}.{self._attempt}",
                               self.address, self)

    def _attached(self) -> None:
        grant = self.window.on_attached()
        if grant and self.link is not None:
            self.link.grant(grant)
        self._on_change(self, None)

    def _detached(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        self.window.on_detached()
        self._on_change(self, error)

    def _reattach(self) -> None:
        self._timer = None
        self._prepare(self.node, self._prepared)

    def _prepared(self) -> None:
        if self.state is LinkState.REATTACH_WAIT:
            super()._reattach()

    def _wanted(self) -> bool:
        return not self._stopping


class Subscription:
    """What one listener reads; outlives connections.

    :param destination: the listener's target
    :param pool: name of a shared pool of notification listeners
    :param unique: what tells this listener from all others
    :param credit: of each link, messages
    :param batched: the application collects messages before it settles them
    :param on_ready: called when all links are attached
    :param on_error: called when the bus can't do it at all
    """

    def __init__(self, destinations: tuple[Destination, ...], pool: str | None, unique: str,
                 credit: int, batched: bool, sink: Sink, on_ready: Callable[[], object],
                 on_error: Callable[[BaseException], object]) -> None:
        self.destinations = destinations
        self.pool = pool
        self.unique = unique
        self.credit = credit
        self.batched = batched
        self.sink = sink
        self.receivers: list[Receiver] = []
        self.stopping = False
        self.last_error: BaseException | None = None
        self._on_ready = on_ready
        self._on_error = on_error
        self._stalls = 0

    @property
    def stalls(self) -> int:
        """Credit stalls of all links so far."""
        return self._stalls + sum(r.window.stalls for r in self.receivers)

    def changed(self, receiver: Receiver, error: exceptions.AmqpError | None) -> None:
        if error is not None:
            self.last_error = error
        elif all(r.attached for r in self.receivers):
            self.last_error = None
            self._on_ready()

    def refused(self, error: BaseException) -> None:
        """The present bus can't provide this subscription."""
        self.last_error = error
        LOG.error("Can't listen on %s: %s", [d.routing_key for d in self.destinations], error)
        self._on_error(error)

    def stop(self) -> None:
        self.stopping = True
        for receiver in self.receivers:
            receiver.stop()

    def close(self) -> None:
        self.stopping = True
        for receiver in self.receivers:
            receiver.detach()
        self._drop()

    def connection_lost(self) -> None:
        for receiver in self.receivers:
            receiver.connection_lost()
        self._drop()

    def _drop(self) -> None:
        self._stalls = self.stalls
        self.receivers = []
