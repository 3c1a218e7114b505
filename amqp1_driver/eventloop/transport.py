# SPDX-License-Identifier: Apache-2.0

"""The byte stream of one connection over TCP, with TLS or without; loop thread."""

import enum
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from amqp1_driver import exceptions
from amqp1_driver.eventloop.dial import Arrival, Dial
from amqp1_driver.eventloop.errors import (
    ConnectError,
    Disconnected,
    TlsError,
    describe,
    join_host_port,
)
from amqp1_driver.eventloop.guard import Guard
from amqp1_driver.eventloop.loop import EventLoop
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.eventloop.tls import TlsEngine, TlsParameters
from amqp1_driver.eventloop.tunnel import ProxyParameters
from amqp1_driver.exceptions import printable

if TYPE_CHECKING:
    import socket

LOG = exceptions.logger(__name__)

_RECEIVE_SIZE = 256 * 1024
# Number of full buffers that a transport reads in a row before other connections have their turn.
_RECEIVE_ROUNDS = 4
# Bytes of plaintext that are encrypted at a time; the result of one such step may wait unsent.
_TLS_CHUNK = 256 * 1024


class ByteStream(Protocol):
    """The engine behind a transport, which takes the input and makes the output."""

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer; ``data`` is never empty."""

    def output(self) -> "memoryview | bytes | None":
        """Return the next output without consuming it; None or empty if there is none."""

    def output_written(self, n: int) -> bool:
        """Consume the first ``n`` bytes of output(), which the transport has taken.

        :returns: False if there is certainly no further output at present
        """


class TransportHandler(Protocol):
    """An owner of a transport. The transport calls these methods on the loop thread."""

    def connected(self, description: str) -> None:
        """Begin to use the byte stream: TCP is up, and TLS if the owner asked for TLS.

        :param description: for logs
        """

    def data_received(self, data: bytes) -> None:
        """Take bytes from the peer; ``data`` is never empty."""

    def pending_output(self) -> "memoryview | bytes | None":
        """Return the next output without consuming it; None or empty if there is none."""

    def output_written(self, n: int) -> None:
        """Consume the first ``n`` bytes of pending_output(), which the transport has taken."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection. The transport calls this exactly once.

        :param exc: None after close(); otherwise ConnectError, TlsError, Disconnected, or
            LoopClosed if the loop has ended
        """


class Writer:
    """The sending side of a socket. Lives on the loop thread.

    :param sock: a socket that the loop watches already
    :param failed: called once after sending has failed, never from within a method of this class
    """

    def __init__(self, loop: Guard, sock: "socket.socket", failed: Callable[[], object]) -> None:
        self._loop = loop
        self._socket: socket.socket | None = sock
        self._fd = sock.fileno()
        self._failed = failed
        #: True while the socket takes no more data, and for good after send_last() or close().
        self.blocked = False
        #: The error with which sending has failed; None if it has not failed.
        self.error: OSError | None = None

    def send(self, data: memoryview | bytes) -> int:
        """Send as many bytes as the socket takes at once.

        :returns: the number of bytes; 0 if the socket is full, closed or has failed
        """
        if self._socket is None or self.error is not None:
            return 0
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as exc:
            # The peer's last bytes, such as AMQP's reason for closing, are still in the socket
            # and say more than this error. The owner reads them later, in ``failed``: now it may be
            # in a callback that has not yet passed on the bytes read before.
            # The traceback is dropped, as it would keep ``data`` and so the handler's buffer.
            self.error = exc.with_traceback(None)
            self._loop.call_later(0, self._failed)
            return 0

    def send_last(self, data: memoryview | bytes) -> None:
        """Send as much of ``data`` as the socket takes at once, and nothing after that."""
        self.blocked = True
        if self._socket is not None:
            try:
                self._socket.send(data)
            except OSError:
                pass

    def block(self) -> None:
        """Stop sending until the socket takes data again; the loop watches for that."""
        if self._socket is not None and not self.blocked:
            self.blocked = True
            self._loop.set_writable(self._fd, True)

    def flushed(self) -> None:
        """Stop watching for writing after a flush, unless the socket is full again."""
        if self._socket is not None and not self.blocked:
            self._loop.set_writable(self._fd, False)

    def close(self) -> None:
        """Send nothing from here on; the socket itself stays open."""
        self.blocked = True
        self._socket = None


class TlsWriter:
    """A layer that encrypts output in front of a :class:`Writer`. Lives on the loop thread."""

    def __init__(self, outlet: Writer, engine: TlsEngine, handler: TransportHandler) -> None:
        self._outlet = outlet
        self.engine = engine
        self._handler = handler
        self._backlog = memoryview(b"")  # encrypted, unsent

    def flush(self) -> None:
        """Encrypt and send what the handler has, as far as the socket takes it.

        :raises TlsError: TLS has failed for good
        """
        while not self._outlet.blocked:
            data = self._handler.pending_output()
            if not data:
                return
            n = self.engine.wrap(data[:_TLS_CHUNK])
            del data  # the handler cannot change its buffer while this view exists
            if n == 0:
                return  # TLS needs input from the peer first
            self._handler.output_written(n)
            self.send_backlog()

    def send_backlog(self) -> None:
        """Send the encrypted bytes that wait, as far as the socket takes them."""
        output = self.engine.take_output()
        if output:
            self._backlog = memoryview(bytes(self._backlog) + output)
        if self._backlog and not self._outlet.blocked:
            self._backlog = self._backlog[self._outlet.send(self._backlog) :]
            if self._backlog:
                self._outlet.block()

    def send_close_notify(self) -> None:
        """Send TLS's close_notify: no more data follows."""
        self.engine.close_notify()
        self.send_backlog()

    def send_alert(self) -> None:
        """Send the last output of TLS, whose alert tells the peer why TLS has failed."""
        self._outlet.send_last(memoryview(bytes(self._backlog) + self.engine.take_output()))


