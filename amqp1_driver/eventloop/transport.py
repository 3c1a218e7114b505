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

"""One connection's byte stream: name lookup, TCP, TLS, reading and writing."""

import enum
import functools
import ssl
from typing import TYPE_CHECKING, Protocol

from amqp1_driver.eventloop import resolver
from amqp1_driver.eventloop.connector import Connector, format_address
from amqp1_driver.eventloop.errors import (
    ConnectError,
    Disconnected,
    TlsError,
    describe,
    join_host_port,
)
from amqp1_driver.eventloop.loop import EventLoop
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.eventloop.tls import TlsEngine, TlsParameters, make_context
from amqp1_driver.eventloop.tunnel import ProxyParameters, Tunnel, TunnelError

if TYPE_CHECKING:
    import socket

_RECEIVE_SIZE = 256 * 1024
# Full buffers read in a row before others have their turn.
_RECEIVE_ROUNDS = 4
# Plaintext encrypted at a time; as much may be held encrypted and unsent.
_TLS_CHUNK = 256 * 1024

_Prepared = tuple[list[resolver.AddrInfo], ssl.SSLContext | None]


class TransportHandler(Protocol):
    """What a transport tells and asks its owner, on the loop thread."""

    def connected(self, description: str) -> None:
        """TCP, and TLS if asked for, are up; ``description`` is for logs."""

    def data_received(self, data: bytes) -> None:
        """The peer sent this, never empty."""

    def pending_output(self) -> "memoryview | bytes | None":
        """What is to be sent next, None or empty without anything. Not consumed yet."""

    def output_written(self, n: int) -> None:
        """The first ``n`` bytes of pending_output() have been taken."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, exactly once. None: close() was called.

        Otherwise ConnectError, TlsError, Disconnected, or LoopClosed as the loop ended.
        """


class State(enum.Enum):
    """Where a transport is; it only ever moves forward."""

    NEW = "not started"
    RESOLVING = "looking up the host name"
    CONNECTING = "connecting"
    TUNNEL = "waiting for the proxy"
    HANDSHAKE = "waiting for the TLS handshake"
    OPEN = "open"
    CLOSED = "closed"


