# SPDX-License-Identifier: Apache-2.0

"""The live connection: everything that ends with one physical connection; on the I/O thread.

The logical connection makes it when the peer's Open frame has arrived. The live connection chooses
the profile of the bus and attaches the reply link. Once that link has an address, the live
connection publishes a context, and lets messages and subscriptions through.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import AddressConfig, Node
from amqp1_driver.addressing.context import BusContext
from amqp1_driver.addressing.peer import DeclareBy, Peer, make_addresser, profile_for, reply_source
from amqp1_driver.connection.context import LinkContext
from amqp1_driver.connection.outbox import Outbox
from amqp1_driver.connection.reply_link import ReplyLink
from amqp1_driver.connection.router import Router
from amqp1_driver.connection.subscription import Subscriber, Subscription
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.sessions import Sessions
from amqp1_driver.interfaces import TokenSource, WallClockScheduler
from amqp1_driver.options import Settings
from amqp1_driver.policy.retry import Retry
from amqp1_driver.provisioning.artemis import AttachProvisioner
from amqp1_driver.provisioning.base import Provisioner
from amqp1_driver.provisioning.brokerj import BrokerjManagement
from amqp1_driver.provisioning.cbs import TokenProvisioner
from amqp1_driver.provisioning.management import Management, ManagementProvisioner
from amqp1_driver.provisioning.rabbitmq import RabbitmqManagement
from amqp1_driver.provisioning.requests import RequestNode, Requests
from amqp1_driver.provisioning.session_lock import SessionLock, management_address

LOG = exceptions.logger(__name__)


_MANAGEMENTS: dict[DeclareBy, Management] = {
    DeclareBy.RABBITMQ: RabbitmqManagement(),
    DeclareBy.QPID: BrokerjManagement(),
}


class Owner(Protocol):
    """The logical connection, as far as this module needs it."""

    settings: Settings
    addresses: AddressConfig
    #: makes the reply address of this process and fork unique on the bus
    unique: str
    #: number of contexts so far
    epochs: int
    link_retry: Retry
    outbox: Outbox

    @property
    def port(self) -> WallClockScheduler:
        """Return the clock and the timers."""
        ...

    @property
    def host(self) -> str:
        """Return ``hostname:port``, for logs and errors."""
        ...

    @property
    def hostname(self) -> str:
        """Return the name of the host, without the port."""
        ...

    def reply_ready(self, context: BusContext) -> None:
        """Send messages and open subscriptions: the reply address is known."""
        ...

    def serve_without_replies(self, live: "LiveConnection") -> None:
        """Serve subscriptions while the bus can't declare the queue for replies."""
        ...

    def reply_lost(self, error: exceptions.AmqpError) -> None:
        """Hold messages back until the lost reply link is attached again."""
        ...

    def give_up(self, error: exceptions.AmqpError) -> None:
        """End the physical connection, which is useless after ``error``."""
        ...

    def token_source(self) -> TokenSource | None:
        """Return the source of tokens for the host; None: SASL authenticates the driver."""
        ...


