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

"""What stands and falls with one physical connection.

Made when the peer's Open frame has come: chooses how to treat this bus, attaches
the reply link, and once that has an address, publishes a context and lets
messages and subscriptions through.  Lives on the I/O thread.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import AddressConfig, Node
from amqp1_driver.addressing.peer import DeclareBy, Peer, choose, make_addresser, reply_source
from amqp1_driver.options import Settings
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.cbs import Claims, TokenSource
from amqp1_driver.protocol.context import BusContext
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.links import Links
from amqp1_driver.protocol.operation import Kind, Operation, Request
from amqp1_driver.protocol.prepare import Preparer, entities, nothing_there
from amqp1_driver.protocol.provision import Provisioner
from amqp1_driver.protocol.provision_attach import AttachProvisioner
from amqp1_driver.protocol.provision_qpid import QpidProvisioner
from amqp1_driver.protocol.provision_rabbitmq import RabbitmqProvisioner
from amqp1_driver.protocol.reply import Replies
from amqp1_driver.protocol.sessionlock import Clocks, SessionLock
from amqp1_driver.protocol.sessions import Sessions
from amqp1_driver.protocol.subscription import Subscription

LOG = logging.getLogger(__name__)


_PROVISIONERS = {
    DeclareBy.RABBITMQ: RabbitmqProvisioner,
    DeclareBy.QPID: QpidProvisioner,
    DeclareBy.ATTACHING: AttachProvisioner,
}


class Owner(Protocol):
    """The logical connection, as far as this module needs it."""

    settings: Settings
    addresses: AddressConfig
    unique: str
    generations: int
    link_retry: Retry

    @property
    def port(self) -> Clocks: ...
    @property
    def host(self) -> str: ...
    @property
    def hostname(self) -> str: ...
    def reply_ready(self, context: BusContext) -> None: ...
    def reply_lost(self, error: exceptions.AmqpError) -> None: ...
    def give_up(self, error: exceptions.AmqpError) -> None: ...
    def token_source(self) -> TokenSource | None: ...


class Generation:
    """The reply link, and all other links, of one engine."""

    def __init__(self, owner: Owner, engine: Engine, peer: Peer) -> None:
        self._owner = owner
        self._engine = engine
        self._host = owner.host
        self.peer = peer
        settings = owner.settings
        self.profile = choose(peer, settings.addressing_mode)
        self._addresser = make_addresser(self.profile, owner.addresses)
        if settings.session_window and not self.profile.keeps_window:
            LOG.warning("The option session_window has no effect with %s: it would send more "
                        "frames of a large message than the window allows", self._host)
            engine.unbound()
        self._sessions = Sessions(engine, self.profile.session_per_receiver,
                                  self.profile.max_sessions, self.profile.one_session)
        self._provisioner: Provisioner | None = None
        self._claims = self._make_claims()
        if self.profile.provision:
            self._provisioner = _PROVISIONERS[self.profile.declares](
                owner.port, self._host, settings.connect_timeout, owner.give_up)
        # the bus may still keep the session that an earlier connection had for it
        self._node, self._session = reply_source(
            self.profile, self._addresser, owner.unique, owner.generations + 1)
        self._reply_retry = owner.link_retry
        self._alive = True
        self.replies = Replies(
            owner.port, self._host, owner.link_retry, self.profile.reply, self._node,
            lambda: self._sessions.shared("replies"), settings.reply_link_credit,
            self._reply_ready, owner.reply_lost, self._declare_reply_node, self._session,
            self._make_lock())
        self._links: Links | None = None

    def _make_claims(self) -> Claims | None:
        owner = self._owner
        source = owner.token_source() if self.profile.claims else None
        if source is None:
            return None
        whole = owner.settings.token_scope == "namespace"
        return Claims(owner.port, self._host, owner.hostname, whole, source, owner.link_retry,
                      owner.settings.connect_timeout)

    def _make_lock(self) -> SessionLock | None:
        if self._node is None or self._session is None:
            return None
        owner = self._owner
        return SessionLock(owner.port, self._host, self._node.address, self._session,
                           self._engine, lambda: self._sessions.shared("replies"),
                           owner.settings.connect_timeout, owner.link_retry)

    @property
    def _preparer(self) -> Preparer | None:
        return self._claims or self._provisioner

    def attach_replies(self) -> None:
        """First of all a reply address: without it no call can be encoded."""
        if self._claims is not None:
            self._claims.attach(self._engine, lambda: self._sessions.shared("replies"))
        elif self._provisioner is not None:
            self._provisioner.attach(self._engine, self._sessions.shared("replies"))
        self._declare_reply_node(lambda: self.replies.attach(self._engine))

    def _declare_reply_node(self, attach: Callable[[], None]) -> None:
        """Where the bus makes no node for replies by itself: declare it, then go on."""
        preparer = self._preparer
        if preparer is None or self._node is None:
            attach()
            return
        preparer.forget(self._node)
        preparer.ensure(self._node.declare, lambda error: self._declared(error, attach))

    def _declared(self, error: BaseException | None, attach: Callable[[], None]) -> None:
        if error is None:
            attach()
        elif not isinstance(error, exceptions.AmqpError):
            return
        elif self._session is None:
            if isinstance(error, exceptions.LinkFailed):
                # without a reply address nothing goes: another host may do better
                self._owner.give_up(error)
        elif self._alive:
            self.replies.refused(error)
            delay = self._reply_retry.delay(self._owner.port.rng)
            self._reply_retry = self._reply_retry.spent()
            self._owner.port.call_later(delay, partial(self._again, attach))

    def _again(self, attach: Callable[[], None]) -> None:
        if self._alive:
            self._declare_reply_node(attach)

    def _reply_ready(self, address: str) -> None:
        owner = self._owner
        owner.generations += 1
        context = BusContext(owner.generations, self._host, self.peer, self.profile,
                             self._addresser, address, owner.settings.durable)
        if self._links is None:
            self._links = Links(owner.port, owner.settings, owner.link_retry, self._engine,
                                context, self._sessions, self._preparer)
        else:
            self._links.renew(context)
        owner.reply_ready(context)

    def send(self, op: Operation) -> None:
        assert self._links is not None
        if op.kind is Kind.CALL:
            if self.replies.trouble is not None:
                op.fail(self._no_replies(op, self.replies.trouble))
                return
            self.replies.expect(op)  # type: ignore[arg-type]  # which only requests are
        self._links.send(op)

    def _no_replies(self, op: Operation, error: exceptions.AmqpError) -> exceptions.AmqpError:
        """Why a call is of no use: also what else it needs, so that all can be made at once."""
        if self._node is None or self._links is None or not isinstance(op, Request):
            return error
        target = self._links.context.node(op.destination)
        gone = nothing_there(error, entities(self._node.declare), entities(target.declare))
        return gone or error

    def leave(self, nodes: tuple[Node, ...], readers: int,
              done: Callable[[bool], object]) -> None:
        """Have deleted what would be left on the bus; see :class:`Preparer`."""
        if self._preparer is None:
            done(True)
        else:
            self._preparer.leave(nodes, readers, done)

    def subscribe(self, subscription: Subscription) -> None:
        assert self._links is not None
        self._links.subscribe(subscription)

    def sweep(self, now: float) -> bool:
        return self._links is not None and self._links.sweep(now)

    def purge(self, now: float) -> None:
        if self._links is not None:
            self._links.purge(now)

    @property
    def sender_count(self) -> int:
        return self._links.sender_count if self._links is not None else 0

    def take_pending(self) -> list[Operation]:
        return self._links.take_pending() if self._links is not None else []

    def lost(self, error: BaseException) -> list[Operation]:
        """The connection has gone; returns what was never sent."""
        self._alive = False
        waiting: list[Operation] = []
        if self._links is not None:
            waiting = self._links.lost(error)
        elif self._preparer is not None:
            self._preparer.connection_lost(error)
        self.replies.fail_waiting(error, {id(op) for op in waiting})
        self.replies.connection_lost()
        return waiting
