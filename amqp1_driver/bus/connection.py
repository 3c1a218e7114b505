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

"""One accepted socket: bytes through TLS and SASL to the AMQP engine and back; bus thread only."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from .counters import Counters
from .engine import Engine
from .sasl import SaslServer, State
from .tls import TlsServer

if TYPE_CHECKING:
    from .websocket import WebSocketServer

_CHUNK = 65536
#: How long (seconds) a refused or closed peer is read on, so that our last bytes reach it.
_LINGER = 1.0
_RESET = struct.pack("ii", 1, 0)


class Host(Protocol):
    """What a connection needs of the server that owns it."""

    counters: Counters
    users: Mapping[str, str]
    #: SASL mechanisms without a name, offered besides PLAIN.
    anonymous: tuple[str, ...]

    def new_engine(self, touched: Callable[[], None], user: str | None) -> Engine: ...
    def now(self) -> float: ...
    def call_at(self, when: float, function: Callable[[], None]) -> Any: ...
    def touch(self, connection: SocketConnection) -> None: ...
    def watch_writable(self, connection: SocketConnection, wanted: bool) -> None: ...
    def forget(self, connection: SocketConnection) -> None: ...


class SocketConnection:
    """Layers, bottom up: socket, TLS and WebSocket (both optional), SASL (until it is done),
    engine (from then)."""

    def __init__(
        self,
        host: Host,
        sock: socket.socket,
        peer: str,
        context: ssl.SSLContext | None,
        websocket: WebSocketServer | None = None,
    ) -> None:
        self.sock = sock
        self.peer = peer
        self.engine: Engine | None = None
        self.closed = False
        self._host = host
        self._tls = TlsServer(context) if context is not None else None
        self._websocket = websocket
        self._sasl: SaslServer | None = None
        self._out = bytearray()
        self._writable_wanted = False
        #: No more output will come: shut down once all is sent.
        self._finished = False
        self._lingering = False
        self._tick_due: float | None = None
        if self._tls is None:
            self._sasl = SaslServer(host.users, None, host.anonymous)

    @property
    def user(self) -> str | None:
        """Authenticated name."""
        return self._sasl.user if self._sasl is not None else None

    @property
    def mechanism(self) -> str | None:
        """SASL mechanism, None without SASL."""
        return self._sasl.mechanism if self._sasl is not None else None

    # -- input ---------------------------------------------------------------

    def on_readable(self) -> None:
        """Read once and pass it up."""
        try:
            data = self.sock.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not data:
            self._end_of_input()
        elif not self._lingering:
            self._input(data)
            self._host.touch(self)

    def _input(self, data: bytes) -> None:
        if self._tls is not None:
            try:
                data = self._tls.feed(data)
            except ssl.SSLError:
                # The alert that says why is in the output already.
                self._finished = True
                return
            if self._sasl is None and self._tls.established:
                self._sasl = SaslServer(
                    self._host.users, self._tls.subject, self._host.anonymous
                )
        if data and self._websocket is not None:
            data = self._websocket.feed(data)
        if data and self.engine is None and self._sasl is not None:
            data = self._authenticate(self._sasl, data)
        if data and self.engine is not None:
            self.engine.feed(data)
        if self._websocket is not None and self._websocket.ended:
            self._finished = True
            if self.engine is not None:
                self.engine.end_of_input()

    def _authenticate(self, sasl: SaslServer, data: bytes) -> bytes:
        rest = sasl.feed(data)
        if sasl.state is State.DONE:
            user = sasl.user if sasl.mechanism == "PLAIN" else None
            self.engine = self._host.new_engine(lambda: self._host.touch(self), user)
        elif sasl.state is State.FAILED:
            self._host.counters.auth_failures += 1
            self._finished = True
        return rest

    def _end_of_input(self) -> None:
        if self.engine is not None and not self._lingering:
            self.engine.end_of_input()
            self._send()
        self.close()

    # -- output --------------------------------------------------------------

    def pump(self) -> None:
        """Handle what is left to handle and send what can be sent."""
        if self.closed:
            return
        if self.engine is not None and not self._lingering:
            self.engine.process()
            self._tick()
        self._send()

    def on_writable(self) -> None:
        """The socket takes bytes again."""
        self._send()

    def _tick(self) -> None:
        assert self.engine is not None
        deadline = self.engine.tick(self._host.now())
        if deadline is not None and (self._tick_due is None or deadline < self._tick_due):
            self._tick_due = deadline
            self._host.call_at(deadline, lambda: self._tick_timer(deadline))

    def _tick_timer(self, deadline: float) -> None:
        if self._tick_due == deadline:
            self._tick_due = None
            self.pump()

    def _fill(self) -> None:
        """Move pending output of the layers into the buffer."""
        plain = self._amqp_output()
        if self._websocket is not None:
            plain = self._framed(self._websocket, plain)
        if self._tls is None:
            self._out += plain
            return
        if plain:
            self._tls.wrap(plain)
        if self._finished and not self._tls.output and not self._lingering:
            self._tls.close()
        self._out += self._tls.output
        self._tls.output.clear()

    def _amqp_output(self) -> bytearray:
        """What SASL or the engine has to say; nothing once it has finished."""
        if self._sasl is not None and self._sasl.output:
            plain = self._sasl.output
            self._sasl.output = bytearray()
            return plain
        if self.engine is None or self._finished:
            return bytearray()
        output = self.engine.output()
        if output is None:
            self._finished = True
            return bytearray()
        if output:
            self.engine.sent(len(output))
        return output

    def _framed(self, websocket: WebSocketServer, plain: bytearray) -> bytearray:
        """The same as WebSocket messages, and what the WebSocket itself has to say."""
        if plain:
            websocket.wrap(plain)
        elif self._finished:
            websocket.close()
        framed = websocket.output
        websocket.output = bytearray()
        return framed

    def _send(self) -> None:
        try:
            while not self.closed:
                if not self._out:
                    self._fill()
                if not self._out:
                    break
                del self._out[: self.sock.send(self._out)]
        except (BlockingIOError, InterruptedError):
            self._want_writable(True)
            return
        except OSError:
            self.close()
            return
        self._want_writable(False)
        if self._finished and not self._lingering and not self.closed:
            self._linger()

    def _want_writable(self, wanted: bool) -> None:
        if wanted != self._writable_wanted and not self.closed:
            self._writable_wanted = wanted
            self._host.watch_writable(self, wanted)

    # -- the end -------------------------------------------------------------

    def _linger(self) -> None:
        """All is said: close our side, wait a little for the peer to close its own.

        Closing at once with unread input would reset the connection and could take our last
        words (a SASL outcome, a TLS alert) away from the peer.
        """
        self._lingering = True
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.lost()
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self._host.call_at(self._host.now() + _LINGER, self.close)

    def close_cleanly(self, condition: str, description: str) -> None:
        """Close with an AMQP error; a peer that is not yet known is simply dropped."""
        if self.engine is None:
            self.close()
        elif not self._lingering:
            self.engine.close(condition, description)

    def close(self, *, reset: bool = False) -> None:
        """Close the socket now; idempotent."""
        if self.closed:
            return
        self.closed = True
        self._host.forget(self)
        if reset:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.sock.close()
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.lost()
