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

"""One receiving link under a credit window, and what comes over it.

Lives on the I/O thread; a :class:`Delivery` is handed to the listener's
thread and comes back through the mailbox to be settled.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Node
from amqp1_driver.policy.credit import CreditWindow
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.engine_link import EngineReceiver, EngineSession
from amqp1_driver.protocol.link import Link, Scheduler
from amqp1_driver.protocol.questions import Answered, Questions
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
    :param echoes: the peer answers when it is asked for an echo; else it is asked to drain,
        for which it may use up the credit first
    """

    def __init__(self, scheduler: Scheduler, host: str, retry: Retry, node: Node, name: str,
                 session: Callable[[], EngineSession], credit: int, sink: Sink,
                 on_change: Callable[["Receiver", exceptions.AmqpError | None], None],
                 prepare: Callable[[Node, Callable[[], None]], None],
                 accept_early: bool = False, abandons: bool = False, echoes: bool = False) -> None:
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
        #: how a message ends that the application has had and wants to come again (3.4.4, 3.4.5)
        self.again = Outcome.MODIFIED if abandons else Outcome.RELEASED
        self._echoes = echoes
        self._stopping = self._stopped = False
        self._questions = Questions(scheduler, self._unanswered)
        #: why the peer refused or detached the link, until it is attached
        self.problem: exceptions.AmqpError | None = None
        #: messages that the peer has for this link, as it last said; None: it did not
        self.available: int | None = None

    # -- credit ----------------------------------------------------------------

    def pause(self, done: Answered) -> None:
        """No more messages.

        :param done: called with True once the peer has confirmed that nothing more will come,
            or can't; with False if it has not in time
        """
        taken = self.window.pause(drain=not self._echoes, arrived=self._arrived)
        if self._echoes or self.window.credit:
            self._ask(done, -taken)
        else:
            done(True)

    def resume(self) -> None:
        """Messages again, as many as the window allows."""
        self._grant(self.window.resume())

    def resize(self, credit: int) -> None:
        """Another full level of the window: with effect at once."""
        self._grant(self.window.resize(credit, self._arrived))

    def ask(self, done: Answered) -> None:
        """Have the peer say what it has, see :attr:`available`, if it echoes."""
        if self._echoes:
            self._ask(done)
        else:
            done(False)

    def leave(self) -> None:
        """What it reads may be deleted now: it is not attached again after that."""
        self._stopping = self._ending = True

    def stop(self, done: Answered) -> None:
        """No more credit; what comes after ``done`` goes back to the bus.

        :param done: see :meth:`pause`
        """
        def stopped(confirmed: bool) -> None:
            self._stopped = True
            done(confirmed)

        self._stopping = True
        self.window.stop()
        self.pause(stopped)

    @property
    def _arrived(self) -> int:
        return self.link.arrived if self.link is not None else 0

    def _grant(self, change: int) -> None:
        if change and self.link is not None:
            self.link.grant(change)
            if change > 0:
                self._resumed()

    def _ask(self, done: Answered, change: int = 0) -> None:
        link = self.link
        if link is None or not self.attached:
            done(True)
            return
        if self._echoes:
            link.echo(change)
        else:
            link.drain()
        self._questions.add(done)

    def _unanswered(self) -> None:
        LOG.warning("%s does not answer on the link to %s what it is asked about its credit",
                    self.host, self.address)
        self._answer_all(False)

    def _answer_all(self, confirmed: bool) -> None:
        if self._questions and self.link is not None:
            self.link.forget_answers()
        self._questions.end(confirmed)

    def link_answer(self, drained: int, available: int | None) -> None:
        """The peer tells its view of the link."""
        self.window.on_drained(drained)
        if available is not None:
            self.available = available
        if not self._echoes:
            if not self.window.credit:
                self._answer_all(True)
        else:
            self._questions.answer()

    # -- settling --------------------------------------------------------------

    def settle(self, delivery: Delivery) -> None:
        """The application is done with a delivery."""
        outcome = delivery.outcome or Outcome.ACCEPTED
        link = self.link
        if link is None or delivery.link is not link:
            LOG.debug("A message from %s can't be settled %s any more: its link is gone",
                      self.address, outcome.value)
            return
        delivery.link = None  # settling it again must not count
        link.path.settle(link, delivery.key, outcome)
        grant = self.window.on_settled()
        if grant:
            link.grant(grant)
            self._resumed()

    def settle_all(self, deliveries: Iterable[Delivery]) -> int:
        """Accept deliveries whose room is given back by :meth:`on_settled`; those of a link
        that has gone are left out.

        :returns: how many were settled
        """
        link, count = self.link, 0
        if link is not None:
            for delivery in deliveries:
                if delivery.link is link:
                    delivery.link = None
                    link.settle(delivery.key, Outcome.ACCEPTED)
                    count += 1
        return count

    def on_settled(self, n: int, limit: int) -> None:
        """So many were settled, and the window has another limit, which may be 0."""
        grant = self.window.on_settled_within(n, limit)
        if grant and self.link is not None:
            self.link.grant(grant)
            self._resumed()

    # -- told by the engine --------------------------------------------------

    def link_delivery(self, key: int, data: bytes, settled: bool) -> None:
        if self._stopped:
            if self.link is not None:
                self.link.settle(key, Outcome.RELEASED)
            return
        if not self.window.credit and self.link is not None:
            self.link.grant(1)  # sent before the peer knew that its credit was taken back
        if self.window.on_delivery():
            LOG.debug("Credit stall %d on %s at %s: all %d credits are used up",
                      self.window.stalls, self.address, self.host, self.window.limit)
            self._stalled(self.window.limit)
        if self._accept_early and self.link is not None:
            self.link.settle(key, Outcome.ACCEPTED)
            settled = True
        self._sink.deliver(Delivery(self, self.link, key, data, settled))
        if not self.window.credit and not self._echoes and self._questions:
            self._answer_all(True)  # nothing is left to drain

    # -- inner -----------------------------------------------------------------

    def _open(self, engine: Engine) -> EngineReceiver:
        self._attempt += 1
        return engine.receiver(self._session(), f"{self._name}.{self._attempt}",
                               self.place, self, kind=self.node.capability,
                               properties=self.node.properties)

    def _attached(self) -> None:
        grant = self.window.on_attached()
        if grant and self.link is not None:
            self.link.grant(grant)
        self.problem = None
        self._on_change(self, None)

    def _detached(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        self.window.on_detached()
        self.problem = error
        self._answer_all(True)
        self._on_change(self, error)

    def detach(self) -> None:
        self._answer_all(True)
        super().detach()

    def connection_lost(self) -> None:
        super().connection_lost()
        self._answer_all(True)

    def _reattach(self) -> None:
        self._timer = None
        if self._wanted():
            self._prepare(self.node, self._prepared)
        else:
            super()._reattach()

    def _prepared(self) -> None:
        if self.state is LinkState.REATTACH_WAIT:
            super()._reattach()

    def _wanted(self) -> bool:
        return not self._stopping