class LiveConnection:
    """The reply link, and all other links, of one engine."""

    def __init__(self, owner: Owner, engine: Engine, peer: Peer) -> None:
        self._owner = owner
        self._engine = engine
        self._host = owner.host
        self.peer = peer
        settings = owner.settings
        self.profile = profile_for(peer, settings.addressing_mode)
        self._addresser = make_addresser(self.profile, owner.addresses)
        if settings.session_window and not self.profile.window_per_frame:
            LOG.warning(
                "The option session_window has no effect with %s: it would send more "
                "frames of a large message than the window allows",
                self._host,
            )
            engine.disable_session_window()
        self._sessions = Sessions(
            engine,
            self.profile.session_per_receiver,
            self.profile.max_sessions,
            self.profile.one_session,
        )
        self._provisioner = self._make_provisioner()
        # the session is new each time: the bus may still keep that of an earlier connection
        self._node, self._session = reply_source(
            self.profile, self._addresser, owner.unique, owner.epochs + 1
        )
        self._reply_retry = owner.link_retry
        self._alive = True
        self._links = LinkContext(
            owner.port,
            self._host,
            settings,
            self.profile,
            owner.link_retry,
            engine,
            self._sessions,
            self._provisioner,
        )
        self.reply_link = ReplyLink(self._links, self, self._node, self._session, self._make_lock())
        #: chooses the links of messages; None until there is a reply address, or until the live
        #: connection serves subscriptions without one
        self.router: Router | None = None
        self._subscriber: Subscriber | None = None
        #: whether subscriptions have links although there is no reply address yet
        self._serves_without_replies = False

    def _make_provisioner(self) -> Provisioner | None:
        owner, timeout = self._owner, self._owner.settings.connect_timeout
        if self.profile.provision and self.profile.declares is DeclareBy.ATTACHING:
            return AttachProvisioner(owner.port, self._host, timeout)
        if self.profile.provision:
            bus = _MANAGEMENTS[self.profile.declares]
            return ManagementProvisioner(
                bus, owner.port, self._host, timeout, owner.give_up, self._blocked
            )
        source = owner.token_source() if self.profile.needs_tokens else None
        if source is None:
            return None
        whole = owner.settings.token_scope == "namespace"
        return TokenProvisioner(
            owner.port, self._host, owner.hostname, whole, source, owner.link_retry, timeout
        )

    def _make_lock(self) -> SessionLock | None:
        if self._node is None or self._session is None:
            return None
        owner = self._owner
        return SessionLock(
            owner.port,
            self._host,
            self._node.address,
            self._session,
            partial(self._connect, management_address(self._node.address)),
            owner.link_retry,
        )

    def _connect(self, address: str) -> Requests:
        """Open the links for requests to a node."""
        owner = self._owner
        timeout = owner.settings.connect_timeout
        requests = Requests(owner.port, self._host, RequestNode(address), timeout, owner.link_retry)
        requests.attach(self._engine, lambda: self._sessions.shared("replies"))
        return requests

    def attach_replies(self) -> None:
        """Attach the reply link, whose address the driver needs before it can encode a call."""
        if self._provisioner is not None:
            self._provisioner.attach(self._engine, lambda: self._sessions.shared("replies"))
        self.provision_reply_node(self.reply_link.attach)

    def provision_reply_node(self, attach: Callable[[], None]) -> None:
        """Make sure that the node of replies exists, then call ``attach``."""
        provisioner = self._provisioner
        if provisioner is None or self._node is None:
            attach()
            return
        provisioner.forget(self._node)
        provisioner.ensure(self._node.declare, lambda error: self._declared(error, attach))

    def _declared(self, error: BaseException | None, attach: Callable[[], None]) -> None:
        if error is None:
            attach()
        elif not isinstance(error, exceptions.AmqpError):
            return
        elif self._session is None:
            if isinstance(error, exceptions.LinkFailed):
                # without a reply address the driver can send nothing; another host may have one
                self._owner.give_up(error)
        elif self._alive:
            self.reply_link.refused(error)
            delay = self._reply_retry.delay(self._owner.port.rng)
            self._reply_retry = self._reply_retry.spent()
            self._owner.port.call_later(delay, partial(self._again, attach))

    def _again(self, attach: Callable[[], None]) -> None:
        if self._alive:
            self.provision_reply_node(attach)

    @property
    def blocked(self) -> bool:
        """Return whether the bus accepts no requests now; see :attr:`Provisioner.blocked`."""
        return self._provisioner is not None and self._provisioner.blocked

    def _blocked(self) -> None:
        """Read from the queues that exist, because the bus can declare none at present.

        If the driver has to declare the queue for replies (RabbitMQ 4.0), subscriptions do not wait
        for that queue.
        """
        if self._subscriber is None:
            self._renew("")
        assert self._subscriber is not None
        self._subscriber.blocked()
        if not self._serves_without_replies and not self.reply_link.attached:
            self._serves_without_replies = True
            self._owner.serve_without_replies(self)

    def on_reply_address(self, address: str) -> None:
        """Let messages through: the address for replies is known."""
        self._serves_without_replies = False
        self._owner.reply_ready(self._renew(address))

    def on_reply_link_lost(self, error: exceptions.AmqpError) -> None:
        """Hold messages back: the reply link is lost while the connection lives."""
        self._owner.reply_lost(error)

    def _renew(self, address: str) -> BusContext:
        owner = self._owner
        owner.epochs += 1
        context = BusContext(
            owner.epochs,
            self._host,
            self.peer,
            self.profile,
            self._addresser,
            address,
            owner.settings.durable,
        )
        if self.router is None or self._subscriber is None:
            self.router = Router(self._links, owner.outbox, context, self.reply_link)
            self._subscriber = Subscriber(self._links, context)
        else:
            self.router.context = self._subscriber.context = context
        return context

    def subscribe(self, subscription: Subscription) -> None:
        """Open the links of a subscription.

        Call this only after :meth:`Owner.reply_ready` or :meth:`Owner.serve_without_replies`.
        """
        assert self._subscriber is not None
        self._subscriber.subscribe(subscription)

    def delete_unused(
        self, nodes: tuple[Node, ...], readers: int, done: Callable[[bool], object]
    ) -> None:
        """Delete what the bus would keep of nodes; see :meth:`Provisioner.delete_unused`."""
        if self._provisioner is None:
            done(True)
        else:
            self._provisioner.delete_unused(nodes, readers, done)

    def lost(self, error: BaseException) -> None:
        """Queue unsent messages for the next connection, and fail sent ones: they are in doubt."""
        self._alive = False
        if self._subscriber is not None:
            self._subscriber.lost()
        if self.router is not None:
            self.router.lost(error)
        elif self._provisioner is not None:
            self._provisioner.connection_lost(error)
        self.reply_link.fail_waiting(error)
        self.reply_link.connection_lost()
