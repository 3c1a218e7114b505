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
from amqp1_driver.addressing.base import Node
from amqp1_driver.addressing.context import BusContext
from amqp1_driver.addressing.factory import make_addresser, reply_source
from amqp1_driver.addressing.peer import Peer, profile_for
from amqp1_driver.addressing.profiles import Provision
from amqp1_driver.connection.context import ConnectionContext, LinkContext
from amqp1_driver.connection.outbox import Outbox
from amqp1_driver.connection.reply_link import ReplyLink
from amqp1_driver.connection.router import Router
from amqp1_driver.connection.subscription import Subscriber, Subscription
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.session import EngineSession
from amqp1_driver.engine.sessions import Sessions
from amqp1_driver.options import Host
from amqp1_driver.provisioning.artemis import AttachProvisioner
from amqp1_driver.provisioning.base import Provisioner
from amqp1_driver.provisioning.brokerj import BrokerjManagement
from amqp1_driver.provisioning.cbs import TokenProvisioner
from amqp1_driver.provisioning.management import Management, ManagementProvisioner
from amqp1_driver.provisioning.rabbitmq import RabbitmqManagement
from amqp1_driver.provisioning.requests import RequestNode, Requests
from amqp1_driver.provisioning.session_lock import SessionLock, management_address

LOG = exceptions.logger(__name__)


_MANAGEMENTS: dict[Provision, Management] = {
    Provision.RABBITMQ: RabbitmqManagement(),
    Provision.QPID: BrokerjManagement(),
}


class Owner(Protocol):
    """The logical connection, as far as this module needs it."""

    def next_generation(self) -> int:
        """Count another context, and return its number."""
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


class LiveConnection:
    """The reply link, and all other links, of one engine.

    :param shared: the objects that outlive the engine
    :param outbox: the messages that are not sent yet
    :param host: of the bus
    :param generation: number that the first context will have
    """

    def __init__(
        self,
        owner: Owner,
        shared: ConnectionContext,
        outbox: Outbox,
        engine: Engine,
        peer: Peer,
        host: Host,
        generation: int,
    ) -> None:
        self._owner = owner
        self._shared = shared
        self._outbox = outbox
        self._engine = engine
        self._host = str(host)
        self.peer = peer
        self._scheduler = shared.network
        settings = shared.settings
        self.profile = profile_for(peer, settings.addressing.addressing_mode)
        self._addresser = make_addresser(self.profile, shared.addresses)
        if settings.delivery.session_window and not self.profile.window_per_frame:
            LOG.warning(
                "The option session_window has no effect with %s: it would send more "
                "frames of a large message than the window allows",
                self._host,
            )
            engine.disable_session_window()
        self._sessions = Sessions(
            engine.session,
            self.profile.sessions.per_receiver,
            self.profile.sessions.limit,
            self.profile.sessions.one,
        )
        self._provisioner = self._make_provisioner(host)
        # the session is new each time: the bus may still keep that of an earlier connection
        self._node, self._session = reply_source(
            self.profile, self._addresser, shared.unique, generation
        )
        self._reply_retry = shared.retry
        self._alive = True
        self._links = LinkContext(
            shared, self._host, self.profile, engine, self._sessions, self._provisioner
        )
        self.reply_link = ReplyLink(self._links, self, self._node, self._session, self._make_lock())
        #: chooses the links of messages; None until there is a reply address, or until the live
        #: connection serves subscriptions without a reply address
        self.router: Router | None = None
        self._subscriber: Subscriber | None = None
        #: whether subscriptions have links although there is no reply address yet
        self._serves_without_replies = False

    def _make_provisioner(self, host: Host) -> Provisioner | None:
        timeout = self._shared.settings.connection.connect_timeout
        provision = self.profile.provision
        if provision is Provision.NOTHING:
            return None
        if provision is Provision.ATTACHING:
            return AttachProvisioner(self._scheduler, self._host, timeout)
        if provision is not Provision.TOKENS:
            bus = _MANAGEMENTS[provision]
            return ManagementProvisioner(
                bus, self._scheduler, self._host, timeout, self._owner.give_up, self._blocked
            )
        source = self._shared.network.token_source(host)
        if source is None:
            return None
        whole = self._shared.settings.servicebus.token_scope == "namespace"
        return TokenProvisioner(
            self._scheduler, self._host, host.hostname, whole, source, self._shared.retry, timeout
        )

    def _make_lock(self) -> SessionLock | None:
        if self._node is None or self._session is None:
            return None
        return SessionLock(
            self._scheduler,
            self._host,
            self._node.address,
            self._session,
            partial(self._connect, management_address(self._node.address)),
            self._shared.retry,
        )

    def _connect(self, address: str) -> Requests:
        """Open the links for requests to a node."""
        timeout = self._shared.settings.connection.connect_timeout
        requests = Requests(
            self._scheduler, self._host, RequestNode(address), timeout, self._shared.retry
        )
        requests.attach(self._engine, self._shared_session)
        return requests

    def _shared_session(self) -> EngineSession:
        return self._sessions.shared("replies")

    def attach_replies(self) -> None:
        """Attach the reply link, whose address the driver needs before it can encode a call."""
        if self._provisioner is not None:
            self._provisioner.attach(self._engine, self._shared_session)
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
                # without a reply address the driver can send nothing; another host may provide one
                self._owner.give_up(error)
        elif self._alive:
            self.reply_link.refused(error)
            delay = self._reply_retry.delay(self._scheduler.rng)
            self._reply_retry = self._reply_retry.spent()
            self._scheduler.call_later(delay, partial(self._again, attach))

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
        context = BusContext(
            self._owner.next_generation(),
            self._host,
            self.peer,
            self.profile,
            self._addresser,
            address,
            self._shared.settings.delivery.durable,
        )
        if self.router is None or self._subscriber is None:
            self.router = Router(self._links, context, self.reply_link, self._outbox)
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
        """Delete the unused queues of nodes; see :meth:`Provisioner.delete_unused`."""
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
