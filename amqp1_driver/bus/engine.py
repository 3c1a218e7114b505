# SPDX-License-Identifier: Apache-2.0

"""One AMQP connection as the bus sees it: proton below, a behaviour above; no sockets.

Sans-I/O: bytes enter through :meth:`Engine.feed` and leave through :meth:`Engine.output`. The
engine handles proton's events and reports links and messages to the behaviour. Bus thread only.
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
    PN_REMOTE_UNINIT,
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
    pn_delivery_settled,
    pn_event_delivery,
    pn_event_link,
    pn_event_session,
    pn_event_type,
    pn_link_advance,
    pn_link_is_receiver,
    pn_link_recv,
    pn_link_session,
    pn_session_head,
    pn_session_next,
    pn_session_outgoing_bytes,
    pn_transport_capacity,
    pn_transport_close_head,
    pn_transport_close_tail,
    pn_transport_get_remote_idle_timeout,
    pn_transport_peek,
    pn_transport_pending,
    pn_transport_pop,
    pn_transport_push,
    pn_transport_tick,
)
from proton import Collector, Condition, Connection, Session, Transport
from proton import Link as ProtonLink

from .behaviour import Behaviour
from .echoes import Echoes
from .links import (
    PIECE,
    UNSENT_LIMIT,
    Consumer,
    Link,
    Outcome,
    Producer,
    Refused,
    Transfer,
    read_outcome,
    write_outcome,
)
from .log import logger

LOG = logger(__name__)

ANONYMOUS_RELAY = "ANONYMOUS-RELAY"
#: Limit of unsent message bytes: the engine answers flow echo requests only up to this limit.
MUCH = 65536
#: Maximum number of sessions per connection (2.7.1, channel-max).
MAX_SESSIONS = 4096
#: Maximum number of links per connection; the bus refuses further links.
MAX_LINKS = 10_000
#: Shortest idle-time-out that the bus accepts from a client, in milliseconds: proton sends a frame
#: in each half of this time.
SHORTEST_IDLE_TIMEOUT_MS = 100


class Engine:
    """The AMQP protocol engine of one connection.

    :param idle_timeout: seconds that the engine enforces; proton advertises half of it
    :param touched: called whenever the connection may have something to send
    :param user: name from SASL PLAIN, if any
    """

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        container: str,
        version: str,
        idle_timeout: float,
        touched: Callable[[], None],
        trace: bool = False,
        user: str | None = None,
    ) -> None:
        self.behaviour = behaviour
        self.counters = behaviour.counters
        self.touch = touched
        self.user = user
        #: Data of the behaviour about this connection.
        self.context: Any = None
        #: proton's wrapper of the connection.
        self.connection = Connection()
        self.connection.container = container
        if behaviour.product is not None:
            self.connection.offered_capabilities = [ANONYMOUS_RELAY]
            self.connection.properties = {"product": behaviour.product, "version": version}
        self._collector = Collector()
        self.connection.collect(self._collector)
        self._transport = Transport(Transport.SERVER)
        self._transport.max_frame_size = behaviour.max_frame
        self._transport.channel_max = MAX_SESSIONS - 1
        # proton advertises half of the time-out that it enforces, as the routers do
        self._transport.idle_timeout = idle_timeout
        if trace:
            self._transport.trace(Transport.TRACE_FRM)
        self._transport.bind(self.connection)
        self._pn = self._transport._impl
        self._links: dict[Any, Link] = {}
        #: Upper bound of the message bytes that proton holds: :meth:`weigh` sets it, each send
        #: raises it.
        self.given = 0
        #: True while the client reads more slowly than messages come; its links then get no
        #: messages.
        self.congested = False
        #: True once we have closed or lost the connection.
        self.closed = False
        self._lost = False
        self._echoes = Echoes()
        #: Bytes already taken from proton that go out before all other output.
        self._staged = bytearray()
        #: proton's event type -> handler.
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

    # -- bytes ---------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take input from the peer and process it."""
        echoes = self._echoes
        echoes.read(data)
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
        # a peer that does not read gets no answers: they would add to the unsent bytes
        if echoes.asked and not self._lost and self.unsent <= MUCH:
            self._staged += echoes.answer(self._sessions(), self._pull)
            self.touch()

    def _sessions(self) -> list[Any]:
        found, session = [], pn_session_head(self.connection._impl, 0)
        while not isnull(session):
            found.append(session)
            session = pn_session_next(session, 0)
        return found

    def _pull(self) -> bytes:
        """Take all output from proton."""
        taken = b""
        while data := self._pending():
            taken += data
            pn_transport_pop(self._pn, len(data))
        return taken

    def end_of_input(self) -> None:
        """Process the end of the peer's byte stream."""
        pn_transport_close_tail(self._pn)
        self.process()

    def output(self) -> bytearray | None:
        """Return the bytes to send now (empty: none), None when no more bytes will come."""
        pending = self._pending()
        if pending is None:
            return self._staged or None
        return self._staged + pending

    def _pending(self) -> bytearray | None:
        """Return proton's output to send now (empty: none), None after its last byte."""
        pending = pn_transport_pending(self._pn)
        if pending <= 0:
            return bytearray() if pending == 0 else None
        data: bytearray
        status, data = pn_transport_peek(self._pn, pending)
        if status < 0:
            return None
        self._echoes.sending(data)
        return data

    def sent(self, size: int) -> None:
        """Remove the first ``size`` bytes of the output, which the socket has taken."""
        staged = min(size, len(self._staged))
        del self._staged[:staged]
        pn_transport_pop(self._pn, size - staged)
        if self.congested:
            self.relieve()

    def tick(self, now: float) -> float | None:
        """Run idle time-out and heartbeats.

        :param now: seconds
        :returns: time of the next call in seconds, None = never
        """
        deadline = pn_transport_tick(self._pn, int(now * 1000))
        return deadline / 1000 if deadline > 0 else None

    # -- the connection ------------------------------------------------------

    @property
    def opened(self) -> bool:
        """Return whether the peer's Open has arrived."""
        return not pn_connection_state(self.connection._impl) & PN_REMOTE_UNINIT

    def close(self, condition: str, description: str) -> None:
        """Begin a clean close with an error condition; remove all links at once."""
        self.closed = True
        self._give_up(self.links)
        self.connection.condition = Condition(condition, description)
        if pn_connection_state(self.connection._impl) & PN_LOCAL_ACTIVE:
            self.connection.close()
        else:
            pn_transport_close_head(self._pn)
        self.touch()

    def lost(self) -> None:
        """Remove all links after the loss of the socket; do not touch proton again.

        Dropping the references frees proton's memory (messages included) at once. The garbage
        collector would come late because it does not see how large these objects are.
        """
        if not self._lost:
            self._lost = self.closed = True
            try:
                self._give_up(self.links)
            finally:
                self._handlers.clear()
                del self._pn, self._transport, self.connection, self._collector

    # -- links -----------------------------------------------------------------

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
        self.weigh()
        for link in self.links:
            if isinstance(link, Consumer) and not link.closed:
                self.behaviour.flow(link)
                link.drained()

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

    # -- proton's events -----------------------------------------------------

    def process(self) -> None:
        """Handle all pending events of proton."""
        collector = self._collector._impl
        handlers = self._handlers
        while not self._lost:
            event = pn_collector_peek(collector)
            if isnull(event):
                return
            handler = handlers.get(pn_event_type(event))
            if handler is not None:
                handler(event)
            pn_collector_pop(collector)

    def _on_open(self, event: Any) -> None:
        self.connection.open()
        idle_timeout = pn_transport_get_remote_idle_timeout(self._pn)
        if not self.closed and 0 < idle_timeout < SHORTEST_IDLE_TIMEOUT_MS:
            self.close(
                "amqp:not-implemented",
                f"an idle-time-out of {idle_timeout} ms is below the {SHORTEST_IDLE_TIMEOUT_MS} ms "
                "that are supported",
            )
            return
        self.behaviour.opened(self)
        self.touch()

    def _on_close(self, event: Any) -> None:
        self._give_up(self.links)
        self.connection.close()
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
            self._links.pop(link._impl, None)
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
        producer = self._links[link._impl] = Producer(self, link, target.address or None)
        self.behaviour.producer_attached(producer)
        producer.adjust()

    def _attach_consumer(self, link: Any) -> None:
        source = link.remote_source
        dynamic = bool(source.dynamic)
        if dynamic:
            link.source.address = address = self.behaviour.new_address(link.name)
        else:
            address = source.address
        if not address:
            raise Refused("amqp:invalid-field", "the source has no address")
        consumer = self._links[link._impl] = Consumer(self, link, address)
        self.behaviour.consumer_attached(consumer, dynamic)
        self._echoes.attached(consumer)

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
            self._echoes.heard(link)
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
            # This receiver settles second (rcv-settle-mode, 2.8.3): the bus confirms the
            # receiver's outcome, without an error in it, or refuses it.
            write_outcome(handle, self.behaviour.refusal(item) or Outcome(outcome.state))
        pn_delivery_settle(handle)
        self.counters.dispositions[outcome.name] += 1
        self.touch()
        self.behaviour.settled(consumer, item, outcome)
