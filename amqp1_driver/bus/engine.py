# SPDX-License-Identifier: Apache-2.0

"""One AMQP connection as the bus sees it: proton below, a behaviour above; no sockets.

Sans-I/O: bytes enter through :meth:`Engine.feed` and leave through :meth:`Engine.output`. Bus
thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cproton import (
    PN_LOCAL_ACTIVE,
    PN_REMOTE_UNINIT,
    isnull,
    pn_collector_peek,
    pn_collector_pop,
    pn_connection_state,
    pn_event_type,
    pn_session_head,
    pn_session_next,
    pn_transport_capacity,
    pn_transport_close_head,
    pn_transport_close_tail,
    pn_transport_peek,
    pn_transport_pending,
    pn_transport_pop,
    pn_transport_push,
    pn_transport_tick,
)
from proton import Collector, Condition, Connection, Transport

from .behaviour import Behaviour
from .counters import Counters
from .endpoints import Endpoints
from .links import Link

ANONYMOUS_RELAY = "ANONYMOUS-RELAY"
#: Limit of unsent message bytes: the engine answers flow echo requests only up to this limit.
MUCH = 65536
#: Maximum number of sessions per connection (2.7.1, channel-max).
MAX_SESSIONS = 4096


class Engine:
    """The AMQP protocol engine of one connection.

    :param idle_timeout: seconds that the engine enforces; proton advertises half of it
    :param touched: called whenever the connection may have something to send
    :param user: name from SASL PLAIN, if any
    """

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
        user: str | None = None,
    ) -> None:
        self._touch = touched
        self._connection = Connection()
        self._connection.container = container
        if behaviour.product is not None:
            self._connection.offered_capabilities = [ANONYMOUS_RELAY]
            self._connection.properties = {"product": behaviour.product, "version": version}
        self._collector = Collector()
        self._connection.collect(self._collector)
        self._transport = Transport(Transport.SERVER)
        self._transport.max_frame_size = behaviour.max_frame
        self._transport.channel_max = MAX_SESSIONS - 1
        # proton advertises half of the time-out that it enforces, as the routers do
        self._transport.idle_timeout = idle_timeout
        if trace:
            self._transport.trace(Transport.TRACE_FRM)
        self._transport.bind(self._connection)
        self._pn = self._transport._impl
        self._endpoints = Endpoints(behaviour, counters, touched)
        self._endpoints.user = user
        self._endpoints.close = self.close
        self._dead = False
        #: Bytes already taken from proton that go out before all other output.
        self._staged = bytearray()

    # -- bytes ---------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take input from the peer and process it."""
        echoes = self._endpoints.echoes
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
        if echoes.asked and not self._dead and self._endpoints.unsent <= MUCH:
            self._staged += echoes.answer(self._sessions(), self._pull)
            self._touch()

    def _sessions(self) -> list[Any]:
        found, session = [], pn_session_head(self._connection._impl, 0)
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
        self._endpoints.echoes.sending(data)
        return data

    def sent(self, size: int) -> None:
        """Remove the first ``size`` bytes of the output, which the socket has taken."""
        staged = min(size, len(self._staged))
        del self._staged[:staged]
        pn_transport_pop(self._pn, size - staged)
        if self._endpoints.congested:
            self._endpoints.relieve()

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
        return not pn_connection_state(self._connection._impl) & PN_REMOTE_UNINIT

    @property
    def unsent(self) -> int:
        """Return the number of message bytes in proton that the peer has not read."""
        return self._endpoints.unsent

    @property
    def remote_container(self) -> str | None:
        """Return the container id from the peer's Open."""
        name: str | None = self._connection.remote_container
        return name

    @property
    def remote_hostname(self) -> str | None:
        """Return the hostname from the peer's Open: the virtual host that the peer wants."""
        name: str | None = self._connection.remote_hostname
        return name

    @property
    def links(self) -> list[Link]:
        """Return the attached links."""
        return self._endpoints.links

    def close(self, condition: str, description: str) -> None:
        """Begin a clean close with an error condition; remove all links at once."""
        self._endpoints.close = None
        self._endpoints.give_up_all()
        self._connection.condition = Condition(condition, description)
        if pn_connection_state(self._connection._impl) & PN_LOCAL_ACTIVE:
            self._connection.close()
        else:
            pn_transport_close_head(self._pn)
        self._touch()

    def lost(self) -> None:
        """Remove all links after the loss of the socket; do not touch proton again.

        Dropping the references frees proton's memory (messages included) at once. The garbage
        collector would come late because it does not see how large these objects are.
        """
        if not self._dead:
            self._dead = True
            try:
                self._endpoints.give_up_all()
            finally:
                self._endpoints.handlers.clear()
                self._endpoints.close = None
                del self._pn, self._transport, self._connection, self._collector

    # -- proton's events -----------------------------------------------------

    def process(self) -> None:
        """Handle all pending events of proton."""
        collector = self._collector._impl
        handlers = self._endpoints.handlers
        while not self._dead:
            event = pn_collector_peek(collector)
            if isnull(event):
                return
            handler = handlers.get(pn_event_type(event))
            if handler is not None:
                handler(event)
            pn_collector_pop(collector)
