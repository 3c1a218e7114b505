# SPDX-License-Identifier: Apache-2.0

"""The sending side of a non-blocking socket, in clear or over TLS, on the loop thread."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp1_driver.eventloop.guard import Guard
from amqp1_driver.eventloop.handler import TransportHandler
from amqp1_driver.eventloop.tls import TlsEngine

if TYPE_CHECKING:
    import socket

# Bytes of plaintext that are encrypted at a time; the result of one such step may wait unsent.
_TLS_CHUNK = 256 * 1024


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
