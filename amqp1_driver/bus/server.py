# SPDX-License-Identifier: Apache-2.0

"""The thread of the bus: listening sockets, connections, timers, calls from other threads."""

from __future__ import annotations

import errno
import functools
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from .behaviour import Behaviour
from .connection import SocketConnection
from .engine import Engine
from .log import logger
from .timers import Timers

if TYPE_CHECKING:
    from .websocket import WebSocketServer

LOG = logger(__name__)

#: Seconds until the bus accepts connections again after it has run out of descriptors or memory.
ACCEPT_PAUSE = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: Seconds that a stopping bus waits for the peers' Close frames.
_CLOSE_TIME = 2.0

NewWebSocket = Callable[[], "WebSocketServer"]
T = TypeVar("T")


class Server:
    """The server that runs one behaviour on listening sockets.

    :meth:`run` is the body of the bus thread. Other threads may use :meth:`call`,
    :meth:`wait_until` and :meth:`post`; everything else is for the bus thread only.

    An exception in the work for a connection resets only that connection. An exception in a timer
    or in a posted function has no further effect. Any other exception ends the thread.

    :param listeners: listening socket -> factory of the WebSocket layer of its connections; None =
        no WebSocket
    :param new_engine: creates an :class:`Engine`, given ``touched`` and ``user``
    :param on_death: called on the bus thread with the exception that ends this thread
    """

    def __init__(
        self,
        listeners: Mapping[socket.socket, NewWebSocket | None],
        behaviour: Behaviour,
        new_engine: Callable[..., Engine],
        users: Mapping[str, str],
        context: ssl.SSLContext | None,
        on_death: Callable[[BaseException], object] = bool,
    ) -> None:
        self._on_death = on_death
        self.users = users
        self.connections: dict[SocketConnection, None] = {}
        self.new_engine = new_engine
        self.behaviour = behaviour
        behaviour.call_at = self.call_at
        self._listeners = dict(listeners)
        #: Listening sockets that the server does not poll for a while.
        self._resting: set[socket.socket] = set()
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
        """Schedule a function for the bus thread; return False if the bus has ended."""
        with self._lock:
            if self._ended:
                return False
            self._calls.append(function)
            try:
                self._wake_in.send(b"\0")
            except BlockingIOError:
                pass  # the pipe is full of wake-ups already
            return True

    def call(self, function: Callable[[], T], timeout: float = 10.0) -> T:
        """Run a function on the bus thread and return its result.

        :param timeout: seconds
        :raises RuntimeError: the bus is not running
        """
        future: Future[T] = Future()

        def work() -> None:
            try:
                future.set_result(function())
            except BaseException as exc:
                future.set_exception(exc)

        if not self.post(work):
            raise RuntimeError("the bus is not running")
        return future.result(timeout)

    def wait_until(self, condition: Callable[[], bool], timeout: float) -> None:
        """Block until ``condition`` holds; the bus thread evaluates it after each pass of its loop.

        :param timeout: seconds
        :raises TimeoutError: the condition did not hold in time
        :raises RuntimeError: the bus is not running or has ended
        """
        future: Future[None] = Future()
        if not self.post(lambda: self._waiters.append((condition, future))):
            raise RuntimeError("the bus is not running")
        future.result(timeout)

    # -- for connections and behaviours ------------------------------------------

    def now(self) -> float:
        """Return the monotonic time in seconds."""
        return time.monotonic()

    def call_at(
        self,
        when: float,
        function: Callable[[], None],
        connection: SocketConnection | None = None,
    ) -> None:
        """Run a function on the bus thread at ``when`` (seconds of :meth:`now`).

        :param connection: an exception in the function resets this connection
        """
        self._timers.at(when, lambda: self._guarded(connection, function))

    def touch(self, connection: SocketConnection) -> None:
        """Process the connection at the end of this pass of the loop."""
        self._dirty[connection] = None

    def watch(self, connection: SocketConnection, reading: bool, writing: bool) -> None:
        """Set the socket events of a connection to poll; at least one of the two must be true.

        :param reading: call ``on_readable`` when bytes have arrived
        :param writing: call ``on_writable`` when the socket accepts bytes again
        """
        events = selectors.EVENT_READ if reading else 0
        events |= selectors.EVENT_WRITE if writing else 0
        self._selector.modify(connection.sock, events, connection)

    def forget(self, connection: SocketConnection) -> None:
        """Remove a connection that is about to close its socket."""
        self.connections.pop(connection, None)
        self._dirty.pop(connection, None)
        self._selector.unregister(connection.sock)

    # -- control -------------------------------------------------------------

    def freeze(self, frozen: bool) -> None:
        """Freeze or thaw the bus.

        A frozen bus polls no socket and runs no timer, like a stopped process.
        """
        self._frozen = frozen

    def close_all(self, condition: str, description: str) -> None:
        """Close all connections cleanly; the bus still accepts new ones."""
        for connection in list(self.connections):
            close = functools.partial(connection.close_cleanly, condition, description)
            self._guarded(connection, close)

    def drop_all(self) -> None:
        """Reset all connections; the bus still accepts new ones."""
        for connection in list(self.connections):
            self._guarded(connection, functools.partial(connection.close, reset=True))

    def stop(self) -> None:
        """Close all connections cleanly and end the thread."""
        self._frozen = False
        self._close_listeners()
        self._stop_by = self.now() + _CLOSE_TIME
        self.call_at(self._stop_by, self.drop_all)
        self.close_all("amqp:connection:forced", "the bus is shutting down")

    def kill(self) -> None:
        """Reset all connections and end the thread."""
        self._frozen = False
        self._close_listeners()
        self._stop_by = self.now()
        self.drop_all()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            if listener not in self._resting:
                self._selector.unregister(listener)
            listener.close()
        self._listeners.clear()
        self._resting.clear()

    # -- the thread ----------------------------------------------------------

    def run(self) -> None:
        """Serve until :meth:`stop` or :meth:`kill`."""
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
        except BaseException as error:
            LOG.critical("The thread of the bus has ended by a defect", exc_info=True)
            self._on_death(error)
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
            else:
                if events & selectors.EVENT_READ:
                    self._guarded(key.data, key.data.on_readable)
                if events & selectors.EVENT_WRITE:
                    self._guarded(key.data, key.data.on_writable)
        while self._calls:
            self._guarded(None, self._calls.popleft())
        if self._frozen:
            return
        self._timers.run(self.now())
        while self._dirty:
            connection = next(iter(self._dirty))
            del self._dirty[connection]
            self._guarded(connection, connection.pump)
        self._check_waiters()

    def _guarded(self, connection: SocketConnection | None, function: Callable[[], object]) -> None:
        """Run a function for a connection unless that connection is closed.

        :param connection: the connection to reset after an exception in the function; None = the
            function is for no connection
        """
        if connection is not None and connection.closed:
            return
        try:
            function()
        except Exception:
            if connection is None:
                LOG.exception("A timer or a call of the bus has failed")
                return
            LOG.exception("The connection from %s has failed and is closed", connection.peer)
            connection.abandon()

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
            sock, peer = self._take(listener)
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._rest(listener, error)
            return
        new_websocket = self._listeners[listener]
        websocket = new_websocket() if new_websocket is not None else None
        name = f"{peer[0]}:{peer[1]}"
        connection = SocketConnection(self, sock, name, self._context, websocket)
        self.connections[connection] = None
        self.behaviour.counters.connections += 1
        self._selector.register(sock, selectors.EVENT_READ, connection)

    @staticmethod
    def _take(listener: Any) -> Any:
        """Accept a connection; return its prepared socket and the peer's address."""
        sock, peer = listener.accept()
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            sock.close()
            raise
        return sock, peer

    def _rest(self, listener: Any, error: OSError) -> None:
        """Stop polling a listening socket for a while, because it would be ready all the time."""
        LOG.error("No connection can be accepted for %g s: %s", ACCEPT_PAUSE, error)
        self._selector.unregister(listener)
        self._resting.add(listener)

        def again() -> None:
            if listener in self._resting:
                self._resting.discard(listener)
                self._selector.register(listener, selectors.EVENT_READ, None)

        self.call_at(self.now() + ACCEPT_PAUSE, again)

    def _end(self) -> None:
        self.drop_all()
        self._close_listeners()
        with self._lock:
            self._ended = True
        while self._calls:
            self._guarded(None, self._calls.popleft())
        for _, future in self._waiters:
            future.set_exception(RuntimeError("the bus has ended"))
        self._selector.close()
        self._asleep.close()
        self._wake_in.close()
        self._wake_out.close()
