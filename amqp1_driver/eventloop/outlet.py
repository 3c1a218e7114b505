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

"""What goes out on a socket that does not block, in clear or over TLS."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp1_driver.eventloop.handler import TransportHandler
from amqp1_driver.eventloop.loop import EventLoop
from amqp1_driver.eventloop.tls import TlsEngine

if TYPE_CHECKING:
    import socket

# Plaintext encrypted at a time; as much may be held encrypted and unsent.
_TLS_CHUNK = 256 * 1024


class Outlet:
    """The sending side of a socket. Lives on the loop thread, with which it is registered."""

    def __init__(
        self, loop: EventLoop, sock: "socket.socket", failed: Callable[[], object]
    ) -> None:
        """``failed``: called once sending has failed, not from in here."""
        self._loop = loop
        self._socket: socket.socket | None = sock
        self._fd = sock.fileno()
        self._failed = failed
        #: The socket takes no more for now, or never again.
        self.blocked = False
        #: Why sending has failed.
        self.error: OSError | None = None

    def send(self, data: memoryview | bytes) -> int:
        """How much the socket takes at once."""
        if self._socket is None or self.error is not None:
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
            self.error = exc.with_traceback(None)
            self._loop.call_later(0, self._failed)
            return 0

    def send_last(self, data: memoryview | bytes) -> None:
        """Send it as far as that goes, and nothing after it."""
        self.blocked = True
        if self._socket is not None:
            try:
                self._socket.send(data)
            except OSError:
                pass

    def block(self) -> None:
        """The socket has not taken all: have the loop watch for when it goes on."""
        if self._socket is not None and not self.blocked:
            self.blocked = True
            self._loop.set_writable(self._fd, True)

    def flushed(self) -> None:
        """All that can be sent is: watch no more, unless the socket is full again."""
        if self._socket is not None and not self.blocked:
            self._loop.set_writable(self._fd, False)

    def close(self) -> None:
        """Send no more."""
        self.blocked = True
        self._socket = None


class TlsOutlet:
    """TLS in front of an outlet. Lives on the loop thread."""

    def __init__(self, outlet: Outlet, engine: TlsEngine, handler: TransportHandler) -> None:
        self._outlet = outlet
        self.engine = engine
        self._handler = handler
        self._backlog = memoryview(b"")  # encrypted, unsent

    def flush(self) -> None:
        """Encrypt and send what the handler has, as far as the socket takes it.

        :raises TlsError: nothing works any more
        """
        while not self._outlet.blocked:
            data = self._handler.pending_output()
            if not data:
                return
            n = self.engine.wrap(data[:_TLS_CHUNK])
            del data  # a view: the handler cannot change its buffer as long as it exists
            if n == 0:
                return  # goes on with the next input
            self._handler.output_written(n)
            self.send_backlog()

    def send_backlog(self) -> None:
        """Send what TLS has for the peer, as far as the socket takes it."""
        output = self.engine.take_output()
        if output:
            self._backlog = memoryview(bytes(self._backlog) + output)
        if self._backlog and not self._outlet.blocked:
            self._backlog = self._backlog[self._outlet.send(self._backlog) :]
            if self._backlog:
                self._outlet.block()

    def send_farewell(self) -> None:
        """Tell the peer that no more follows."""
        self.engine.close_notify()
        self.send_backlog()

    def send_alert(self) -> None:
        """TLS has failed: what it leaves tells the peer why."""
        self._outlet.send_last(memoryview(bytes(self._backlog) + self.engine.take_output()))
