# SPDX-License-Identifier: Apache-2.0

"""A sending link and its messages, up to their outcome; on the I/O thread.

A message waits in the outbox until there is credit for it (AMQP 1.0, 2.6.7), and then on the link
for its outcome.
"""

import math
from typing import Any, Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Node
from amqp1_driver.connection.context import LinkContext
from amqp1_driver.connection.link import Link
from amqp1_driver.connection.operation import Kind, Operation, Place, Queue, Stage, expired
from amqp1_driver.connection.outbox import Outbox
from amqp1_driver.connection.states import LinkState
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.link import EngineSender
from amqp1_driver.policy.outcome import Action, Disposition, Outcome, decide
from amqp1_driver.provisioning.base import ensure_then_attach, missing_entities_error, predeclared

LOG = exceptions.logger(__name__)

_ATTACHED = LinkState.ATTACHED
#: seconds without credit after which the log gets a line
NOTABLE_SECONDS = 1.0


class SenderOwner(Protocol):
    """The router, as far as its senders need it."""

    def on_returned(self, op: Operation) -> None:
        """Note that a message came back RELEASED."""
        ...

    def on_waiting(self, sender: "Sender", op: Operation) -> None:
        """Note that a message waits for credit on a link whose credit shows a receiver."""
        ...


class Sender(Link):
    """A link that sends to one address, or to any address through the anonymous terminus.

    The profile's :class:`ReleasePolicy` says what becomes of a message that comes back RELEASED. A
    mandatory call that comes back does not wait for a reply any more.

    :param outbox: the messages that are not sent yet
    :param address: target; None: the anonymous terminus
    :param name: link name, unique on the connection
    :param node: the target with its declarations; None: it needs no declarations
    """

    def __init__(
        self,
        links: LinkContext,
        owner: SenderOwner,
        outbox: Outbox,
        address: str | None,
        name: str,
        node: Node | None = None,
    ) -> None:
        super().__init__(links)
        profile = links.profile
        self.address = address
        self._owner = owner
        self._name = name
        self._node = node
        self._attempt = 0
        self._releases = profile.releases
        #: True: the bus is a router, which grants credit only while there is a receiver
        self._credit_shows_receiver = (
            address is not None and profile.settlement.by_receiver and profile.relay.replies
        )
        self._predeclared = predeclared(node.declare) if node is not None else ()
        self.made_at = self.scheduler.now()
        self.link: EngineSender | None = None
        self._outbox = outbox
        #: messages that wait for the link or for credit
        self.queue = Queue(Place.LINK, "credit")
        #: messages that the peer did not accept, in the pause before the driver sends them again
        self._returned = Queue(Place.RETRY, "credit")
        #: messages that wait for their outcome, by the key of the delivery
        self.unsettled: dict[Any, Operation] = {}
        self.last_used = self.scheduler.now()
        #: begin of the present blockade, in which messages wait for credit, on the loop's clock;
        #: None: there is no blockade
        self.blocked_since: float | None = None
        self._warned_at = 0.0
        #: whether the log has a line about the present blockade; time of the log's last line about
        #: any blockade of this link
        self._logged, self._logged_at = False, -math.inf
        self._reason = ""

    # -- application ----------------------------------------------------------

    def submit(self, op: Operation) -> None:
        """Send a message, or queue it if other messages wait or if there is no credit."""
        if not self.queue.operations and self.transmit(op):
            return
        self._outbox.hold(op, self.queue)
        if self.attached and self.blocked_since is None:
            self._block()
        if self._credit_shows_receiver:
            self._owner.on_waiting(self, op)

    def transmit(self, op: Operation) -> bool:
        """Put a message on the wire if the link is attached and has credit.

        :returns: False if it can't be sent now; True if it was sent, or failed for good
        """
        link = self.link
        if link is None or self.machine.state is not _ATTACHED or not link.path.may_send(link):
            return False
        data = op.data
        size = len(data[0]) + len(data[1]) if type(data) is tuple else len(data)
        if size > link.largest:
            op.fail(
                exceptions.too_large(
                    size, link.largest, host=self.host, address=op.address, message_id=op.message_id
                )
            )
            return True
        op.attempts += 1
        key = link.transfer(data, size, op.settled)
        op.stage = Stage.SENT
        if op.settled:
            op.accepted()
        else:
            op.sender = self
            self.unsettled[key] = op
        return True

    def withdraw(self, op: Operation) -> bool:
        """Remove a message from the queue, unless unsettled messages show that there is a receiver.

        :returns: whether the message was removed
        """
        return not self.unsettled and op.queue is self.queue and self._outbox.remove(op)

    def cancel(self, op: Operation) -> None:
        """Forget a message that was sent: its caller has given up."""
        for key, other in self.unsettled.items():
            if other is op:
                del self.unsettled[key]
                if self.link is not None:
                    self.link.forget(key)
                return

    @property
    def idle(self) -> bool:
        """Return whether no message waits for this link or for an outcome."""
        return not (self.queue.operations or self.unsettled or self._returned.operations)

    @property
    def exhausted(self) -> bool:
        """Return whether messages without an outcome have used up all credit."""
        return bool(self.unsettled) and self.link is not None and self.link.credit <= 0

    # -- called by the engine -------------------------------------------------

    @property
    def waits(self) -> bool:
        """Return whether messages wait for credit."""
        return bool(self.queue.operations)

    def link_credit(self) -> None:
        """Send queued messages, oldest first: the peer has granted credit."""
        link, waiting = self.link, self.queue.operations
        if not waiting and self.blocked_since is None:
            return
        if link is None or not self.attached:
            return
        sent = False
        while waiting:
            op = next(iter(waiting.values()))
            if not op.finished:
                if not self.transmit(op):
                    break
                sent = True
            self._outbox.remove(op)
        if self.blocked_since is not None and not waiting:
            self._end_blockade(sent)

    def link_outcome(self, key: Any, disposition: Disposition) -> None:
        """Complete, resend or fail the message whose outcome the peer has sent.

        :param key: the key that :meth:`EngineSender.transfer` returned
        """
        op = self.unsettled.pop(key, None)
        if op is None or op.stage is Stage.DONE:  # a reply may overtake the outcome of its call
            return
        if disposition.outcome is Outcome.ACCEPTED:
            op.accepted()
            return
        self._negative(op, disposition)

    # -- inner ---------------------------------------------------------------

    def _negative(self, op: Operation, disposition: Disposition) -> None:
        reply = op.kind is Kind.REPLY
        if disposition.outcome is Outcome.RELEASED and not op.best_effort:
            self._owner.on_returned(op)
        now = self.scheduler.now()
        decision = decide(
            disposition,
            resend_released=self._releases.may_resend
            and self._links.shared.settings.delivery.resend_released,
            retry=op.retry,
            expired=op.deadline.expired(now),
            best_effort=op.best_effort,
            host=self.host,
            address=op.address,
            message_id=op.message_id,
        )
        error = decision.error
        if error is None:
            op.accepted()
            return
        # in a mesh a reply may reach a router before its route is known there: another try is safe
        again = decision.action is Action.RESEND or (reply and op.retry.may_retry(error))
        delay = op.retry.delay(self.scheduler.rng)
        if not again or op.deadline.remaining(now) <= delay:
            if (
                self._releases.calls_wait
                and op.kind is Kind.CALL
                and not op.mandatory
                and disposition.outcome is Outcome.RELEASED
            ):
                LOG.debug(
                    "Call %s to %s on %s came back: nobody took it, or its queue was "
                    "deleted; it waits for its deadline",
                    op.message_id,
                    op.address,
                    self.host,
                )
                op.stage = Stage.RETURNED
                op.sender = None
            else:
                op.fail(error)
            return
        op.retry = op.retry.spent()
        op.stage = Stage.QUEUED
        self._outbox.hold(op, self._returned)
        LOG.debug(
            "Message %s to %s on %s came back %s from attempt %d, again in %.2f s",
            op.message_id,
            op.address,
            self.host,
            disposition.outcome.value,
            op.attempts,
            delay,
        )
        attempts = op.attempts
        self.scheduler.call_later(delay, lambda: self._resend(op, attempts))

    def _resend(self, op: Operation, attempts: int) -> None:
        """Send a message again after its pause, unless it has left the queue of the pause."""
        here = op.queue is self._returned and op.attempts == attempts
        if here and self._outbox.remove(op) and not op.finished:  # its reply may have come
            self.submit(op)

    def _open(self, engine: Engine) -> EngineSender:
        self._attempt += 1
        # each attempt has a name of its own on the connection (2.6.1)
        return engine.sender(
            self._links.sessions.for_sender(),
            f"{self._name}.{self._attempt}",
            None if self._links.profile.relay.requests else self.place,
            self,
            kind=self._node.capability if self._node is not None else "",
            outcomes=self._links.profile.needs_outcomes,
        )

    def _reattach(self) -> None:
        if self._node is None or not self._wanted():
            super()._reattach()
            return
        self._timer = None
        ensure_then_attach(self._links.provisioner, self._node, self._prepared)

    def _prepared(self) -> None:
        if self.state is LinkState.REATTACH_WAIT:
            super()._reattach()

    def _attached(self) -> None:
        self.queue.place = Place.CREDIT
        self.link_credit()
        if self.queue.operations and self.blocked_since is None:
            self._block()
        elif self.queue.operations:
            self._stalled()

    def _detached(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        self.queue.place = Place.LINK
        self._fail_unsettled(error)
        missing = missing_entities_error(error, self._predeclared)
        if missing is not None:
            self._outbox.fail(self._returned, missing)
            self._outbox.fail(self.queue, missing)
        else:
            self._outbox.fail_attempt(self.queue, error)

    def _moved(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        self.queue.place = Place.LINK
        self._fail_unsettled(error)  # queued messages go to the new address

    def _fail_unsettled(self, cause: BaseException) -> None:
        unsettled, self.unsettled = self.unsettled, {}
        for op in unsettled.values():
            op.fail(in_doubt(op, self.host, cause))

    def connection_lost(self) -> None:
        """Forget the link and its blockade: the physical connection is lost."""
        super().connection_lost()
        self.blocked_since = None

    def requeue(self) -> None:
        """Move all queued messages to those that wait for a connection with a reply address."""
        self._outbox.requeue(self._returned)
        self._outbox.requeue(self.queue)

    def lost(self, cause: BaseException) -> None:
        """Fail all sent messages without an outcome: the connection is lost."""
        self.connection_lost()
        self._fail_unsettled(cause)

    def _wanted(self) -> bool:
        return bool(self.queue.operations or self._returned.operations)

    # -- credit ----------------------------------------------------------------

    @property
    def _block_reason(self) -> str:
        """Return in words what keeps the peer from taking messages."""
        if self.link is not None and self.link.credit > 0:
            self._reason = "the peer has closed its session's window, as RabbitMQ does in an alarm"
        else:
            self._reason = "the peer grants no credit"
        return self._reason

    def _block(self) -> None:
        self.blocked_since = self._warned_at = self.scheduler.now()
        self._logged = False
        if self.link is not None and self.link.credit > 0:
            self.queue.waits_for = "the session's window, which RabbitMQ closes in an alarm"
        else:
            self.queue.waits_for = "credit"
        self._stalled()

    def _end_blockade(self, sent: bool = False) -> None:
        """End the blockade, because the queue is empty.

        If no message was sent, and none could be, all callers have given up: the peer still blocks.

        :param sent: whether messages from the queue were sent
        """
        if sent or (self.link is not None and self.link.may_send):
            self._unblock()
        else:
            self.blocked_since = None
            self._resumed(ended=True)

    def _unblock(self) -> None:
        since, self.blocked_since = self.blocked_since, None
        self.queue.waits_for = "credit"
        self._resumed()
        if since is not None and self._logged:
            self._logged_at = self.scheduler.now()
            LOG.info(
                "Sending to %s on %s goes on: blocked for %.1f s (%s)",
                self.address or "any address",
                self.host,
                self.scheduler.now() - since,
                self._reason,
            )

    def sweep(self, now: float, warn_after: float) -> None:
        """Warn of a blockade, and fail overdue replies, for which no thread waits.

        The coarse timer of :class:`Housekeeping` calls this.

        :param now: seconds of the loop's clock
        :param warn_after: seconds between warnings
        """
        self.last_used = now
        if self.blocked_since is not None and not self.queue.operations:
            self._end_blockade()
        if (
            self.blocked_since is not None
            and not self._logged
            and now - self.blocked_since >= NOTABLE_SECONDS
            and now - self._logged_at >= warn_after
        ):
            self._logged, self._logged_at = True, now
            LOG.info(
                "Sending to %s on %s waits since %.1f s: %s",
                self.address or "any address",
                self.host,
                now - self.blocked_since,
                self._block_reason,
            )
        if self.blocked_since is not None and now - self._warned_at >= warn_after:
            self._warned_at = self._logged_at = now
            self._logged = True
            LOG.warning(
                "%d message(s) to %s on %s blocked since %.1f s: %s",
                len(self.queue.operations),
                self.address or "any address",
                self.host,
                now - self.blocked_since,
                self._block_reason,
            )
        for key, op in [
            (k, op)
            for k, op in self.unsettled.items()
            if op.future is None and op.deadline.expired(now)
        ]:
            del self.unsettled[key]
            if self.link is not None:
                self.link.forget(key)
            op.fail(expired(op, self.host))


def in_doubt(op: Operation, host: str, cause: BaseException) -> exceptions.InDoubt:
    """Return the error for a sent message whose outcome the driver will never know.

    The message fails; the driver never resends it.
    """
    error = exceptions.InDoubt(
        f"{exceptions.InDoubt.summary} ({cause})",
        host=host,
        address=op.address,
        message_id=op.message_id,
    )
    error.__cause__ = cause
    return error
