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
that, and tidies up.  Lives on the I/O thread.
"""

import logging
from functools import partial
from itertools import count

from amqp1_driver.addressing.base import Node
from amqp1_driver.addressing.peer import reply_target
from amqp1_driver.options import Settings
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.context import BusContext
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.gates import Gates
from amqp1_driver.protocol.link import Scheduler
from amqp1_driver.protocol.operation import Operation, Request
from amqp1_driver.protocol.prepare import Preparer, entities, make_sure
from amqp1_driver.protocol.readers import Readers
from amqp1_driver.protocol.returned import Returned
from amqp1_driver.protocol.sender import Sender
from amqp1_driver.protocol.sessions import LINKS_PER_SESSION, Sessions
from amqp1_driver.protocol.states import LinkState
from amqp1_driver.protocol.subscription import Subscription

LOG = logging.getLogger(__name__)

_ATTACHED = LinkState.ATTACHED
#: addresses whose sender is remembered
ROUTES = 20000


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
        #: addresses whose own link was refused or detached, while the relay takes all
        self._refused: set[str | None] = set()
        self._names = count(1)
        host, profile = context.host, context.profile
        self._gates = Gates(host, "a token" if profile.claims else "its queue to be declared",
                            self.send)
        self._came_back = Returned(scheduler, host, self._forget, self.send)
        self._readers = Readers(scheduler, settings, retry, engine, context, sessions,
                                provisioner, self._names)

    def renew(self, context: BusContext) -> None:
        """There is another reply address."""
        self.context = self._readers.context = context

    def subscribe(self, subscription: Subscription) -> None:
        """Attach the links of a subscription, declaring what they read first."""
        self._readers.subscribe(subscription)

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
                    self._gates.wait(op, node, self._provisioner)
                    return
            if context.profile.anonymous:
                address = self._own(op)
        elif context.profile.anonymous_replies:
            address = None
        else:
            node = reply_target(context.profile, address or "")
            address = node.address
            if self._provisioner is not None and not self._provisioner.known(node):
                self._gates.wait(op, node, self._provisioner)
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
        self._gates.wait(op, node, self._provisioner)
        return True

    def _attach_sender(self, address: str | None, node: Node | None = None) -> Sender:
        profile = self.context.profile
        sender = Sender(self._scheduler, self.context.host, self._retry, address,
                        f"send.{next(self._names)}.{address or 'any'}",
                        self._sessions.for_sender,
                        resend_released=self._settings.resend_released,
                        on_returned=self._returned,
                        on_lost=self._own_lost if profile.anonymous and address is not None
                        else None,
                        prepare=partial(make_sure, self._provisioner, node)
                        if node is not None else None,
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
        """Nobody took it; only where the bus says that for sure it may be sent again."""
        if self.context.profile.redeclare:
            return self._came_back.again(op)
        self._forget(op)
        return False

    def _forget(self, op: Operation) -> Node | None:
        """Have the node of a message declared before the next one; returns it."""
        if self._provisioner is None or not isinstance(op, Request):
            return None
        node = self.context.node(op.destination)
        self._provisioner.forget(node)
        return node

    # -- upkeep ------------------------------------------------------------------

    def sweep(self, now: float) -> bool:
        """Coarse timer; True while anything is under way."""
        for sender in list(self._busy):
            sender.sweep(now, self._settings.blocked_warning_interval)
            if sender.idle:
                del self._busy[sender]
        self._gates.expire(now)
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
        waiting.extend(self._gates.take())
        waiting.extend(self._came_back.take())
        return waiting

    def lost(self, cause: BaseException) -> list[Operation]:
        """The connection is gone; returns what was not sent."""
        self._readers.lost()
        waiting = self.take_pending()
        for sender in self._senders.values():
            sender.lost(cause)
        self._senders.clear()
        self._busy.clear()
        if self._provisioner is not None:
            self._provisioner.connection_lost(cause)
        return waiting
