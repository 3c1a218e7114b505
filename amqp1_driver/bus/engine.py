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

from cproton import (
    PN_LOCAL_ACTIVE,
    isnull,
    pn_collector_peek,
    pn_collector_pop,
    pn_connection_state,
    pn_event_type,
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
        # proton itself advertises half of what it enforces, as the routers do.
        self._transport.idle_timeout = idle_timeout
        if trace:
            self._transport.trace(Transport.TRACE_FRM)
        self._transport.bind(self._connection)
        self._pn = self._transport._impl
        self._endpoints = Endpoints(behaviour, counters, touched)
        self._endpoints.user = user
        self._endpoints.close = self.close
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
        return self._endpoints.links

    def close(self, condition: str, description: str) -> None:
        """Begin a clean close with an error condition; links are given up at once."""
        self._endpoints.close = None
        self._endpoints.give_up_all()
        self._connection.condition = Condition(condition, description)
        if pn_connection_state(self._connection._impl) & PN_LOCAL_ACTIVE:
            self._connection.close()
        else:
            pn_transport_close_head(self._pn)
        self._touch()

    def lost(self) -> None:
        """The socket has gone: links are given up, nothing of proton is touched again.

        Proton's memory (messages included) is freed by reference count: no waiting for the
        garbage collector, which does not see how large these objects are.
        """
        if not self._dead:
            self._dead = True
            self._endpoints.give_up_all()
            self._endpoints.handlers.clear()
            self._endpoints.close = None
            del self._pn, self._transport, self._connection, self._collector

    # -- proton's events -----------------------------------------------------

    def process(self) -> None:
        """Handle what proton has to say."""
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