class State(enum.Enum):
    """The states of a transport; a transport only moves forward."""

    NEW = "not started"
    APPROACH = "on the way to the host"
    HANDSHAKE = "waiting for the TLS handshake"
    OPEN = "open"
    CLOSED = "closed"


class Transport:
    """A TCP or TLS connection to a host. Lives on the loop thread.

    The handler may call flush() and close() from any of its callbacks; close() calls
    connection_lost() before it returns. After connection_lost() the transport calls the handler
    no more.

    An exception of a handler's callback, or of the transport itself, is logged and ends this
    connection with ConnectError or Disconnected. The exception never reaches the loop or the
    owner: ``guard`` is the only way from here to the loop, and flush() and close() catch
    exceptions themselves.

    :param proxy: an HTTP proxy that connects to the host; only the proxy looks up the host's name.
        None: no proxy
    :param timeout: seconds for everything until connected() is called
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
        self._loop = self.guard = Guard(loop, self._failed)
        self._handler = handler
        #: takes the input and makes the output in place of the handler
        self._stream: ByteStream | None = None
        self._host = host
        self._port = port
        self._tls = tls
        self._proxy = proxy
        self._timeout = timeout
        self._state = State.NEW
        self._timer: Timer | None = None
        self._approach: Dial | None = None
        self._socket: socket.socket | None = None
        self._fd = -1
        self._description = ""
        self._address = ""
        self._outlet: Writer | None = None
        self._tls_writer: TlsWriter | None = None
        self._flushing = False
        self._buffer = memoryview(b"")

    # -- the owner's calls -----------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect; connected() or connection_lost() follows, never from within start()."""
        self._loop.assert_in_loop()
        assert self._state is State.NEW
        self._state = State.APPROACH
        try:
            self._loop.attach(self)
            deadline = self._loop.now() + self._timeout
            self._timer = self._loop.call_at(deadline, self._on_timeout)
            self._approach = Dial(
                self._loop,
                self._host,
                self._port,
                self._tls,
                self._proxy,
                deadline,
                self._on_arrival,
            )
            self._approach.start()
        except Exception as exc:
            self._loop.call_later(0, partial(self._failed, exc))

    def serve(self, stream: ByteStream | None) -> None:
        """Have ``stream`` take the input and make the output from now on; None: the handler.

        All messages go this way, so the direct calls save time. With TLS, ``stream`` is not used:
        the handler goes on to take the input and make the output.
        """
        self._stream = stream

    def flush(self) -> None:
        """Send the handler's output as far as the socket takes it; the loop sends the rest later.

        The handler calls flush() when it has new output, such as before the loop sleeps.
        """
        outlet = self._outlet
        if self._state is not State.OPEN or self._flushing or outlet is None:
            return
        self._flushing = True
        try:
            if self._tls_writer is not None:
                self._tls_writer.flush()
                return
            stream, handler, more = self._stream, self._handler, True
            while (
                more
                and not outlet.blocked
                and (data := handler.pending_output() if stream is None else stream.output())
            ):
                size = len(data)
                n = outlet.send(data)
                del data  # the handler cannot change its buffer while this view exists
                if n and stream is None:
                    handler.output_written(n)
                elif n and stream is not None:
                    more = stream.output_written(n)
                if n < size:
                    outlet.block()
        except Exception as exc:
            self._failed(exc)
        finally:
            self._flushing = False

    def close(self) -> None:
        """Send what the socket takes at once, and TLS's close_notify, then close. Idempotent.

        :raises AssertionError: this is not the loop thread
        """
        self._loop.assert_in_loop()
        try:
            self.flush()
            if self._state is State.OPEN and self._tls_writer is not None:
                self._tls_writer.send_close_notify()
            self._end(None)
        except Exception as exc:
            self._failed(exc)

    # -- the loop's calls ------------------------------------------------------------------

    def loop_closed(self, exc: Exception) -> None:
        """End the connection with ``exc``: the loop ends."""
        self._end(exc)

    def abandon(self) -> None:
        """Close the socket in the child of a fork; the connection belongs to the parent."""
        self._state = State.CLOSED
        if self._approach is not None:
            self._approach.abandon()
        if self._socket is not None:
            self._socket.close()

    # -- connecting ------------------------------------------------------------------------

    def _on_timeout(self) -> None:
        doing, failures = self._state.value, []
        if self._approach is not None:
            doing, failures = self._approach.doing, self._approach.failures
        reason = f"not connected within {self._timeout:g} s: timed out {doing}"
        self._end(ConnectError(self._host, self._port, reason, failures))

    def _on_arrival(self, arrival: Arrival | ConnectError | TlsError) -> None:
        if not isinstance(arrival, Arrival):
            self._approach = None
            self._end(arrival)
            return
        self._socket, self._approach = arrival.sock, None
        self._description, self._address = arrival.description, arrival.address
        self._fd = arrival.sock.fileno()
        self._loop.register(self._fd, self._on_readable, self._on_writable)
        self._outlet = Writer(self._loop, arrival.sock, self._read_last)
        self._buffer = memoryview(bytearray(_RECEIVE_SIZE))
        if arrival.context is None or self._tls is None:
            self._established()
        else:
            self._state = State.HANDSHAKE
            engine = TlsEngine(arrival.context, self._tls.server_name or self._host)
            engine.feed(b"")
            self._tls_writer = TlsWriter(self._outlet, engine, self._handler)
            self._tls_writer.send_backlog()
        if arrival.rest and self._tls_writer is not None:
            self._receive_tls(self._tls_writer, memoryview(arrival.rest))
        elif arrival.rest and self._state is State.OPEN:
            self._handler.data_received(arrival.rest)

    def _established(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._state = State.OPEN
        if self._tls_writer is not None:
            self._description += f" over {self._tls_writer.engine.describe()}"
        self._handler.connected(self._description)
        self.flush()

    # -- reading ---------------------------------------------------------------------------

    def _on_readable(self, rounds: int = _RECEIVE_ROUNDS, enough: int = _RECEIVE_SIZE) -> None:
        """Read and pass the data on.

        :param rounds: number of reads at most
        :param enough: bytes; a shorter read is the last one
        """
        for _ in range(rounds):
            sock = self._socket
            if sock is None:
                return
            try:
                n = sock.recv_into(self._buffer)
            except BlockingIOError:
                return
            except OSError as exc:
                self._broken(exc)
                return
            if n == 0:
                self._eof()
            elif self._tls_writer is not None:
                self._receive_tls(self._tls_writer, self._buffer[:n])
            elif self._stream is not None:
                self._stream.receive(bytes(self._buffer[:n]))
            else:
                self._handler.data_received(bytes(self._buffer[:n]))
            if n < enough:
                return

    def _receive_tls(self, secured: TlsWriter, data: memoryview) -> None:
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
        """Read what is left after sending has failed, then end the connection."""
        self._on_readable(sys.maxsize, 1)
        if self._outlet is not None and self._outlet.error is not None:
            self._broken(self._outlet.error)

    def _eof(self) -> None:
        if self._state is State.HANDSHAKE:
            reason = "the peer closed the connection during the handshake"
            self._end(TlsError(reason, self._host, self._port))
        else:
            self._end(Disconnected(self._host, self._port, "the peer closed the connection"))

    # -- writing ---------------------------------------------------------------------------

    def _on_writable(self) -> None:
        outlet = self._outlet
        assert outlet is not None
        outlet.blocked = False
        if self._tls_writer is not None:
            self._tls_writer.send_backlog()
        self.flush()
        outlet.flushed()

    # -- the end ---------------------------------------------------------------------------

    def _broken(self, exc: OSError) -> None:
        if self._state is State.HANDSHAKE:
            reason = f"the peer broke off the handshake ({describe(exc)})"
            self._end(TlsError(reason, self._host, self._port))
            return
        error = Disconnected(self._host, self._port, f"connection lost: {describe(exc)}")
        error.__cause__ = exc
        self._end(error)

    def _tls_failed(self, exc: TlsError) -> None:
        if self._tls_writer is not None:
            self._loop.run(self._tls_writer.send_alert)
        self._end(exc.at(self._host, self._port))

    def _failed(self, exc: Exception) -> None:
        """Fail this connection after a callback has raised ``exc``."""
        if isinstance(exc, TlsError) and self._state in (State.HANDSHAKE, State.OPEN):
            self._tls_failed(exc)
            return
        place = join_host_port(self._host, self._port)
        if self._address:
            place += f" at {self._address}"
        if self._state is State.CLOSED:
            LOG.error("Internal error after the end of the connection to %s", place, exc_info=exc)
            return
        LOG.error("Connection to %s is given up after an internal error", place, exc_info=exc)
        kind = Disconnected if self._state is State.OPEN else ConnectError
        reason = f"internal error: {printable(exc)}"
        error = kind(
            self._host, self._port, f"{reason} (at {self._address})" if self._address else reason
        )
        # The traceback is logged above. It is dropped, as its frames hold buffers and sockets.
        error.__cause__ = exc.with_traceback(None)
        self._end(error)

    def _end(self, exc: Exception | None) -> None:
        if self._state is State.CLOSED:
            return
        self._state = State.CLOSED
        self._loop.run(self._release)
        self._loop.run(partial(self._handler.connection_lost, exc))

    def _release(self) -> None:
        """Release all that the connection holds, so that the loop makes no more calls."""
        try:
            if self._timer is not None:
                self._timer.cancel()
            if self._outlet is not None:
                self._outlet.close()
            if self._approach is not None:
                self._approach.abort()
                self._approach = None
            self._loop.unregister(self._fd)
        finally:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            self._tls_writer = None
            self._buffer = memoryview(b"")
            self._loop.detach(self)