class Transport:
    """A TCP or TLS connection to a host. Lives on the loop thread.

    The handler may call flush() and close() from any of its callbacks; close() calls
    connection_lost() before it returns. After connection_lost() the handler hears nothing.
    """

    def __init__(
        self,
        loop: EventLoop,
        handler: TransportHandler,
        host: str,
        port: int,
        *,
        tls: TlsParameters | None = None,
        proxy: ProxyParameters | None = None,
        timeout: float,
    ) -> None:
        """``timeout``: seconds for everything until connected() is called. ``proxy``: the way
        to the host, whose name then only the proxy looks up."""
        self._loop = loop
        self._handler = handler
        self._host = host
        self._port = port
        self._tls = tls
        self._proxy = proxy
        self._tunnel: Tunnel | None = None
        self._timeout = timeout
        self._state = State.NEW
        self._deadline = 0.0
        self._timer: Timer | None = None
        self._connector: Connector | None = None
        self._context: ssl.SSLContext | None = None
        self._socket: socket.socket | None = None
        self._fd = -1
        self._description = ""
        self._engine: TlsEngine | None = None
        self._backlog = memoryview(b"")  # encrypted, unsent
        self._blocked = False  # the socket takes no more for now
        self._flushing = False
        self._send_error: OSError | None = None
        self._buffer = memoryview(b"")

    @property
    def state(self) -> State:
        """Where this transport is."""
        return self._state

    # -- the owner's calls -----------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect; connected() or connection_lost() follows, never from in here."""
        self._loop.assert_in_loop()
        assert self._state is State.NEW
        self._state = State.RESOLVING
        self._loop.attach(self)
        self._deadline = self._loop.now() + self._timeout
        self._timer = self._loop.call_at(self._deadline, self._on_timeout)
        next_hop = (self._host, self._port)
        if self._proxy is not None:
            next_hop = (self._proxy.host, self._proxy.port)
        work = functools.partial(_prepare, *next_hop, self._tls)
        try:
            resolver.offload(work, functools.partial(self._loop.post, self._on_prepared))
        except RuntimeError as exc:  # out of threads
            error = ConnectError(self._host, self._port, describe(exc))
            self._loop.call_later(0, functools.partial(self._end, error))

    def flush(self) -> None:
        """Send what the handler has, as far as the socket takes it; the rest follows by itself.

        To be called when there is new output, such as before the loop sleeps.
        """
        if self._state is not State.OPEN or self._blocked or self._flushing:
            return
        self._flushing = True
        try:
            if self._engine is not None:
                self._flush_tls(self._engine)
                return
            while data := self._handler.pending_output():
                size = len(data)
                n = self._send(data)
                del data  # a view: the handler cannot change its buffer as long as it exists
                if n:
                    self._handler.output_written(n)
                if n < size:
                    self._block()
                if self._blocked or self.state is not State.OPEN:
                    return
        finally:
            self._flushing = False

    def close(self) -> None:
        """Send what the socket takes at once, and TLS's farewell, then close. Idempotent."""
        self._loop.assert_in_loop()
        self.flush()
        if self._state is State.OPEN and self._engine is not None:
            self._engine.close_notify()
            self._send_backlog(self._engine)
        self._end(None)

    # -- the loop's calls ------------------------------------------------------------------

    def loop_closed(self, exc: Exception) -> None:
        """The loop ends."""
        self._end(exc)

    def abandon(self) -> None:
        """This is the child of a fork: the connection belongs to the parent."""
        self._state = State.CLOSED
        if self._connector is not None:
            self._connector.abandon()
        if self._socket is not None:
            self._socket.close()

    # -- connecting ------------------------------------------------------------------------

    def _on_timeout(self) -> None:
        self._timer = None
        failures = list(self._connector.failures) if self._connector else []
        stage = self._state.value
        if self._state is State.CONNECTING and self._connector is not None:
            stage += f" to {self._connector.address}"
        reason = f"not connected within {self._timeout:g} s: timed out {stage}"
        self._end(ConnectError(self._host, self._port, reason, failures))

    def _on_prepared(self, result: "_Prepared | Exception") -> None:
        if self._state is not State.RESOLVING:
            return  # too late
        if isinstance(result, TlsError):
            self._end(result.at(self._host, self._port))
        elif isinstance(result, Exception):
            reason = f"the host name does not resolve: {describe(result)}"
            if self._proxy is not None:
                reason = f"the name of proxy {self._proxy} does not resolve: {describe(result)}"
            error = ConnectError(self._host, self._port, reason)
            error.__cause__ = result
            self._end(error)
        else:
            addresses, self._context = result
            self._state = State.CONNECTING
            self._connector = Connector(
                self._loop, self._host, self._port, addresses, self._deadline, self._on_socket
            )
            self._connector.start()

    def _on_socket(self, result: "socket.socket | ConnectError") -> None:
        connector, self._connector = self._connector, None
        assert connector is not None
        if isinstance(result, ConnectError):
            if self._proxy is not None:
                reason = f"{result.reason} to proxy {self._proxy}"
                result = ConnectError(self._host, self._port, reason, result.failures)
            self._end(result)
            return
        # Asked for now: a peer that hangs up during the handshake has no address any more.
        self._description = (
            f"{join_host_port(self._host, self._port)} at {connector.address}"
            f" from {format_address(result.getsockname())}"
        )
        self._socket = result
        self._fd = result.fileno()
        self._loop.register(self._fd, self._on_readable, self._on_writable)
        self._buffer = memoryview(bytearray(_RECEIVE_SIZE))
        if self._proxy is not None:
            self._ask_proxy(self._proxy)
        else:
            self._secure()

    def _ask_proxy(self, proxy: ProxyParameters) -> None:
        self._state = State.TUNNEL
        try:
            self._tunnel = Tunnel(proxy, self._host, self._port)
        except TunnelError as exc:
            self._end(ConnectError(self._host, self._port, str(exc)))
            return
        self._description += f" through proxy {proxy}"
        self._send(self._tunnel.request)  # a new socket takes so little at once

    def _receive_tunnel(self, tunnel: Tunnel, data: memoryview) -> None:
        try:
            rest = tunnel.feed(bytes(data))
        except TunnelError as exc:
            self._end(ConnectError(self._host, self._port, str(exc)))
            return
        if not tunnel.established:
            return
        self._tunnel = None
        self._secure()
        if rest and self._engine is not None:
            self._receive_tls(self._engine, memoryview(rest))
        elif rest and self._state is State.OPEN:
            self._handler.data_received(rest)

    def _secure(self) -> None:
        """The stream to the host stands: TLS next, if asked for."""
        if self._context is None or self._tls is None:
            self._established()
            return
        self._state = State.HANDSHAKE
        try:
            self._engine = TlsEngine(self._context, self._tls.server_name or self._host)
            self._engine.start()
        except TlsError as exc:
            self._end(exc.at(self._host, self._port))
            return
        self._send_backlog(self._engine)

    def _established(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._context = None
        self._state = State.OPEN
        if self._engine is not None:
            self._description += f" over {self._engine.describe()}"
        self._handler.connected(self._description)
        self.flush()

    # -- reading ---------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._receive() < _RECEIVE_SIZE:
            return
        for _ in range(1, _RECEIVE_ROUNDS):
            if self._receive() < _RECEIVE_SIZE:
                return

    def _receive(self) -> int:
        """Read once and pass it on; how much it was, 0 if nothing more can come now."""
        sock = self._socket
        if sock is None:
            return 0
        try:
            n = sock.recv_into(self._buffer)
        except BlockingIOError:
            return 0
        except OSError as exc:
            self._broken(exc)
            return 0
        if n == 0:
            self._eof()
        elif self._tunnel is not None:
            self._receive_tunnel(self._tunnel, self._buffer[:n])
        elif self._engine is None:
            self._handler.data_received(bytes(self._buffer[:n]))
        else:
            self._receive_tls(self._engine, self._buffer[:n])
        return n

    def _receive_tls(self, engine: TlsEngine, data: memoryview) -> None:
        try:
            plaintext = engine.feed(data)
        except TlsError as exc:
            self._tls_failed(engine, exc)
            return
        self._send_backlog(engine)
        if self._state is State.HANDSHAKE and engine.established:
            self._established()
        if plaintext and self._state is State.OPEN:
            self._handler.data_received(plaintext)
        if engine.error is not None:
            self._tls_failed(engine, engine.error)
        elif engine.closed:
            self._eof()

    def _eof(self) -> None:
        if self._tunnel is not None:
            self._end(ConnectError(self._host, self._port, str(self._tunnel.feed_eof())))
        elif self._state is State.HANDSHAKE:
            error = TlsError("the peer closed the connection during the handshake")
            self._end(error.at(self._host, self._port))
        else:
            self._end(Disconnected(self._host, self._port, "the peer closed the connection"))

    # -- writing ---------------------------------------------------------------------------

    def _on_writable(self) -> None:
        self._blocked = False
        if self._engine is not None:
            self._send_backlog(self._engine)
        self.flush()
        if self._socket is not None and not self._blocked:
            self._loop.set_writable(self._fd, False)

    def _flush_tls(self, engine: TlsEngine) -> None:
        while self._state is State.OPEN and not self._blocked:
            data = self._handler.pending_output()
            if not data:
                return
            try:
                n = engine.wrap(data[:_TLS_CHUNK])
            except TlsError as exc:
                self._tls_failed(engine, exc)
                return
            del data
            if n == 0:
                return  # goes on with the next input
            self._handler.output_written(n)
            self._send_backlog(engine)

    def _send_backlog(self, engine: TlsEngine) -> None:
        """Send what TLS has for the peer, as far as the socket takes it."""
        output = engine.take_output()
        if output:
            self._backlog = memoryview(bytes(self._backlog) + output)
        if self._backlog and not self._blocked:
            self._backlog = self._backlog[self._send(self._backlog) :]
            if self._backlog:
                self._block()

    def _send(self, data: "memoryview | bytes") -> int:
        if self._socket is None or self._send_error is not None:
            return 0
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as exc:
            # What the peer said before it went, such as AMQP's reason for closing, is still
            # in the socket and tells more than this error. Not read here: this may be within
            # a callback that has not passed on what was read before.
            # Without its traceback, which would keep ``data`` and so the handler's buffer.
            self._send_error = exc.with_traceback(None)
            self._loop.call_later(0, self._read_last)
            return 0

    def _read_last(self) -> None:
        """Sending has failed: read what is left, then end."""
        while self._receive():
            pass
        if self._send_error is not None:
            self._broken(self._send_error)

    def _block(self) -> None:
        if self._socket is not None and not self._blocked:
            self._blocked = True
            self._loop.set_writable(self._fd, True)

    # -- the end ---------------------------------------------------------------------------

    def _broken(self, exc: OSError) -> None:
        if self._tunnel is not None:
            reason = f"connection to proxy {self._proxy} lost: {describe(exc)}"
            self._end(ConnectError(self._host, self._port, reason))
            return
        if self._state is State.HANDSHAKE:
            reason = f"the peer broke off the handshake ({describe(exc)}); is this a clear port?"
            self._end(TlsError(reason).at(self._host, self._port))
            return
        error = Disconnected(self._host, self._port, f"connection lost: {describe(exc)}")
        error.__cause__ = exc
        self._end(error)

    def _tls_failed(self, engine: TlsEngine, exc: TlsError) -> None:
        self._blocked = True  # no way back into here through a send that fails
        self._backlog = memoryview(bytes(self._backlog) + engine.take_output())
        if self._socket is not None:
            try:
                self._socket.send(self._backlog)  # the alert, so that the peer knows why
            except OSError:
                pass
        self._end(exc.at(self._host, self._port))

    def _end(self, exc: Exception | None) -> None:
        if self._state is State.CLOSED:
            return
        self._state = State.CLOSED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connector is not None:
            self._connector.abort()
            self._connector = None
        if self._socket is not None:
            self._loop.unregister(self._fd)
            self._socket.close()
            self._socket = None
        self._engine = None
        self._buffer = self._backlog = memoryview(b"")
        self._loop.detach(self)
        self._handler.connection_lost(exc)


def _prepare(host: str, port: int, tls: TlsParameters | None) -> _Prepared:
    """All that may block. Runs on a thread of its own."""
    context = make_context(tls) if tls is not None else None
    return resolver.lookup(host, port), context
