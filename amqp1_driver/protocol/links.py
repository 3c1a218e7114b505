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

"""All links of one generation of the connection, apart from the reply link.

Chooses the sender for a message, has nodes declared first where the bus wants
that, spreads receivers over sessions, and tidies up.  Lives on the I/O thread.
"""

import dataclasses
import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination, Node, Service
from amqp1_driver.addressing.peer import reply_target
from amqp1_driver.options import Settings
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.context import BusContext
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.link import Cancellable, Scheduler
from amqp1_driver.protocol.operation import Operation, Request, Stage, expired
from amqp1_driver.protocol.prepare import Preparer, entities
from amqp1_driver.protocol.receiver import Receiver
from amqp1_driver.protocol.sender import Sender
from amqp1_driver.protocol.sessions import LINKS_PER_SESSION, Sessions
from amqp1_driver.protocol.states import LinkState
from amqp1_driver.protocol.subscription import Subscription

LOG = logging.getLogger(__name__)

_ATTACHED = LinkState.ATTACHED
#: addresses whose sender is remembered
ROUTES = 20000
#: pauses before the queue of a message that came back is declared again, seconds
REDECLARE_AFTER = (0.0, 0.1, 0.5)


class Gate:
    """Operations that wait until the nodes of their destination are declared."""

    waits_for = "its queue to be declared"

    def __init__(self, node: Node) -> None:
        self.node = node
        self.waiting: OrderedDict[int, Operation] = OrderedDict()

    def cancel(self, op: Operation) -> None:
        self.waiting.pop(id(op), None)

    def expire(self, now: float, host: str) -> None:
        """End what nobody waits for; all others are cancelled by those who do."""
        for op in [op for op in self.waiting.values() if op.deadline.expired(now)]:
            self.cancel(op)
            op.fail(expired(op, host))


