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

"""The thread of the bus: listening socket, connections, timers, calls from other threads."""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from .behaviour import Behaviour
from .connection import SocketConnection
from .counters import Counters
from .engine import Engine
from .timers import Timers

if TYPE_CHECKING:
    from .websocket import WebSocketServer

#: How long (seconds) a stopping bus waits for the peers' half of the close.
_CLOSE_TIME = 2.0

EngineFactory = Callable[[Callable[[], None], str | None], Engine]
NewWebSocket = Callable[[], "WebSocketServer"]


class Server:
    """Runs one behaviour on listening sockets; implements connection.Host.

    ``listeners``: socket -> what makes the WebSocket layer of a connection to it; None = without.

    :meth:`run` is the thread. :meth:`call`, :meth:`wait_until` and :meth:`post` may be used from
    any other thread, everything else only on the bus thread.
    """

    def __init__(
        self,
        listeners: Mapping[socket.socket, NewWebSocket | None],
        behaviour: Behaviour,
        counters: Counters,
        new_engine: EngineFactory,
        users: Mapping[str, str],
        context: ssl.SSLContext | None,
    ) -> None:
        self.counters = counters
        self.users = users
        self.anonymous = behaviour.anonymous
        self.connections: dict[SocketConnection, None] = {}
        self.new_engine = new_engine
        self.behaviour = behaviour
        behaviour.call_at = self.call_at
        self._listeners = dict(listeners)
        self._context = context
        self._selector = selectors.DefaultSelector()
        self._asleep = selectors.DefaultSelector()
        self._wake_out, self._wake_in = socket.socketpair()
        self._calls: deque[Callable[[], None]] = deque()
        self._waiters: list[tuple[Callable[[], bool], Future[None]]] = []
        self._timers = Timers()
        self._dirty: dict[SocketConnection, None] = {}
        self._frozen = False
        self._stop_by: float | None = None
        self._ended = False
        self._lock = threading.Lock()

    # -- for other threads ---------------------------------------------------

    def post(self, function: Callable[[], None]) -> bool:
        """Have a function run on the bus thread; False if the bus has ended."""
        with self._lock:
            if self._ended:
                return False
            self._calls.append(function)
            try:
                self._wake_in.send(b"\0")
            except BlockingIOError:
                pass  # plenty of wake-ups are on their way
            return True

    def call(self, function: Callable[[], Any], timeout: float = 10.0) -> Any:
        """Run a function on the bus thread and return what it returns."""
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(function())
            except BaseException as exc:
                future.set_exception(exc)

        if not self.post(work):
            raise RuntimeError("the bus is not running")
        return future.result(timeout)

    def wait_until(self, condition: Callable[[], bool], timeout: float) -> None:
        """Block until ``condition`` (evaluated on the bus thread after each step) holds.

        Raises TimeoutError after ``timeout`` seconds, RuntimeError when the bus has ended.
        """
        future: Future[None] = Future()
        if not self.post(lambda: self._waiters.append((condition, future))):
            raise RuntimeError("the bus is not running")
        future.result(timeout)

    # -- for connections and behaviours (connection.Host) ----------------------

    def now(self) -> float:
        """Seconds, monotonic."""
        return time.monotonic()

    def call_at(self, when: float, function: Callable[[], None]) -> None:
        """Run a function on the bus thread at ``when``."""
        self._timers.at(when, function)

    def touch(self, connection: SocketConnection) -> None:
        """The connection has something to do at the end of this step."""
        self._dirty[connection] = None

    def watch_writable(self, connection: SocketConnection, wanted: bool) -> None:
        """Whether to be told when the socket takes bytes again."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
        self._selector.modify(connection.sock, events, connection)

    def forget(self, connection: SocketConnection) -> None:
        """The connection is about to close its socket."""
        self._selector.unregister(connection.sock)
        self.connections.pop(connection, None)
        self._dirty.pop(connection, None)

    # -- control -------------------------------------------------------------

    def freeze(self, frozen: bool) -> None:
        """Frozen: no socket is looked at and no timer runs, as if the process were stopped."""
        self._frozen = frozen

    def close_all(self, condition: str, description: str) -> None:
        """Close all connections cleanly; new ones are welcome."""
        for connection in list(self.connections):
            connection.close_cleanly(condition, description)

    def drop_all(self) -> None:
        """Reset all connections; new ones are welcome."""
        for connection in list(self.connections):
            connection.close(reset=True)

    def stop(self) -> None:
        """Close everything cleanly and end."""
        self._frozen = False
        self._close_listeners()
        self._stop_by = self.now() + _CLOSE_TIME
        self.call_at(self._stop_by, self.drop_all)
        self.close_all("amqp:connection:forced", "the bus is shutting down")

    def kill(self) -> None:
        """Reset everything and end."""
        self._frozen = False
        self._close_listeners()
        self._stop_by = self.now()
        self.drop_all()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            self._selector.unregister(listener)
            listener.close()
        self._listeners.clear()

    # -- the thread ----------------------------------------------------------

    def run(self) -> None:
        """Serve until stopped."""
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)
        self._asleep.register(self._wake_out, selectors.EVENT_READ, None)
        for listener in self._listeners:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, None)
        try:
            while self._stop_by is None or self.connections:
                self._step()
        finally:
            self._end()

    def _step(self) -> None:
        frozen = self._frozen
        selector = self._asleep if frozen else self._selector
        delay = None if frozen else self._timers.delay(self.now())
        for key, events in selector.select(delay):
            if key.fileobj is self._wake_out:
                self._wake_out.recv(4096)
            elif key.data is None:
                self._accept(key.fileobj)
            elif not key.data.closed:
                if events & selectors.EVENT_READ:
                    key.data.on_readable()
                if events & selectors.EVENT_WRITE and not key.data.closed:
                    key.data.on_writable()
        while self._calls:
            self._calls.popleft()()
        if self._frozen:
            return
        self._timers.run(self.now())
        while self._dirty:
            connection = next(iter(self._dirty))
            del self._dirty[connection]
            connection.pump()
        self._check_waiters()

    def _check_waiters(self) -> None:
        if self._waiters:
            waiting, self._waiters = self._waiters, []
            for condition, future in waiting:
                try:
                    if condition():
                        future.set_result(None)
                    else:
                        self._waiters.append((condition, future))
                except Exception as exc:
                    future.set_exception(exc)

    def _accept(self, listener: Any) -> None:
        try:
            sock, peer = listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        new_websocket = self._listeners[listener]
        websocket = new_websocket() if new_websocket is not None else None
        name = f"{peer[0]}:{peer[1]}"
        connection = SocketConnection(self, sock, name, self._context, websocket)
        self.connections[connection] = None
        self.counters.connections += 1
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _end(self) -> None:
        for connection in list(self.connections):
            connection.close(reset=True)
        self._close_listeners()
        with self._lock:
            self._ended = True
        while self._calls:
            self._calls.popleft()()
        for _, future in self._waiters:
            future.set_exception(RuntimeError("the bus has ended"))
        self._selector.close()
        self._asleep.close()
        self._wake_in.close()
        self._wake_out.close()
