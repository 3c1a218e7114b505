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

"""One AMQP connection as the bus sees it: proton below, a behaviour above; no sockets.

Sans-I/O: bytes in through :meth:`Engine.feed`, out through :meth:`Engine.output`. Bus thread only.
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
    isnull,
    pn_collector_peek,
    pn_collector_pop,
    pn_connection_state,
    pn_delivery_aborted,
    pn_delivery_link,
    pn_delivery_partial,
    pn_delivery_pending,
    pn_delivery_readable,
    pn_delivery_settle,
    pn_event_delivery,
    pn_event_link,
    pn_event_session,
    pn_event_type,
    pn_link_advance,
    pn_link_is_receiver,
    pn_link_recv,
    pn_link_session,
    pn_transport_capacity,
    pn_transport_close_head,
    pn_transport_close_tail,
    pn_transport_peek,
    pn_transport_pending,
    pn_transport_pop,
    pn_transport_push,
    pn_transport_tick,
)
from proton import Collector, Condition, Connection, Session, Transport
from proton import Link as ProtonLink

from .behaviour import Behaviour
from .counters import Counters
from .links import Consumer, Link, Producer, Refused, Transfer, read_outcome

ANONYMOUS_RELAY = "ANONYMOUS-RELAY"


class Engine:
    """``touched`` is called whenever the connection may have something to send."""

    def __init__(
        self,
        behaviour: Behaviour,
        counters: Counters,
        *,
        container: str,
        version: str,
        idle_timeout: float,
        touched: Callable[[], None],
        trace: bool = False,
    ) -> None:
        self.behaviour = behaviour
        self.counters = counters
        self.touch = touched
        self._connection = Connection()
        self._connection.container = container
        self._connection.offered_capabilities = [ANONYMOUS_RELAY]
        self._connection.properties = {"product": behaviour.product, "version": version}
        self._collector = Collector()
        self._connection.collect(self._collector)
        self._transport = Transport(Transport.SERVER)
        self._transport.max_frame_size = behaviour.max_frame
        # proton itself advertises half of what it enforces, as the routers do.
        self._transport.idle_timeout = idle_timeout
        if trace:
            self._transport.trace(Transport.TRACE_FRM)
        self._transport.bind(self._connection)
        self._pn = self._transport._impl
        self._links: dict[Any, Link] = {}
        self._handlers: dict[int, Callable[[Any], None]] = {
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
        self._dead = False

    # -- bytes ---------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take input from the peer and act on it."""
        rest = memoryview(data)
        while len(rest):
            room = pn_transport_capacity(self._pn)
            if room <= 0:
                return
            taken = pn_transport_push(self._pn, rest[:room])
            if taken <= 0:
                return
            self.process()
            rest = rest[taken:]

    def end_of_input(self) -> None:
        """The peer has closed its side of the stream."""
        pn_transport_close_tail(self._pn)
        self.process()

    def output(self) -> bytearray | None:
        """What is to be sent now (empty: nothing), None once nothing will ever be sent again."""
        pending = pn_transport_pending(self._pn)
        if pending < 0:
            return None
        if pending == 0:
            return bytearray()
        status, data = pn_transport_peek(self._pn, pending)
        return data if status >= 0 else None

    def sent(self, size: int) -> None:
        """``size`` bytes of the output have left."""
        pn_transport_pop(self._pn, size)

    def tick(self, now: float) -> float | None:
        """Idle time-out and heartbeats; returns when to call again (seconds), None = never."""
        deadline = pn_transport_tick(self._pn, int(now * 1000))
        return deadline / 1000 if deadline > 0 else None

    # -- the connection ------------------------------------------------------

    @property
    def remote_container(self) -> str | None:
        """Container id of the peer's Open."""
        name: str | None = self._connection.remote_container
        return name

    @property
    def remote_hostname(self) -> str | None:
        """Hostname of the peer's Open: its virtual host."""
        name: str | None = self._connection.remote_hostname
        return name

    @property
    def links(self) -> list[Link]:
        """The attached links."""
        return list(self._links.values())

    def close(self, condition: str, description: str) -> None:
        """Begin a clean close with an error condition; links are given up at once."""
        self._give_up(self.links)
        self._connection.condition = Condition(condition, description)
        if pn_connection_state(self._connection._impl) & PN_LOCAL_ACTIVE:
            self._connection.close()
        else:
            pn_transport_close_head(self._pn)
        self.touch()

    def lost(self) -> None:
        """The socket has gone: links are given up, nothing of proton is touched again.

        Proton's memory (messages included) is freed by reference count: no waiting for the
        garbage collector, which does not see how large these objects are.
        """
        if not self._dead:
            self._dead = True
            self._give_up(self.links)
            self._handlers.clear()
            del self._pn, self._transport, self._connection, self._collector

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

    # -- proton's events -----------------------------------------------------

    def process(self) -> None:
        """Handle what proton has to say."""
        collector = self._collector._impl
        handlers = self._handlers
        while not self._dead:
            event = pn_collector_peek(collector)
            if isnull(event):
                return
            handler = handlers.get(pn_event_type(event))
            if handler is not None:
                handler(event)
            pn_collector_pop(collector)

    def _on_open(self, event: Any) -> None:
        self._connection.open()
        self.touch()

    def _on_close(self, event: Any) -> None:
        self._give_up(self.links)
        self._connection.close()
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
        pn_delivery_settle(handle)
        self.counters.dispositions[outcome.name] += 1
        self.touch()
        self.behaviour.settled(consumer, item, outcome)
