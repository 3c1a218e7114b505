# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What peers open, attach, send and settle on one connection, told to the behaviour.

Proton's events come in here; the engine around it moves the bytes. Bus thread only.
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
    pn_event_type,
    pn_link_advance,
    pn_link_is_receiver,
    pn_link_recv,
    pn_link_session,
)
from proton import Condition, Connection, Delivery, Session
from proton import Link as ProtonLink

from .behaviour import Behaviour
from .counters import Counters
from .links import Consumer, Item, Link, Outcome, Producer, Refused, Transfer, read_outcome


class Endpoints:
    """The links of one connection. ``touch`` is called whenever there may be something to send."""

    def __init__(
        self, behaviour: Behaviour, counters: Counters, touched: Callable[[], None]
    ) -> None:
        self.behaviour = behaviour
        self.counters = counters
        self.touch = touched
        self._links: dict[Any, Link] = {}
        #: Name by SASL PLAIN, if any.
        self.user: str | None = None
        #: Whatever the behaviour keeps for this connection.
        self.context: Any = None
        #: Closes the connection with a condition and a description; None once it has ended.
        self.close: Callable[[str, str], None] | None = None
        #: proton's event type -> what is done.
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
        """The attached links."""
        return list(self._links.values())

    def give_up_all(self) -> None:
        """All links have gone."""
        self._give_up(self.links)

    def detach(self, link: Link, condition: Condition) -> None:
        """Close one link from this side."""
        proton_link = link.link
        self._give_up([link])
        proton_link.condition = condition
        proton_link.close()
        self.touch()

    def _give_up(self, links: list[Link]) -> None:
        """Tell the behaviour that links are gone. All are marked first: none may be used again."""
        for link in links:
            link.closed = True
            self._links.pop(link.impl, None)
        for link in links:
            if isinstance(link, Producer):
                self.behaviour.producer_detached(link)
            elif isinstance(link, Consumer):
                self.behaviour.consumer_detached(link)
            link.forget()

    def _on_open(self, event: Any) -> None:
        Connection.wrap(pn_event_connection(event)).open()
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
        if self.behaviour.max_message_size:
            link.max_message_size = self.behaviour.max_message_size
        try:
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
        if pn_delivery_aborted(handle) or not isinstance(link, Producer):
            pn_delivery_settle(handle)
            return
        if not pn_delivery_readable(handle) or pn_delivery_partial(handle):
            return
        _, data = pn_link_recv(impl, pn_delivery_pending(handle))
        pn_link_advance(impl)
        transfer = Transfer(link, handle, bytes(data))
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
        """Tell a receiver that settles second which outcome counts: its own, without the error
        in it, unless the behaviour refuses it."""
        refusal = self.behaviour.refusal(item)
        if refusal is not None:
            delivery = Delivery(handle)
            delivery.local.condition = refusal.condition
            delivery.update(refusal.state)
        elif outcome.state:
            pn_delivery_update(handle, outcome.state)
