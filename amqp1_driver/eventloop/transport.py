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

"""One connection's byte stream: made, read and written, over TLS if asked for, and ended."""

import enum
import ssl
from typing import TYPE_CHECKING

from amqp1_driver.eventloop.approach import Approach, Arrival
from amqp1_driver.eventloop.errors import ConnectError, Disconnected, TlsError, describe
from amqp1_driver.eventloop.handler import TransportHandler
from amqp1_driver.eventloop.loop import EventLoop
from amqp1_driver.eventloop.outlet import Outlet, TlsOutlet
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.eventloop.tls import TlsEngine, TlsParameters
from amqp1_driver.eventloop.tunnel import ProxyParameters

if TYPE_CHECKING:
    import socket

_RECEIVE_SIZE = 256 * 1024
# Full buffers read in a row before others have their turn.
_RECEIVE_ROUNDS = 4


class State(enum.Enum):
    """Where a transport is; it only ever moves forward."""

    NEW = "not started"
    APPROACH = "on the way to the host"
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
        self._timeout = timeout
        self._state = State.NEW
        self._timer: Timer | None = None
        self._approach: Approach | None = None
        self._socket: socket.socket | None = None
        self._fd = -1
        self._description = ""
        self._outlet: Outlet | None = None
        self._secured: TlsOutlet | None = None
        self._flushing = False
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
        self._state = State.APPROACH
        self._loop.attach(self)
        deadline = self._loop.now() + self._timeout
        self._timer = self._loop.call_at(deadline, self._on_timeout)
        self._approach = Approach(
            self._loop, self._host, self._port, self._tls, self._proxy, deadline, self._on_arrival
        )
        self._approach.start()

    def flush(self) -> None:
        """Send what the handler has, as far as the socket takes it; the rest follows by itself.

        To be called when there is new output, such as before the loop sleeps.
        """
        outlet = self._outlet
        if self._state is not State.OPEN or self._flushing or outlet is None:
            return
        self._flushing = True
        try:
            if self._secured is not None:
                self._secured.flush()
                return
            while not outlet.blocked and (data := self._handler.pending_output()):
                size = len(data)
                n = outlet.send(data)
                del data  # a view: the handler cannot change its buffer as long as it exists
                if n:
                    self._handler.output_written(n)
                if n < size:
                    outlet.block()
        except TlsError as exc:
            self._tls_failed(exc)
        finally:
            self._flushing = False

    def close(self) -> None:
        """Send what the socket takes at once, and TLS's farewell, then close. Idempotent."""
        self._loop.assert_in_loop()
        self.flush()
        if self._state is State.OPEN and self._secured is not None:
            self._secured.send_farewell()
        self._end(None)

    # -- the loop's calls ------------------------------------------------------------------

    def loop_closed(self, exc: Exception) -> None:
        """The loop ends."""
        self._end(exc)

    def abandon(self) -> None:
        """This is the child of a fork: the connection belongs to the parent."""
        self._state = State.CLOSED
        if self._approach is not None:
            self._approach.abandon()
        if self._socket is not None:
            self._socket.close()

    # -- connecting ------------------------------------------------------------------------

    def _on_timeout(self) -> None:
        self._timer = None
        approach = self._approach
        doing = approach.doing if approach is not None else self._state.value
        reason = f"not connected within {self._timeout:g} s: timed out {doing}"
        failures = approach.failures if approach is not None else []
        self._end(ConnectError(self._host, self._port, reason, failures))

    def _on_arrival(self, arrival: Arrival | ConnectError | TlsError) -> None:
        self._approach = None
        if not isinstance(arrival, Arrival):
            self._end(arrival)
            return
        self._description = arrival.description
        self._socket = arrival.sock
        self._fd = arrival.sock.fileno()
        self._loop.register(self._fd, self._on_readable, self._on_writable)
        self._outlet = Outlet(self._loop, arrival.sock, self._read_last)
        self._buffer = memoryview(bytearray(_RECEIVE_SIZE))
        if arrival.context is None or self._tls is None:
            self._established()
        else:
            self._secure(arrival.context, self._tls, self._outlet)
        if arrival.rest and self._secured is not None:
            self._receive_tls(self._secured, memoryview(arrival.rest))
        elif arrival.rest and self._state is State.OPEN:
            self._handler.data_received(arrival.rest)

    def _secure(self, context: ssl.SSLContext, tls: TlsParameters, outlet: Outlet) -> None:
        """Begin with TLS."""
        self._state = State.HANDSHAKE
        try:
            engine = TlsEngine(context, tls.server_name or self._host)
            engine.start()
        except TlsError as exc:
            self._end(exc.at(self._host, self._port))
            return
        self._secured = TlsOutlet(outlet, engine, self._handler)
        self._secured.send_backlog()

    def _established(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._state = State.OPEN
        if self._secured is not None:
            self._description += f" over {self._secured.engine.describe()}"
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
        elif self._secured is None:
            self._handler.data_received(bytes(self._buffer[:n]))
        else:
            self._receive_tls(self._secured, self._buffer[:n])
        return n

    def _receive_tls(self, secured: TlsOutlet, data: memoryview) -> None:
        engine = secured.engine
        try:
            plaintext = engine.feed(data)
        except TlsError as exc:
            self._tls_failed(exc)
            return
        secured.send_backlog()
        if self._state is State.HANDSHAKE and engine.established:
            self._established()
        if plaintext and self._state is State.OPEN:
            self._handler.data_received(plaintext)
        if engine.error is not None:
            self._tls_failed(engine.error)
        elif engine.closed:
            self._eof()

    def _read_last(self) -> None:
        """Sending has failed: read what is left, then end."""
        while self._receive():
            pass
        if self._outlet is not None and self._outlet.error is not None:
            self._broken(self._outlet.error)

    def _eof(self) -> None:
        if self._state is State.HANDSHAKE:
            error = TlsError("the peer closed the connection during the handshake")
            self._end(error.at(self._host, self._port))
        else:
            self._end(Disconnected(self._host, self._port, "the peer closed the connection"))

    # -- writing ---------------------------------------------------------------------------

    def _on_writable(self) -> None:
        outlet = self._outlet
        assert outlet is not None
        outlet.blocked = False
        if self._secured is not None:
            self._secured.send_backlog()
        self.flush()
        outlet.flushed()

    # -- the end ---------------------------------------------------------------------------

    def _broken(self, exc: OSError) -> None:
        if self._state is State.HANDSHAKE:
            reason = f"the peer broke off the handshake ({describe(exc)}); is this a clear port?"
            self._end(TlsError(reason).at(self._host, self._port))
            return
        error = Disconnected(self._host, self._port, f"connection lost: {describe(exc)}")
        error.__cause__ = exc
        self._end(error)

    def _tls_failed(self, exc: TlsError) -> None:
        if self._secured is not None:
            self._secured.send_alert()
        self._end(exc.at(self._host, self._port))

    def _end(self, exc: Exception | None) -> None:
        if self._state is State.CLOSED:
            return
        self._state = State.CLOSED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._approach is not None:
            self._approach.abort()
            self._approach = None
        if self._socket is not None:
            self._loop.unregister(self._fd)
            self._socket.close()
            self._socket = None
        if self._outlet is not None:
            self._outlet.close()
        self._secured = None
        self._buffer = memoryview(b"")
        self._loop.detach(self)
        self._handler.connection_lost(exc)
