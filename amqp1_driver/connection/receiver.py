# SPDX-License-Identifier: Apache-2.0

"""A receiving link under a credit window, and its deliveries; on the I/O thread.

The listener's thread gets each :class:`Delivery`, and returns it through the mailbox for the I/O
thread to settle.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Node
from amqp1_driver.connection.context import LinkContext
from amqp1_driver.connection.flow_replies import Answered, FlowReplies
from amqp1_driver.connection.link import Link
from amqp1_driver.connection.states import LinkState
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.link import EngineReceiver
from amqp1_driver.policy.credit import CreditWindow
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.provisioning.base import ensure_then_attach

LOG = exceptions.logger(__name__)


class Delivery:
    """A received message that is not settled yet.

    :param receiver: settles the delivery
    :param link: the link that it came over; no other link can settle it
    :param key: its key on that link
    :param data: the encoded message
    :param settled: its outcome is final already; settling it only makes room in the window
    """

    __slots__ = ("address", "data", "host", "key", "link", "outcome", "receiver", "settled")

    def __init__(
        self,
        receiver: "Receiver",
        link: EngineReceiver | None,
        key: int,
        data: bytes,
        settled: bool = False,
    ) -> None:
        self.receiver = receiver
        self.link = link
        self.key = key
        self.data = data
        self.outcome: Outcome | None = None
        self.settled = settled
        self.address = receiver.address
        self.host = receiver.host


class Sink(Protocol):
    """A taker of deliveries: the delivery queue of a listener."""

    def deliver(self, delivery: Delivery) -> None:
        """Take a delivery; never block."""
        ...

    def use(self, later: Callable[[Callable[[], object]], object]) -> None:
        """Set the function that runs wake-ups of other threads; see :meth:`Iteration.later`."""
        ...

    def interrupt(self) -> None:
        """Have the reader check the state of the subscription."""
        ...


class ReceiverOwner(Protocol):
    """The subscription, as far as its links need it."""

    def changed(self, receiver: "Receiver", error: exceptions.AmqpError | None) -> None:
        """Note that a link is attached now (no error), or that the peer refused or detached it."""
        ...


class Receiver(Link):
    """A receiving link under a credit window.

    If the peer does not answer requests for an echo (2.7.4), the driver asks it to drain instead
    (2.6.7); the peer may use up the credit first.

    :param sink: takes the deliveries
    :param node: the source
    :param name: link name, unique on the connection
    :param credit: full level of the window, messages
    :param accept_early: accept each message as it comes. On a bus that stores nothing, a receiver
        that accepts a batch as a whole would make each sender wait until the batch is full
    """

    def __init__(
        self,
        links: LinkContext,
        owner: ReceiverOwner,
        sink: Sink,
        node: Node,
        name: str,
        credit: int,
        accept_early: bool = False,
    ) -> None:
        super().__init__(links)
        self.node = node
        self.address = node.address
        self.window = CreditWindow(credit)
        self.link: EngineReceiver | None = None
        self._owner = owner
        self._name = name
        self._attempt = 0
        self._sink = sink
        self._accept_early = accept_early
        policy = links.profile.receiving
        #: outcome of a message that the application returns to the bus (3.4.4, 3.4.5)
        self.return_outcome = policy.returned
        #: whether to honour the absolute-expiry-time of messages
        self.expires = policy.expires
        self._echoes = policy.answers_echo
        self._stopping = self._stopped = False
        #: whether the bus could not declare the node yet; the node may exist all the same
        self.undeclared = False
        self._flow_replies = FlowReplies(self.scheduler, self._unanswered)
        #: why the peer refused or detached the link; None while it is attached
        self.problem: exceptions.AmqpError | None = None
        #: messages that the peer holds for this link, by its last answer; None: it gave no number
        self.available: int | None = None

    # -- credit ----------------------------------------------------------------

    def pause(self, done: Answered) -> None:
        """Take back all credit, so that messages stop.

        :param done: called with True once the peer has confirmed that it will send nothing more, or
            at once if it can send nothing; called with False if it has not confirmed in time
        """
        taken = self.window.pause(drain=not self._echoes, arrived=self._arrived)
        if self._echoes or self.window.credit:
            self._ask(done, -taken)
        else:
            done(True)

    def resume(self) -> None:
        """Grant credit again, up to the limit of the window."""
        self._grant(self.window.resume())

    def resize(self, credit: int) -> None:
        """Change the limit of the window, with effect at once.

        :param credit: messages
        """
        self._grant(self.window.resize(credit, self._arrived))

    def ask(self, done: Answered) -> None:
        """Ask the peer for an echo, which updates :attr:`available`.

        :param done: called with True once the peer has answered; with False if it does not answer
            such requests, or not in time
        """
        if self._echoes:
            self._ask(done)
        else:
            done(False)

    def leave(self) -> None:
        """Prepare for the end of the link: never attach it again, as its node may be deleted."""
        self._stopping = self._end_expected = True

    def stop(self, done: Answered) -> None:
        """Grant no more credit; release the messages that arrive after the call of ``done``.

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
        self._flow_replies.add(done)

    def _unanswered(self) -> None:
        LOG.warning(
            "%s does not answer on the link to %s what it is asked about its credit",
            self.host,
            self.address,
        )
        self._answer_all(False)

    def _answer_all(self, confirmed: bool) -> None:
        if self._flow_replies and self.link is not None:
            self.link.forget_answers()
        self._flow_replies.end(confirmed)

    def link_answer(self, drained: int, available: int | None) -> None:
        """Take the peer's answer to an echo or a drain.

        :param drained: credit that the peer has given up
        :param available: messages that the peer holds for this link; None: it gave no number
        """
        self.window.on_drained(drained)
        if available is not None:
            self.available = available
        if not self._echoes:
            if not self.window.credit:
                self._answer_all(True)
        else:
            self._flow_replies.answer()

    # -- settling --------------------------------------------------------------

    def settle(self, delivery: Delivery) -> None:
        """Settle a delivery with its outcome, by default ACCEPTED, and grant credit if it is due.

        Each outcome makes room in the window. If the link of the delivery has ended, the call has
        no effect.
        """
        outcome = delivery.outcome or Outcome.ACCEPTED
        link = self.link
        if link is None or delivery.link is not link:
            LOG.debug(
                "A message from %s can't be settled %s any more: its link is gone",
                self.address,
                outcome.value,
            )
            return
        delivery.link = None  # settling the delivery again has no effect then
        link.path.settle(link, delivery.key, outcome)
        grant = self.window.on_settled()
        if grant:
            link.grant(grant)
            self._resumed()

    def settle_all(self, deliveries: Iterable[Delivery]) -> int:
        """Settle deliveries with their outcomes, by default ACCEPTED.

        Skip the deliveries of a link that has ended. This grants no credit; call
        :meth:`on_settled` for that.

        :returns: how many were settled
        """
        link, count = self.link, 0
        if link is not None:
            for delivery in deliveries:
                if delivery.link is link:
                    delivery.link = None
                    link.settle(delivery.key, delivery.outcome or Outcome.ACCEPTED)
                    count += 1
        return count

    def on_settled(self, n: int, limit: int) -> None:
        """Account for ``n`` settled deliveries and set the window's limit.

        :param limit: messages; 0: grant nothing more
        """
        grant = self.window.on_settled_within(n, limit)
        if grant and self.link is not None:
            self.link.grant(grant)
            self._resumed()

    # -- declaring -------------------------------------------------------------

    @property
    def postponed(self) -> bool:
        """Return whether the link is not attached because the bus could not declare its node."""
        return self.undeclared and self.state in (LinkState.DETACHED, LinkState.REATTACH_WAIT)

    def declared(self) -> None:
        """Attach the link now that its node exists; do nothing if the link is attached already."""
        self.undeclared = False
        if self.state is LinkState.DETACHED:
            self.attach()
        else:
            self._prepared()

    # -- called by the engine ------------------------------------------------

    def link_delivery(self, key: int, data: bytes, settled: bool) -> None:
        """Hand a message to the sink; after :meth:`stop`, release it.

        :param key: the key of the delivery on the link
        :param settled: the peer has settled the delivery already
        """
        if self._stopped:
            if self.link is not None:
                self.link.settle(key, Outcome.RELEASED)
            return
        if not self.window.credit and self.link is not None:
            # the peer sent this message before it read the Flow frame that took its credit back
            self.link.grant(1)
        if self.window.on_delivery():
            LOG.debug(
                "Credit stall %d on %s at %s: all %d credits are used up",
                self.window.stalls,
                self.address,
                self.host,
                self.window.limit,
            )
            self._stalled(self.window.limit)
        if self._accept_early and self.link is not None:
            self.link.settle(key, Outcome.ACCEPTED)
            settled = True
        self._sink.deliver(Delivery(self, self.link, key, data, settled))
        if not self.window.credit and not self._echoes and self._flow_replies:
            self._answer_all(True)  # nothing is left to drain

    # -- inner -----------------------------------------------------------------

    def _open(self, engine: Engine) -> EngineReceiver:
        self._attempt += 1
        return engine.receiver(
            self._links.sessions.for_receiver(),
            f"{self._name}.{self._attempt}",
            self.place,
            self,
            kind=self.node.capability,
            properties=self.node.properties,
        )

    def _attached(self) -> None:
        grant = self.window.on_attached()
        if grant and self.link is not None:
            self.link.grant(grant)
        self.problem = None
        self._owner.changed(self, None)

    def _detached(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        self.window.on_detached()
        self.problem = error
        self._answer_all(True)
        self._owner.changed(self, error)

    def detach(self) -> None:
        """Detach the link for good, and call all waiting callbacks with True."""
        self._answer_all(True)
        super().detach()

    def connection_lost(self) -> None:
        """Forget the link, and call all waiting callbacks with True: nothing more can come."""
        super().connection_lost()
        self._answer_all(True)

    def _reattach(self) -> None:
        self._timer = None
        if self._wanted():
            ensure_then_attach(self._links.provisioner, self.node, self._prepared)
        else:
            super()._reattach()

    def _prepared(self) -> None:
        if self.state is LinkState.REATTACH_WAIT:
            self._stop_timer()
            super()._reattach()

    def _expects_end(self, error: exceptions.AmqpError) -> bool:
        return self._end_expected or (self.undeclared and error.condition == "amqp:not-found")

    def _wanted(self) -> bool:
        return not self._stopping
