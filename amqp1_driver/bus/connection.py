# SPDX-License-Identifier: Apache-2.0

"""An accepted socket with its layers (TLS, WebSocket, SASL) below the engine; bus thread only."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
import struct
from typing import TYPE_CHECKING

from .engine import Engine
from .log import logger
from .sasl import SaslServer, State
from .timers import Alarm
from .tls import TlsServer

if TYPE_CHECKING:
    from .server import Server
    from .websocket import WebSocketServer

LOG = logger(__name__)

_CHUNK = 65536
#: Seconds from accept until the peer's Open, including TLS, WebSocket and SASL.
OPEN_TIME = 10.0
#: Limit of pending output in bytes. Above it, the bus stops reading from the peer.
PENDING_LIMIT = 1024 * 1024
#: Seconds for which the bus keeps reading from a refused or closed peer, so that our last bytes
#: reach the peer.
_LINGER = 1.0
_RESET = struct.pack("ii", 1, 0)


class SocketConnection:
    """A connection as a stack of layers; lives on the bus thread.

    From the bottom up: socket, TLS and WebSocket (both optional), SASL until it is done, then the
    engine.
    """

    def __init__(
        self,
        host: Server,
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
        #: The optional layers WebSocket and TLS, from the top down. The output of a layer goes to
        #: the layer below.
        self._layers = [x for x in (websocket, self._tls) if x is not None]
        self.sasl = SaslServer(host.users, None, host.behaviour.anonymous)
        self._out = bytearray()
        self._watched = (True, False)
        #: True once no more output will come; the connection shuts down after sending what is
        #: pending.
        self._finished = False
        self._lingering = False
        self._tick_alarm = Alarm(lambda when, tick: host.call_at(when, tick, self), self.pump)
        host.call_at(host.now() + OPEN_TIME, self._open_timer, self)

    def _open_timer(self) -> None:
        if not self._lingering and (self.engine is None or not self.engine.opened):
            LOG.warning(
                "The connection from %s is closed: no Open within %g s", self.peer, OPEN_TIME
            )
            self.close()

    # -- input ---------------------------------------------------------------

    def on_readable(self) -> None:
        """Read once from the socket and pass the bytes up the layers."""
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
        try:
            for layer in reversed(self._layers):
                data = layer.feed(data)
        except ssl.SSLError:
            # The output already contains the alert that gives the reason.
            self._finished = True
            return
        if data and self.engine is None:
            data = self._authenticate(data)
        if data and self.engine is not None:
            self.engine.feed(data)
        if self._websocket is not None and self._websocket.ended:
            self._finished = True
            if self.engine is not None:
                self.engine.end_of_input()

    def _authenticate(self, data: bytes) -> bytes:
        sasl = self.sasl
        if self._tls is not None:
            sasl.external = self._tls.subject
        rest = sasl.feed(data)
        if sasl.state is State.DONE:
            user = sasl.user if sasl.mechanism == "PLAIN" else None
            touched = functools.partial(self._host.touch, self)
            self.engine = self._host.new_engine(touched=touched, user=user)
        elif sasl.state is State.FAILED:
            self._host.behaviour.counters.auth_failures += 1
            self._finished = True
        return rest

    def _end_of_input(self) -> None:
        if self.engine is not None:
            self.engine.end_of_input()
            self.on_writable()
        self.close()

    # -- output --------------------------------------------------------------

    def pump(self) -> None:
        """Process pending events of the engine and send pending output."""
        if self.closed:
            return
        if self.engine is not None:
            self.engine.process()
            deadline = self.engine.tick(self._host.now())
            if deadline is not None:
                self._tick_alarm.set(deadline)
        self.on_writable()

    def _fill(self) -> None:
        """Pass pending output down the layers into the send buffer."""
        data = self._amqp_output()
        for layer in self._layers:
            if data:
                layer.wrap(data)
            elif self._finished:
                layer.close()
            data, layer.output = layer.output, bytearray()
        self._out += data

    def _amqp_output(self) -> bytearray:
        """Return the output of SASL or of the engine; empty once the engine has finished."""
        if self.sasl.output:
            plain, self.sasl.output = self.sasl.output, bytearray()
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

    def on_writable(self) -> None:
        """Send pending output, as much as the socket takes."""
        try:
            while not self.closed:
                if not self._out:
                    self._fill()
                if not self._out:
                    break
                del self._out[: self.sock.send(self._out)]
        except (BlockingIOError, InterruptedError):
            self._watch(self._pending <= PENDING_LIMIT, True)
            return
        except OSError:
            self.close()
            return
        self._watch(True, False)
        if self._finished and not self._lingering and not self.closed:
            self._linger()

    @property
    def _pending(self) -> int:
        """Return the number of bytes that wait for the peer to read them.

        The output in proton does not count: the connection fetches it only when its own buffer is
        empty.
        """
        return len(self._out) + sum(len(layer.output) for layer in self._layers)

    def _watch(self, reading: bool, writing: bool) -> None:
        if (reading, writing) != self._watched and not self.closed:
            self._watched = (reading, writing)
            self._host.watch(self, reading, writing)

    # -- the end -------------------------------------------------------------

    def _linger(self) -> None:
        """Shut down our side of the socket and wait up to a second for the peer to close its own.

        Closing at once with unread input would reset the connection. A reset could discard our last
        output (a SASL outcome, a TLS alert) before the peer reads it.
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
        self._host.call_at(self._host.now() + _LINGER, self.close, self)

    def close_cleanly(self, condition: str, description: str) -> None:
        """Close with an AMQP error; without an engine, close the socket at once.

        There is no engine before SASL is done, and none while the connection lingers.
        """
        if self.engine is None:
            self.close()
        else:
            self.engine.close(condition, description)

    def close(self, *, reset: bool = False) -> None:
        """Close the socket now; idempotent."""
        if self.closed:
            return
        self._close_socket(reset)
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.lost()

    def abandon(self) -> None:
        """Reset the connection after an exception in the bus itself; never raise an exception."""
        engine, self.engine = self.engine, None
        if not self.closed:
            self._close_socket(True)
        if engine is not None:
            try:
                engine.lost()
            except Exception:
                LOG.exception("The links of %s could not be given up", self.peer)

    def _close_socket(self, reset: bool) -> None:
        self.closed = True
        self._host.forget(self)
        if reset:
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.sock.close()