class Links:
    """Senders and subscriptions on one physical connection."""

    def __init__(self, scheduler: Scheduler, settings: Settings, retry: Retry, engine: Engine,
                 context: BusContext, sessions: Sessions,
                 provisioner: Preparer | None) -> None:
        self._scheduler = scheduler
        self._settings = settings
        self._retry = retry
        self._engine = engine
        self.context = context
        self._sessions = sessions
        self._provisioner = provisioner
        self._senders: dict[str | None, Sender] = {}
        self._busy: dict[Sender, None] = {}
        #: by the address in the message: who sends it, as long as all that it needs is there
        self._routes: dict[str | None, Sender] = {}
        self._keeps_routes = provisioner is None or provisioner.tells(self._routes.clear)
        self._gates: dict[Destination | str | None, Gate] = {}
        #: addresses whose own link was refused or detached, while the relay takes all
        self._refused: set[str | None] = set()
        #: subscriptions whose nodes are being declared, or will be at a time
        self._coming: dict[Subscription, Cancellable | None] = {}
        self._retries: dict[Subscription, Retry] = {}
        #: messages that came back, and will be sent again in a moment
        self._paused: dict[int, tuple[Operation, Cancellable]] = {}
        self._alive = True
        self._names = 0

    # -- sending -----------------------------------------------------------------

    def send(self, op: Operation) -> None:
        """Route one operation; it has been encoded for some generation."""
        if op.generation == self.context.generation:
            sender = self._routes.get(op.address)
            if sender is not None and not sender.pending:
                link = sender.link
                if (link is not None and sender.machine.state is _ATTACHED
                        and link.path.may_send(link)):
                    # as Sender.submit(), in line: nearly every message goes this way
                    self._busy[sender] = None
                    op.owner = sender
                    sender.transmit(link, op)
                    return
        else:
            op.bind(self.context, self._scheduler.now())
        self._send(op)

    def _send(self, op: Operation) -> None:
        context = self.context
        address = op.address
        node: Node | None = None
        if isinstance(op, Request):
            if self._provisioner is not None:
                node = context.node(op.destination)
                if node.declare and not self._provisioner.known(node):
                    self._wait_for_node(op, node)
                    return
            if context.profile.anonymous:
                address = self._own(op)
        elif context.profile.anonymous_replies:
            address = None
        else:
            node = reply_target(context.profile, address or "")
            address = node.address
            if self._provisioner is not None and not self._provisioner.known(node):
                self._wait_for_node(op, node)
                return
        sender = self._senders.get(address)
        if sender is None or sender.machine.state is LinkState.DETACHED:
            if address is None or not isinstance(op, Request):
                sender = self._attach_sender(address, node)
            elif sender is not None and self._gone(op):
                return
            else:
                sender = self._attach_sender(address, context.node(op.destination))
        if self._keeps_routes:
            if len(self._routes) >= ROUTES:
                self._routes.clear()
            self._routes[op.address] = sender
        self._busy[sender] = None
        sender.submit(op)

    def _own(self, op: Request) -> str | None:
        """The address of a link of its own for a message that could go by relay; None: by relay.

        A broker grants the relay credit by what is not confirmed, of all addresses together
        (RabbitMQ: 170). Once that is used up by a slow queue the others get links of their own,
        and the slow one too.
        """
        address = op.address
        if address in self._refused:
            return None
        own = self._senders.get(address)
        if own is not None and own.machine.state is not LinkState.DETACHED:
            return address
        relay = self._senders.get(None)
        if (relay is None or not relay.exhausted or op.mandatory
                or not self.context.profile.own_links
                or len(self._senders) >= LINKS_PER_SESSION):
            return None
        return address

    def _own_lost(self, sender: Sender) -> None:
        """There may be no such queue: the relay's answer to that is for each message."""
        self._refused.add(sender.address)
        for op in sender.take_pending():
            self._forget(op)
            self.send(op)

    def _gone(self, op: Request) -> bool:
        """The peer has detached the link to a declared node: it has to be declared again."""
        node = self.context.node(op.destination)
        if self._provisioner is None or not node.declare:
            return False
        del self._senders[op.address]
        self._provisioner.forget(node)
        self._wait_for_node(op, node)
        return True

    def _attach_sender(self, address: str | None, node: Node | None = None) -> Sender:
        self._names += 1
        profile = self.context.profile
        sender = Sender(self._scheduler, self.context.host, self._retry, address,
                        f"send.{self._names}.{address or 'any'}",
                        self._sessions.for_sender,
                        resend_released=self._settings.resend_released,
                        on_returned=self._returned,
                        on_lost=self._own_lost if profile.anonymous and address is not None
                        else None,
                        prepare=partial(self._prepare, node) if node is not None else None,
                        kind=node.capability if node is not None else "",
                        outcomes=profile.outcomes,
                        premade=entities(node.declare) if node is not None else (),
                        on_waiting=self._waits if address is not None and not profile.stores
                        and profile.anonymous_replies else None)
        self._senders[address] = sender
        sender.attach(self._engine)
        return sender

    def _waits(self, sender: Sender, op: Operation) -> None:
        """No credit on a router: nobody reads there, or the news of it has not come yet.

        A fanout does not wait for its first reader, nor does who wants to be told that nobody is
        there. The relay says at once whether there is one.
        """
        if op.for_whoever or op.mandatory:
            known = sender.made_at + self.context.profile.news
            self._scheduler.call_later(max(0.0, known - self._scheduler.now()),
                                       lambda: self._relay(sender, op))

    def _relay(self, sender: Sender, op: Operation) -> None:
        if op.owner is sender and sender.withdraw(op):
            relay = self._senders.get(None)
            if relay is None or relay.machine.state is LinkState.DETACHED:
                relay = self._attach_sender(None)
            self._busy[relay] = None
            relay.submit(op)

    def _returned(self, op: Operation) -> bool:
        """Nobody took it: its queue may have been deleted since it was declared.

        Declared anew, it is sent again, where the bus says for sure that it is in no queue. If it
        comes back once more, a pause is made: a queue that is just being deleted can still be
        declared, for nothing.
        """
        node = self._forget(op)
        if (node is None or not node.declare or not self.context.profile.redeclare
                or not isinstance(op, Request) or op.redeclared == len(REDECLARE_AFTER)):
            return False
        LOG.info("Message %s to %s on %s was not routed: its queue is declared again",
                 op.message_id, op.address, self.context.host)
        pause = REDECLARE_AFTER[op.redeclared]
        op.redeclared += 1
        op.stage = Stage.QUEUED
        op.owner = self
        self._paused[id(op)] = op, self._scheduler.call_later(pause, lambda: self._go_on(op))
        return True

    def _go_on(self, op: Operation) -> None:
        del self._paused[id(op)]
        if not op.finished:
            self.send(op)

    def cancel(self, op: Operation) -> None:
        """Nobody waits any more for one that pauses."""
        _, timer = self._paused.pop(id(op), (None, None))
        if timer is not None:
            timer.cancel()

    def _forget(self, op: Operation) -> Node | None:
        """Have the node of a message declared before the next one; returns it."""
        if self._provisioner is None or not isinstance(op, Request):
            return None
        node = self.context.node(op.destination)
        self._provisioner.forget(node)
        return node

    def _wait_for_node(self, op: Operation, node: Node) -> None:
        key = op.destination if isinstance(op, Request) else node.address
        gate = self._gates.get(key)
        new = gate is None
        if gate is None:
            gate = self._gates[key] = Gate(node)
            if self.context.profile.claims:
                gate.waits_for = "a token"
        op.owner = gate
        gate.waiting[id(op)] = op
        if new and self._provisioner is not None:
            self._provisioner.ensure(node.declare, lambda error: self._open_gate(key, error))

    def _open_gate(self, key: Destination | str, error: BaseException | None) -> None:
        gate = self._gates.pop(key, None)
        if gate is None:
            return
        for op in list(gate.waiting.values()):
            if error is None:
                self.send(op)
            else:
                op.fail(error)

    # -- receiving ---------------------------------------------------------------

    def subscribe(self, subscription: Subscription) -> None:
        """Attach the links of a subscription, declaring what they read first."""
        if subscription in self._coming:
            return
        try:
            nodes = [node for destination in subscription.destinations
                     for node in self.context.sources(
                         # the bus may still hold what an earlier connection left
                         destination, pool=subscription.pool,
                         unique=f"{subscription.unique}-{self.context.generation}")]
        except exceptions.UnsupportedFeature as error:
            subscription.refused(error)
            return
        if self._provisioner is None:
            self._attach_receivers(subscription, nodes)
            return
        self._coming[subscription] = None
        declare = tuple(d for node in nodes for d in node.declare)
        self._provisioner.ensure(
            declare, lambda error: self._provisioned(subscription, nodes, error))

    def _provisioned(self, subscription: Subscription, nodes: list[Node],
                     error: BaseException | None) -> None:
        self._coming.pop(subscription, None)
        if subscription.stopping:
            return
        if error is None:
            self._retries.pop(subscription, None)
            self._attach_receivers(subscription, nodes)
            return
        subscription.last_error = error
        if not isinstance(error, (exceptions.AuthenticationFailed, exceptions.LinkFailed)):
            return
        if self.context.profile.premade:
            subscription.refused(error)
        if self._alive:
            retry = self._retries.get(subscription, self._retry)
            delay = retry.delay(self._scheduler.rng)
            self._retries[subscription] = retry.spent()
            LOG.error("Can't subscribe: %s; again in %.1f s", error, delay)
            self._coming[subscription] = self._scheduler.call_later(
                delay, lambda: self._again(subscription))

    def _again(self, subscription: Subscription) -> None:
        del self._coming[subscription]
        if subscription.stopping:
            self._retries.pop(subscription, None)
        else:
            self.subscribe(subscription)

    def _attach_receivers(self, subscription: Subscription, nodes: list[Node]) -> None:
        subscription.limit = self._most(subscription)
        # where the outcome is the receiver's, it comes when the last of all has settled: one
        # with all its threads at work would keep the sender of a fanout waiting
        early = set() if self.context.profile.stores else {
            self.context.addresser.target(dataclasses.replace(d, fanout=True)).address
            for d in subscription.destinations if d.service is Service.RPC}
        for node in nodes:
            self._names += 1
            subscription.add(Receiver(
                self._scheduler, self.context.host, self._retry, node,
                f"receive.{self._names}.{node.address}", self._sessions.for_receiver,
                subscription.allowed, subscription.sink, subscription.changed,
                self._prepare,
                accept_early=node.address in early
                or (subscription.batched and not self.context.profile.stores),
                abandons=self.context.profile.abandons,
                echoes=self.context.profile.echoes))
        subscription.share()
        for receiver in subscription.receivers:
            receiver.attach(self._engine)

    def _most(self, subscription: Subscription) -> int | None:
        """Messages that may be locked for one link; a batch has to be had as a whole."""
        if not self.context.profile.locks or subscription.batched:
            return None
        return self._settings.servicebus_credit

    def _prepare(self, node: Node, attach: Callable[[], None]) -> None:
        """Before a link is attached again: its queue may have been deleted."""
        if self._provisioner is None or not node.declare:
            attach()
            return
        self._provisioner.forget(node)
        self._provisioner.ensure(node.declare, lambda error: attach())

    # -- upkeep ------------------------------------------------------------------

    def sweep(self, now: float) -> bool:
        """Coarse timer; True while anything is under way."""
        for sender in list(self._busy):
            sender.sweep(now, self._settings.blocked_warning_interval)
            if sender.idle:
                del self._busy[sender]
        for gate in list(self._gates.values()):
            gate.expire(now, self.context.host)
        return bool(self._busy or self._gates)

    def purge(self, now: float) -> None:
        """Detach senders that were not used for long."""
        limit = now - self._settings.default_sender_link_timeout
        for address, sender in list(self._senders.items()):
            if sender.idle and sender.last_used <= limit:
                LOG.debug("Sender link to %s on %s is idle and detached", address, sender.host)
                sender.detach()
                del self._senders[address]

    @property
    def sender_count(self) -> int:
        return len(self._senders)

    def take_pending(self) -> list[Operation]:
        """What has not been sent, oldest first for each address; it leaves the senders."""
        waiting = [op for sender in self._senders.values() for op in sender.take_pending()]
        for gate in self._gates.values():
            waiting.extend(gate.waiting.values())
        self._gates.clear()
        for op, timer in self._paused.values():
            timer.cancel()
            waiting.append(op)
        self._paused.clear()
        return waiting

    def lost(self, cause: BaseException) -> list[Operation]:
        """The connection is gone; returns what was not sent."""
        self._alive = False
        for timer in self._coming.values():
            if timer is not None:
                timer.cancel()
        self._coming.clear()
        waiting = self.take_pending()
        for sender in self._senders.values():
            sender.lost(cause)
        self._senders.clear()
        self._busy.clear()
        if self._provisioner is not None:
            self._provisioner.connection_lost(cause)
        return waiting
