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

"""The reply subscription: one per connection, matched by correlation-id.

The bus assigns its address, so it is unique for every process and fork.
Lives on the I/O thread.
"""

import logging
from collections.abc import Callable, Set
from typing import Any

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Node
from amqp1_driver.addressing.peer import ReplyKind
from amqp1_driver.addressing.servicebus import join_reply
from amqp1_driver.policy.credit import CreditWindow
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.engine_link import EngineReceiver, EngineSession
from amqp1_driver.protocol.link import Link, Scheduler
from amqp1_driver.protocol.operation import Request, Stage
from amqp1_driver.protocol.sessionlock import SessionLock, locked_until
from amqp1_driver.protocol.states import LinkState

LOG = logging.getLogger(__name__)

_CAPABILITIES = {
    ReplyKind.VOLATILE: "rabbitmq:volatile-queue",
    ReplyKind.TEMPORARY: "temporary-queue",
}


class Replies(Link):
    """Receives replies and hands each to the call that waits for it.

    :param kind: how this bus provides the address
    :param node: the queue to read where the bus does not assign one
    :param credit: full level of the window, messages
    :param on_ready: told the reply address
    :param on_lost: the link has gone while the connection lives
    :param prepare: makes sure that the node is there, then calls on
    :param session_id: of ``node``, where all processes share one; replies wait in it for us, so
        that the loss of the link costs none
    :param lock: keeps the session ours
    """

    def __init__(self, scheduler: Scheduler, host: str, retry: Retry, kind: ReplyKind,
                 node: Node | None, session: Callable[[], EngineSession], credit: int,
                 on_ready: Callable[[str], None],
                 on_lost: Callable[[exceptions.AmqpError], None],
                 prepare: Callable[[Callable[[], None]], None],
                 session_id: str | None = None, lock: SessionLock | None = None) -> None:
        super().__init__(scheduler, host, retry)
        self.address = node.address if node else "the reply address"
        self.window = CreditWindow(credit)
        self.link: EngineReceiver | None = None
        self.waiting: dict[str, Request] = {}
        self._decode = codec.Decoder().decode
        self._kind = kind
        self._node = node
        self._base = credit
        self._session = session
        self._on_ready = on_ready
        self._on_lost = on_lost
        self._prepare = prepare
        self._attempt = 0
        self._session_id = session_id
        self._lock = lock
        self._told = False
        #: why no replies can be had just now although all else goes; only with a session
        self.trouble: exceptions.AmqpError | None = None
        #: handed over but not settled yet
        self.unsettled: list[int] = []

    def expect(self, op: Request) -> None:
        """A call is about to be sent."""
        self.waiting[op.message_id] = op
        op.on_done = self.forget
        # a volatile queue drops replies for which there is no credit
        if (self._kind is ReplyKind.VOLATILE and len(self.waiting) * 2 > self.window.limit
                and self.link is not None and self.attached):
            grant = self.window.resize(len(self.waiting) * 4)
            if grant:
                self.link.grant(grant)
                self._resumed()

    def forget(self, message_id: str) -> None:
        self.waiting.pop(message_id, None)

    def fail_waiting(self, cause: BaseException, unsent: Set[int] = frozenset()) -> None:
        """No reply can come any more: its address is gone.

        :param unsent: ids of operations that were not sent; they go out later
        """
        for op in list(self.waiting.values()):
            if id(op) in unsent or op.stage is Stage.QUEUED:
                continue
            if op.owner is not None:
                op.owner.cancel(op)
            error = exceptions.InDoubt("the reply address was lost while the call was "
                                       f"waiting for its reply ({cause})", host=self.host,
                                       address=op.address, message_id=op.message_id)
            error.__cause__ = cause
            op.fail(error)

    # -- told by the engine --------------------------------------------------

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
            LOG.error("Undecodable reply on %s at %s dropped: %s", self.address, self.host, error)
            return
        correlation_id: Any = message.correlation_id
        if message.body is None:
            op = self.waiting.get(correlation_id)
            if op is not None:
                op.heartbeat = self.scheduler.now()
            return
        op = self.waiting.pop(correlation_id, None)
        if op is None:
            LOG.warning("Reply with correlation-id %s on %s at %s dropped: nobody waits for "
                        "it any more", correlation_id, self.address, self.host)
            return
        op.on_done = None  # that was it
        op.complete(message)

    def settle(self) -> None:
        """Accept what has been handed over, one batch later: who made a call often makes
        another at once, and both go out together.
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
            self._session(), f"reply.{self._attempt}", self._node.address if self._node else None,
            self, settled=self._kind is ReplyKind.VOLATILE,
            capability=_CAPABILITIES.get(self._kind), group=self._session_id)

    def _reattach(self) -> None:
        self._timer = None
        self._prepare(self._prepared)

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
        self.trouble = None
        if self._lock is not None:
            self._lock.held(locked_until(self.link.properties))
        self._ready(self.address)

    def _ready(self, address: str) -> None:
        if self._session_id is None:
            self._on_ready(address)
        elif not self._told:
            self._told = True
            self._on_ready(join_reply(address, self._session_id))

    def refused(self, error: exceptions.AmqpError) -> None:
        """The node for the sessions of all can't be read: calls fail, all else goes on."""
        self.trouble = error
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
            self._lock.lost()
        if self._session_id is not None:
            if not was_attached or error.condition == "amqp:not-found":
                self.refused(error)
        elif was_attached:
            self.fail_waiting(error)
            self._on_lost(error)
