# SPDX-License-Identifier: Apache-2.0

"""The reply link of a connection, which matches replies to calls by correlation-id.

The address for replies, or the session if all processes share one queue for replies, is unique for
every process and fork. Lives on the I/O thread.
"""

from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Node
from amqp1_driver.addressing.servicebus import join_reply
from amqp1_driver.connection.context import LinkContext
from amqp1_driver.connection.link import Link
from amqp1_driver.connection.operation import Request, Stage
from amqp1_driver.connection.states import LinkState
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.link import EngineReceiver
from amqp1_driver.policy.credit import CreditWindow
from amqp1_driver.policy.loglimit import LogLimit
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.provisioning.session_lock import SessionLock, locked_until

LOG = exceptions.logger(__name__)


class ReplyLinkOwner(Protocol):
    """The live connection, as far as its reply link needs it."""

    def on_reply_address(self, address: str) -> None:
        """Let messages through: the address for replies is known."""
        ...

    def on_reply_link_lost(self, error: exceptions.AmqpError) -> None:
        """Hold messages back: the reply link is lost while the connection lives."""
        ...

    def provision_reply_node(self, attach: Callable[[], None]) -> None:
        """Make sure that the node of replies exists, then call ``attach``."""
        ...


class ReplyLink(Link):
    """A link that receives replies; each reply completes the call that waits for it.

    :param node: the queue to read; None: the bus assigns the address
    :param session_id: our session in ``node``, where all processes share one queue; the session
        keeps our replies, so that the loss of the link loses none
    :param lock: the lock on that session, which has to be renewed
    """

    def __init__(
        self,
        links: LinkContext,
        owner: ReplyLinkOwner,
        node: Node | None,
        session_id: str | None = None,
        lock: SessionLock | None = None,
    ) -> None:
        super().__init__(links)
        self.address = node.address if node else "the reply address"
        self.window = CreditWindow(links.shared.settings.delivery.reply_link_credit)
        self.link: EngineReceiver | None = None
        self.waiting: dict[str, Request] = {}
        self._decode = codec.Decoder().decode
        self._complaints = LogLimit()
        self._owner = owner
        self._capability = links.profile.reply.capability
        self._volatile = links.profile.reply.volatile
        self.node = node
        self._attempt = 0
        self._session_id = session_id
        self._lock = lock
        self._late = links.profile.settlement.late_reply
        self._announced = False
        #: why no replies can arrive at present although everything else works; None: they can;
        #: set only if the link reads a session
        self.unavailable: exceptions.AmqpError | None = None
        #: keys of the deliveries that are not settled yet
        self.unsettled: list[int] = []

    def expect(self, op: Request) -> None:
        """Register a call that is about to be sent."""
        self.waiting[op.message_id] = op
        op.on_done = self.forget
        # a volatile queue drops replies for which there is no credit
        if (
            self._volatile
            and len(self.waiting) * 2 > self.window.limit
            and self.link is not None
            and self.attached
        ):
            grant = self.window.resize(len(self.waiting) * 4)
            if grant:
                self.link.grant(grant)
                self._resumed()

    def forget(self, message_id: str) -> None:
        self.waiting.pop(message_id, None)

    def fail_waiting(self, cause: BaseException) -> None:
        """Fail all calls that were sent: their reply address is gone, so no reply can arrive."""
        for op in list(self.waiting.values()):
            if op.stage is Stage.QUEUED:
                continue
            if op.sender is not None:
                op.sender.cancel(op)
            error = exceptions.InDoubt(
                f"the reply address was lost while the call was waiting for its reply ({cause})",
                host=self.host,
                address=op.address,
                message_id=op.message_id,
            )
            error.__cause__ = cause
            op.fail(error)

    # -- called by the engine ------------------------------------------------

    def link_delivery(self, key: int, data: bytes, settled: bool) -> None:
        if self.window.on_delivery():
            LOG.debug("Credit stall %d on the reply link at %s", self.window.stalls, self.host)
            self._stalled(self.window.limit)
        if not self.unsettled:
            self.scheduler.linger()
        self.unsettled.append(key)
        try:
            message = self._decode(data)
        except exceptions.DecodeError as error:
            note = self._complaints.note(self.scheduler.now())
            if note is not None:
                LOG.error(
                    "Undecodable reply on %s at %s dropped: %s%s",
                    self.address,
                    self.host,
                    error,
                    note,
                )
            self._refuse(key, Outcome.REJECTED)
            return
        correlation_id: Any = message.correlation_id
        if message.body is None:
            op = self.waiting.get(correlation_id)
            if op is not None:
                op.heartbeat = self.scheduler.now()
            return
        op = self.waiting.pop(correlation_id, None)
        if op is None:
            note = self._complaints.note(self.scheduler.now())
            if note is not None:
                LOG.warning(
                    "Reply with correlation-id %s on %s at %s dropped: nobody waits for "
                    "it any more%s",
                    correlation_id,
                    self.address,
                    self.host,
                    note,
                )
            self._refuse(key, self._late)
            return
        op.on_done = None  # it is removed from ``waiting`` already
        op.complete(message)

    def _refuse(self, key: int, outcome: Outcome) -> None:
        """Settle a reply that belongs to no call; :meth:`settle` gives its credit back."""
        if self.link is not None:
            self.link.settle(key, outcome)

    def settle(self) -> None:
        """Accept all replies that are not settled yet.

        The connection calls this at the beginning of the next :meth:`Connection.process`. A caller
        often makes another call at once: the delay lets both frames go out together.
        """
        keys, self.unsettled = self.unsettled, []
        link = self.link
        if link is None or not keys:
            return
        settle, accepted = link.path.settle, Outcome.ACCEPTED
        for key in keys:
            settle(link, key, accepted)
        grant = self.window.on_settled(len(keys))
        if grant:
            link.grant(grant)
            self._resumed()

    # -- inner -----------------------------------------------------------------

    def _open(self, engine: Engine) -> EngineReceiver:
        self._attempt += 1
        return engine.receiver(
            self._links.sessions.shared("replies"),
            f"reply.{self._attempt}",
            self.node.address if self.node else None,
            self,
            settled=self._volatile,
            capability=self._capability,
            group=self._session_id,
        )

    def _reattach(self) -> None:
        self._timer = None
        self._owner.provision_reply_node(self._prepared)

    def _prepared(self) -> None:
        if self.state is LinkState.REATTACH_WAIT:
            super()._reattach()

    def _attached(self) -> None:
        assert self.link is not None
        if self._session_id is None:
            self.address = self.link.source
        grant = self.window.on_attached()
        if grant:
            self.link.grant(grant)
        if self.address is None:
            LOG.error("The bus at %s assigned no reply address", self.host)
            return
        self.unavailable = None
        if self._lock is not None:
            self._lock.acquired(locked_until(self.link.properties))
        self._ready(self.address)

    def _ready(self, address: str) -> None:
        if self._session_id is None:
            self._owner.on_reply_address(address)
        elif not self._announced:
            self._announced = True
            self._owner.on_reply_address(join_reply(address, self._session_id))

    def refused(self, error: exceptions.AmqpError) -> None:
        """Fail the calls that were sent, because the queue for replies can't be read.

        Messages without replies, and subscriptions, continue.
        """
        self.unavailable = error
        self.fail_waiting(error)
        self._ready(self.address or "")

    def connection_lost(self) -> None:
        super().connection_lost()
        self.unsettled.clear()
        if self._lock is not None:
            self._lock.connection_lost(exceptions.ConnectionLost(host=self.host))

    def _detached(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        self.unsettled.clear()
        self.window.on_detached()
        if self._lock is not None:
            self._lock.released()
        if self._session_id is not None:
            if not was_attached or error.condition == "amqp:not-found":
                self.refused(error)
        elif was_attached:
            self.fail_waiting(error)
            self._owner.on_reply_link_lost(error)
