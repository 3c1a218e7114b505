# SPDX-License-Identifier: Apache-2.0

"""The sessions, links and deliveries of one connection, reported to the behaviour.

This module handles proton's events; the engine around it moves the bytes. Bus thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cproton import (
    PN_CONNECTION_REMOTE_CLOSE,
    PN_CONNECTION_REMOTE_OPEN,
    PN_COORDINATOR,
    PN_DELIVERY,
    PN_LINK_FLOW,
    PN_LINK_REMOTE_CLOSE,
    PN_LINK_REMOTE_DETACH,
    PN_LINK_REMOTE_OPEN,
    PN_LOCAL_ACTIVE,
    PN_SESSION_REMOTE_CLOSE,
    PN_SESSION_REMOTE_OPEN,
    PN_UNSPECIFIED,
    pn_delivery_aborted,
    pn_delivery_link,
    pn_delivery_partial,
    pn_delivery_pending,
    pn_delivery_readable,
    pn_delivery_settle,
    pn_delivery_settled,
    pn_delivery_update,
    pn_event_connection,
    pn_event_delivery,
    pn_event_link,
    pn_event_session,
    pn_event_transport,
    pn_event_type,
    pn_link_advance,
    pn_link_is_receiver,
    pn_link_recv,
    pn_link_session,
    pn_session_outgoing_bytes,
    pn_transport_get_remote_idle_timeout,
)
from proton import Condition, Connection, Delivery, Session
from proton import Link as ProtonLink

from .behaviour import Behaviour
from .counters import Counters
from .echoes import Echoes
from .links import (
    PIECE,
    UNSENT_LIMIT,
    Consumer,
    Item,
    Link,
    Outcome,
    Producer,
    Refused,
    Transfer,
    read_outcome,
)
from .log import logger

LOG = logger(__name__)

#: Maximum number of links per connection; the bus refuses further links.
MAX_LINKS = 10_000
#: Shortest idle-time-out that the bus accepts from a client, in milliseconds: proton sends a frame
#: in each half of this time.
SHORTEST_IDLE_TIMEOUT_MS = 100


class Endpoints:
    """The links of one connection.

    :param touched: called whenever the connection may have something to send
    """

    def __init__(
        self, behaviour: Behaviour, counters: Counters, touched: Callable[[], None]
    ) -> None:
        self.behaviour = behaviour
        self.counters = counters
        self.touch = touched
        self._links: dict[Any, Link] = {}
        #: Name from SASL PLAIN, if any.
        self.user: str | None = None
        #: Upper bound of the message bytes that proton holds: :meth:`weigh` sets it, each send
        #: raises it.
        self.given = 0
        #: The client's flow echo requests.
        self.echoes = Echoes()
        #: True while the client reads more slowly than messages come; its links then get no
        #: messages.
        self.congested = False
        #: Data of the behaviour about this connection.
        self.context: Any = None
        #: Function that closes the connection with a condition and a description; None once we have
        #: closed or lost the connection.
        self.close: Callable[[str, str], None] | None = None
        #: proton's event type -> handler.
        self.handlers: dict[int, Callable[[Any], None]] = {
            PN_DELIVERY: self._on_delivery,
            PN_LINK_FLOW: self._on_flow,
            PN_LINK_REMOTE_OPEN: self._on_attach,
            PN_LINK_REMOTE_DETACH: self._on_detach,
            PN_LINK_REMOTE_CLOSE: self._on_detach,
            PN_SESSION_REMOTE_OPEN: self._on_begin,
            PN_SESSION_REMOTE_CLOSE: self._on_end,
            PN_CONNECTION_REMOTE_OPEN: self._on_open,
            PN_CONNECTION_REMOTE_CLOSE: self._on_close,
        }

    @property
    def links(self) -> list[Link]:
        """Return the attached links."""
        return list(self._links.values())

    @property
    def unsent(self) -> int:
        """Return the number of message bytes that proton holds for this connection."""
        sessions = {pn_link_session(impl) for impl in self._links}
        return sum(pn_session_outgoing_bytes(session) for session in sessions)

    def weigh(self) -> None:
        """Count the message bytes that are still in proton, and update ``congested``."""
        self.given = self.unsent
        self.congested = self.given > UNSENT_LIMIT

    def relieve(self) -> None:
        """Resume sending on a congested connection once half of the limit is free."""
        if self.unsent > UNSENT_LIMIT // 2:
            return
        self.congested = False
        self.given = self.unsent
        for link in self.links:
            if isinstance(link, Consumer) and not link.closed:
                self.behaviour.flow(link)
                link.drained()

    def give_up_all(self) -> None:
        """Remove all links."""
        self._give_up(self.links)

    def detach(self, link: Link, condition: Condition) -> None:
        """Detach one link from the bus's side, with the field ``closed`` true."""
        proton_link = link.link
        self._give_up([link])
        proton_link.condition = condition
        proton_link.close()
        self.touch()

    def _give_up(self, links: list[Link]) -> None:
        """Remove links and notify the behaviour.

        The method marks all links as closed first, so that the behaviour uses none of them again.
        """
        for link in links:
            link.closed = True
            self._links.pop(link.impl, None)
        for link in links:
            try:
                if isinstance(link, Producer):
                    self.behaviour.producer_detached(link)
                elif isinstance(link, Consumer):
                    self.behaviour.consumer_detached(link)
            except Exception:
                # the remaining links must be removed in any case
                LOG.exception("Giving up the link %s to %s has failed", link.name, link.address)
            link.forget()

    def _on_open(self, event: Any) -> None:
        Connection.wrap(pn_event_connection(event)).open()
        idle_timeout = pn_transport_get_remote_idle_timeout(pn_event_transport(event))
        if self.close is not None and 0 < idle_timeout < SHORTEST_IDLE_TIMEOUT_MS:
            self.close(
                "amqp:not-implemented",
                f"an idle-time-out of {idle_timeout} ms is below the {SHORTEST_IDLE_TIMEOUT_MS} ms "
                "that are supported",
            )
            return
        self.behaviour.opened(self)
        self.touch()

    def _on_close(self, event: Any) -> None:
        self.give_up_all()
        Connection.wrap(pn_event_connection(event)).close()
        self.touch()

    def _on_begin(self, event: Any) -> None:
        Session.wrap(pn_event_session(event)).open()
        self.touch()

    def _on_end(self, event: Any) -> None:
        session = pn_event_session(event)
        self._give_up([x for x in self.links if pn_link_session(x.impl) == session])
        wrapper = Session.wrap(session)
        wrapper.close()
        wrapper.free()
        self.touch()

    def _on_attach(self, event: Any) -> None:
        link = ProtonLink.wrap(pn_event_link(event))
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        link.max_message_size = self.behaviour.max_message_size
        try:
            if len(self._links) >= MAX_LINKS:
                raise Refused("amqp:resource-limit-exceeded", f"more than {MAX_LINKS} links")
            if link.is_receiver:
                self._attach_producer(link)
            else:
                self._attach_consumer(link)
            link.open()
        except Refused as refusal:
            # Attach with a null terminus, then detach with the reason (2.6.3).
            (link.target if link.is_receiver else link.source).type = PN_UNSPECIFIED
            link.open()
            link.condition = Condition(refusal.condition, refusal.description)
            link.close()
        self.touch()

    def _attach_producer(self, link: Any) -> None:
        target = link.remote_target
        if target.type == PN_COORDINATOR:
            raise Refused("amqp:not-implemented", "no transactions here")
        if target.dynamic:
            raise Refused("amqp:not-implemented", "a dynamic target is not supported")
        producer = Producer(self, link, target.address or None)
        self._links[producer.impl] = producer
        try:
            self.behaviour.producer_attached(producer)
        except Refused:
            del self._links[producer.impl]
            raise
        producer.adjust()

    def _attach_consumer(self, link: Any) -> None:
        source = link.remote_source
        dynamic = bool(source.dynamic)
        if dynamic:
            address = self.behaviour.new_address(link.name)
            link.source.address = address
        else:
            address = source.address
        if not address:
            raise Refused("amqp:invalid-field", "the source has no address")
        consumer = Consumer(self, link, address)
        self._links[consumer.impl] = consumer
        try:
            self.behaviour.consumer_attached(consumer, dynamic)
        except Refused:
            del self._links[consumer.impl]
            raise
        self.echoes.attached(consumer)

    def _on_detach(self, event: Any) -> None:
        impl = pn_event_link(event)
        link = self._links.get(impl)
        if link is not None:
            self._give_up([link])
        wrapper = ProtonLink.wrap(impl)
        if wrapper.state & PN_LOCAL_ACTIVE:
            if pn_event_type(event) == PN_LINK_REMOTE_CLOSE:
                wrapper.close()
            else:
                wrapper.detach()
        wrapper.free()
        self.touch()

    def _on_flow(self, event: Any) -> None:
        link = self._links.get(pn_event_link(event))
        if link is not None:
            self.echoes.heard(link)
        if isinstance(link, Consumer):
            self.behaviour.flow(link)
            link.drained()

    def _on_delivery(self, event: Any) -> None:
        handle = pn_event_delivery(event)
        impl = pn_delivery_link(handle)
        link = self._links.get(impl)
        if not pn_link_is_receiver(impl):
            if isinstance(link, Consumer):
                self._on_disposition(link, handle)
            return
        if pn_delivery_aborted(handle):
            pn_delivery_settle(handle)
            if isinstance(link, Producer):
                link.drop_pieces()
            return
        size = pn_delivery_pending(handle)
        if not isinstance(link, Producer):
            if pn_delivery_partial(handle):
                pn_link_recv(impl, size)  # otherwise proton stores the whole delivery
            else:
                pn_delivery_settle(handle)
            return
        if not pn_delivery_readable(handle):
            return
        partial = pn_delivery_partial(handle)
        if partial and size < PIECE:
            return
        _, data = pn_link_recv(impl, size)
        if link.taken + size > self.behaviour.largest_message:
            link.drop_pieces()
            text = f"a message has more than {self.behaviour.largest_message} bytes"
            self.detach(link, Condition("amqp:link:message-size-exceeded", text))
            return
        if partial:
            link.take(bytes(data))
            return
        pn_link_advance(impl)
        transfer = Transfer(link, handle, link.whole(bytes(data)))
        self.counters.messages_in += 1
        if transfer.settled:
            self.counters.presettled_in += 1
        self.behaviour.transferred(transfer)
        if transfer.settled:
            link.adjust()

    def _on_disposition(self, consumer: Consumer, handle: Any) -> None:
        outcome = read_outcome(handle)
        if outcome is None:
            return
        item = consumer.unsettled.pop(handle, None)
        if item is None:
            return
        if not pn_delivery_settled(handle):
            self._answer(handle, item, outcome)
        pn_delivery_settle(handle)
        self.counters.dispositions[outcome.name] += 1
        self.touch()
        self.behaviour.settled(consumer, item, outcome)

    def _answer(self, handle: Any, item: Item, outcome: Outcome) -> None:
        """Send the final outcome to a receiver that settles second (rcv-settle-mode, 2.8.3).

        The final outcome is the error with which the behaviour refuses the receiver's outcome,
        otherwise the receiver's outcome without the error in it.
        """
        refusal = self.behaviour.refusal(item)
        if refusal is not None:
            delivery = Delivery(handle)
            delivery.local.condition = refusal.condition
            delivery.update(refusal.state)
        elif outcome.state:
            pn_delivery_update(handle, outcome.state)
