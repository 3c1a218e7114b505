# SPDX-License-Identifier: Apache-2.0

"""The router: it chooses the sender link of each message on one physical connection.

The router also has nodes provisioned first where the bus needs that, and detaches idle links. It
lives on the I/O thread.
"""

from functools import partial
from itertools import count

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination, Node
from amqp1_driver.addressing.context import BusContext
from amqp1_driver.addressing.factory import reply_target
from amqp1_driver.connection.context import LinkContext
from amqp1_driver.connection.operation import Kind, Operation, Place, Queue, Request
from amqp1_driver.connection.outbox import Outbox
from amqp1_driver.connection.reply_link import ReplyLink
from amqp1_driver.connection.sender import Sender
from amqp1_driver.connection.states import LinkState
from amqp1_driver.engine.sessions import LINKS_PER_SESSION
from amqp1_driver.provisioning.base import (
    Provisioner,
    missing_entities_error,
    predeclared,
)

LOG = exceptions.logger(__name__)

#: limit of the addresses whose sender the router remembers; at the limit it forgets all
MAX_ROUTES = 20000


class Router:
    """The sender links on one physical connection.

    :param context: how messages are addressed now
    :param reply_link: the link on which calls get their replies
    :param outbox: the messages that are not sent yet
    """

    def __init__(
        self, links: LinkContext, context: BusContext, reply_link: ReplyLink, outbox: Outbox
    ) -> None:
        self._links = links
        self._scheduler = links.shared.network
        self._provisioner = provisioner = links.provisioner
        #: how messages are addressed now; replaced when the reply address changes
        self.context = context
        self._senders: dict[str | None, Sender] = {}
        self._busy: dict[Sender, None] = {}
        #: address in the message -> its sender, as long as the node is known to exist
        self._routes: dict[str | None, Sender] = {}
        self._keeps_routes = provisioner is None or provisioner.on_forgotten(self._routes.clear)
        self._names = count(1)
        self._reply_link = reply_link
        self._outbox = outbox
        #: messages that wait until their node is declared, or until there is a token for it
        self._provisioning: dict[Destination | str, Queue] = {}
        self._missing = "a token" if links.profile.needs_tokens else "its queue to be declared"
        self._relays = links.profile.relay

    # -- sending -----------------------------------------------------------------

    def send(self, op: Operation) -> None:
        """Send a message, or queue it until its node, its link and credit are there.

        Encode it first, unless it was encoded for the present reply address.
        """
        if op.kind is Kind.CALL:
            if self._reply_link.unavailable is not None:
                op.fail(self._no_replies(op, self._reply_link.unavailable))
                return
            self._reply_link.expect(op)  # type: ignore[arg-type]  # a call is a Request
        if op.generation != self.context.generation:
            op.bind(self.context, self._scheduler.now())
        sender = self._routes.get(op.address)
        if sender is None or sender.queue.operations or not sender.transmit(op):
            sender = self._find_sender(op)
            if sender is None:
                return
            sender.submit(op)
        self._busy[sender] = None

    def _no_replies(self, op: Operation, error: exceptions.AmqpError) -> exceptions.AmqpError:
        """Return the error for a call that can get no reply, as there is no reply address.

        If entities are missing, the error also names those that the target of the call needs, so
        that an operator can create all of them at once.
        """
        if self._reply_link.node is None or not isinstance(op, Request):
            return error
        target = self.context.node(op.destination)
        gone = missing_entities_error(
            error, predeclared(self._reply_link.node.declare), predeclared(target.declare)
        )
        return gone or error

    def _find_sender(self, op: Operation) -> Sender | None:
        """Find or attach the sender for a message and remember it.

        :returns: None if the message waits for its node
        """
        context = self.context
        address = op.address
        node: Node | None = None
        if isinstance(op, Request):
            if self._provisioner is not None:
                node = context.node(op.destination)
                if node.declare and not self._provisioner.known(node):
                    self._provision(op, node, self._provisioner)
                    return None
            if self._relays.requests:
                address = self._own_link_address(op)
        elif self._relays.replies:
            address = None
        else:
            node = reply_target(context.profile, address or "")
            address = node.address
            if self._provisioner is not None and not self._provisioner.known(node):
                self._provision(op, node, self._provisioner)
                return None
        sender = self._senders.get(address)
        if sender is None or sender.machine.state is LinkState.DETACHED:
            if address is None or not isinstance(op, Request):
                sender = self._attach_sender(address, node)
            elif self._relays.requests:
                sender = self._attach_sender(address)
            elif sender is not None and self._reprovision(op):
                return None
            else:
                sender = self._attach_sender(address, context.node(op.destination))
        if self._keeps_routes:
            if len(self._routes) >= MAX_ROUTES:
                self._routes.clear()
            self._routes[op.address] = sender
        return sender

    def _provision(self, op: Operation, node: Node, provisioner: Provisioner) -> None:
        """Queue a message until its node is provisioned; the first one starts provisioning."""
        key = op.destination if isinstance(op, Request) else node.address
        queue = self._provisioning.get(key)
        if queue is not None:
            self._outbox.hold(op, queue)
            return
        queue = self._provisioning[key] = Queue(Place.NODE, self._missing)
        self._outbox.hold(op, queue)
        provisioner.ensure(node.declare, partial(self._provisioned, key))

    def _provisioned(self, key: Destination | str, error: BaseException | None) -> None:
        queue = self._provisioning.pop(key, None)
        if queue is None:
            return
        if error is not None:
            self._outbox.fail(queue, error)
            return
        for op in self._outbox.take(queue):
            self.send(op)

    def _own_link_address(self, op: Request) -> str | None:
        """Return the address of the message if it needs a link of its own; None: use the relay.

        The relay is the link that messages to all addresses share. A broker limits the unconfirmed
        messages on it (RabbitMQ: 170). Once a slow queue has used up that credit, each address
        gets a link of its own, and so does the slow queue. These links lead to the anonymous
        terminus too: RabbitMQ refuses none of them, whereas RabbitMQ up to 4.2 ends a whole
        session for a link to a missing queue.
        """
        address = op.address
        own = self._senders.get(address)
        if own is not None and own.machine.state is not LinkState.DETACHED:
            return address
        relay = self._senders.get(None)
        if relay is None or not relay.exhausted or len(self._senders) >= LINKS_PER_SESSION:
            return None
        return address

    def _reprovision(self, op: Request) -> bool:
        """Provision a declared node again, because the peer has detached the link to it.

        :returns: True if the message waits for the node; False if the node needs no declaration
        """
        node = self.context.node(op.destination)
        if self._provisioner is None or not node.declare:
            return False
        del self._senders[op.address]
        self._provisioner.forget(node)
        self._provision(op, node, self._provisioner)
        return True

    def _attach_sender(self, address: str | None, node: Node | None = None) -> Sender:
        name = f"send.{next(self._names)}.{address or 'any'}"
        sender = Sender(self._links, self, self._outbox, address, name, node)
        self._senders[address] = sender
        sender.attach()
        return sender

    def on_waiting(self, sender: Sender, op: Operation) -> None:
        """Send a fanout or a mandatory message by the anonymous terminus, since there is no credit.

        If a router grants no credit, there is no receiver, or the router does not know of it yet.
        The anonymous terminus reports at once whether there is one, so that these messages do not
        wait for the first receiver.
        """
        if op.best_effort or op.mandatory:
            known = sender.made_at + self._links.profile.settlement.propagation_seconds
            self._scheduler.call_later(
                max(0.0, known - self._scheduler.now()), lambda: self._relay(sender, op)
            )

    def _relay(self, sender: Sender, op: Operation) -> None:
        if sender.withdraw(op):
            relay = self._senders.get(None)
            if relay is None or relay.machine.state is LinkState.DETACHED:
                relay = self._attach_sender(None)
            self._busy[relay] = None
            relay.submit(op)

    def on_returned(self, op: Operation) -> None:
        """Forget the node of a returned message, so that the next message provisions it again."""
        if self._provisioner is not None and isinstance(op, Request):
            self._provisioner.forget(self.context.node(op.destination))

    # -- housekeeping --------------------------------------------------------------

    def sweep(self, now: float) -> None:
        """Warn of missing credit and fail overdue replies; :class:`Housekeeping` calls this.

        :param now: seconds of the loop's clock
        """
        for sender in list(self._busy):
            sender.sweep(now, self._links.shared.settings.delivery.blocked_warning_interval)

    @property
    def busy(self) -> bool:
        """Return whether a message is queued for a link or waits for its outcome."""
        for sender in list(self._busy):
            if sender.idle:
                del self._busy[sender]
        return bool(self._busy or self._provisioning)

    def purge(self, now: float) -> None:
        """Detach senders that were idle for longer than the option default_sender_link_timeout.

        :param now: seconds of the loop's clock
        """
        limit = now - self._links.shared.settings.delivery.default_sender_link_timeout
        for address, sender in list(self._senders.items()):
            if sender.idle and sender.last_used <= limit:
                LOG.debug("Sender link to %s on %s is idle and detached", address, sender.host)
                sender.detach()
                del self._senders[address]
                self._routes.clear()  # some routes may lead to this sender

    @property
    def sender_count(self) -> int:
        """Return the number of sender links."""
        return len(self._senders)

    def requeue(self) -> None:
        """Move all queued messages to those that wait for a connection with a reply address."""
        for sender in self._senders.values():
            sender.requeue()
        for queue in self._provisioning.values():
            self._outbox.requeue(queue)
        self._provisioning.clear()

    def lost(self, cause: BaseException) -> None:
        """Queue unsent messages for the next connection, and fail sent ones: they are in doubt."""
        self.requeue()
        for sender in self._senders.values():
            sender.lost(cause)
        self._senders.clear()
        self._routes.clear()
        self._busy.clear()
        if self._provisioner is not None:
            self._provisioner.connection_lost(cause)
