# SPDX-License-Identifier: Apache-2.0
"""A server that speaks AMQP 1.0 frame by frame: by a script, or automatically with single faults.

With a script that expects every frame in order::

    with ScriptedPeer() as peer:
        peer.expect_sasl_anonymous()
        peer.expect_open().respond(product="qpid-cpp")
        peer.expect_begin().respond()
        peer.expect_attach(role="sender", target="q").respond().grant(10)
        peer.expect_transfer(body="hello").reject("amqp:not-allowed", "no")
        client(peer.url)
        peer.wait_done(5)

Automatically, with one fault::

    with ScriptedPeer(auto=True) as peer:
        peer.override(times=1).expect_transfer(address="q").release()
        client(peer.url)
        transfers = peer.wait_transfers(2, 5)
        peer.remote_detach("q", "amqp:resource-deleted")

A script is possible in auto mode as well. The first step of the script takes precedence; the peer
answers regularly to every event that does not fit it.

Without sockets::

    peer = Peer(auto=True)
    core = peer.connect()
    client.feed(core.receive(client.output()))
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Any, Self

from amqp1_driver.testing.core import PeerCore
from amqp1_driver.testing.script import Script, StepT
from amqp1_driver.testing.state import (
    Defaults,
    Event,
    Link,
    LogEntry,
    PeerFailure,
    ReceivedTransfer,
    SentTransfer,
)
from amqp1_driver.testing.words import Actions, Rules, Scenes, Waits

__all__ = [
    "Defaults",
    "Event",
    "Link",
    "LogEntry",
    "Peer",
    "PeerCore",
    "PeerFailure",
    "ReceivedTransfer",
    "ScriptedPeer",
    "SentTransfer",
]


class Peer(Scenes, Actions, Waits):
    """A scripted peer without transport: ``connect()`` returns a PeerCore per connection.

    Keyword arguments are those of ``Defaults``. Any thread may use the peer.
    """

    def __init__(self, *, auto: bool = False, **defaults: Any) -> None:
        self.script = Script(auto, Defaults(**defaults))

    def _put(self, step: StepT) -> StepT:
        return self.script.add(step)

    def connect(self) -> PeerCore:
        """Create a new connection, as if the peer had accepted a client."""
        return self.script.connect()

    def override(self, times: int | None = 1) -> Rules:
        """Add a rule: ``peer.override().expect_attach(...).refuse(...)``.

        The rule applies at every position of the script, after the step that waits first. Newer
        rules take precedence.

        :param times: number of uses of the rule; None is always
        """
        return Rules(self.script, times)

    @property
    def log(self) -> list[LogEntry]:
        """Return every frame and header of both directions."""
        with self.script.changed:
            return list(self.script.log)

    @property
    def transfers(self) -> list[ReceivedTransfer]:
        """Return the deliveries of the client, in the order of their completion."""
        with self.script.changed:
            return list(self.script.transfers)

    @property
    def sent(self) -> list[SentTransfer]:
        """Return the deliveries to the client."""
        with self.script.changed:
            return list(self.script.sent)

    @property
    def links(self) -> list[Link]:
        """Return the links attached on the newest connection."""
        with self.script.changed:
            core = self.script.core
            sessions = list(core.sessions.values()) if core else []
            return [link for item in sessions for link in item.links.values() if link.attached]


class ScriptedPeer(Peer):
    """A Peer that listens on loopback, with one thread for all connections.

    The peer listens from construction on. As a context manager it stops at the end and raises the
    failure of the script, if any.

    :raises OSError: the port is not available
    """

    def __init__(
        self, *, auto: bool = False, host: str = "127.0.0.1", port: int = 0, **defaults: Any
    ) -> None:
        super().__init__(auto=auto, **defaults)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family)
        self._listener.setblocking(False)
        self.host, self.port = host, self._listener.getsockname()[1]
        self._reactor = _Reactor(self.script, self._listener)
        self.script.wake = self._reactor.wake

    @property
    def url(self) -> str:
        """Return amqp://HOST:PORT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"amqp://{host}:{self.port}"

    def stop(self) -> None:
        """Close all sockets and end the thread; idempotent."""
        self._reactor.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if value is None and self.script.failure is not None:
            raise self.script.failure


class _Connection:
    """A socket and its core; lives on the reactor thread."""

    def __init__(self, sock: socket.socket, core: PeerCore) -> None:
        self.sock = sock
        self.core = core
        self.output = bytearray()
        self.sent_at = time.monotonic()
        self.shut = False

    def interval(self) -> float | None:
        """Return the seconds between empty frames that the client needs, None if it needs none."""
        opened = self.core.remote_open
        if not self.core.script.defaults.heartbeats or not self.core.usable():
            return None
        return opened.idle_time_out / 2000 if opened and opened.idle_time_out else None


class _Reactor:
    """The thread of a ScriptedPeer."""

    def __init__(self, script: Script, listener: socket.socket) -> None:
        self._script = script
        self._listener = listener
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._connections: dict[int, _Connection] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="scripted-peer", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Make the thread look for output; any thread."""
        with contextlib.suppress(OSError):
            self._wake_out.send(b"w")

    def stop(self) -> None:
        """End the thread and close the sockets; any thread except the reactor thread."""
        self._stopping = True
        self.wake()
        self._thread.join(10)

    def _run(self) -> None:
        try:
            while not self._stopping:
                for key, _ in self._selector.select(self._heartbeats()):
                    self._ready(key.fileobj)
                for connection in list(self._connections.values()):
                    self._flush(connection)
        except Exception as exc:
            with self._script.changed:
                self._script.fail(exc)
        finally:
            for connection in list(self._connections.values()):
                self._close(connection, reset=False)
            for sock in (self._listener, self._wake_in, self._wake_out):
                sock.close()
            self._selector.close()

    def _ready(self, fileobj: Any) -> None:
        if fileobj is self._listener:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                self._accept()
        elif fileobj is self._wake_in:
            with contextlib.suppress(BlockingIOError):
                while self._wake_in.recv(4096):
                    pass
        elif fileobj.fileno() in self._connections:
            self._read(self._connections[fileobj.fileno()])

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[sock.fileno()] = _Connection(sock, self._script.connect())
        self._selector.register(sock, selectors.EVENT_READ)

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._flush(connection)
            if connection.sock.fileno() >= 0:
                self._close(connection, reset=False)
        else:
            connection.output += connection.core.receive(data)

    def _flush(self, connection: _Connection) -> None:
        core = connection.core
        connection.output += core.take_output()
        try:
            while connection.output and not connection.shut:
                del connection.output[: connection.sock.send(connection.output)]
                connection.sent_at = time.monotonic()
        except BlockingIOError:
            pass
        except OSError:
            return self._close(connection, reset=False)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.output else 0)
        if core.ending == "reset":
            return self._close(connection, reset=True)
        if core.ending == "close" and not connection.output and not connection.shut:
            connection.shut = True  # then wait for the client to close
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_WR)
        self._selector.modify(connection.sock, events)
        return None

    def _close(self, connection: _Connection, *, reset: bool) -> None:
        sock = connection.sock
        del self._connections[sock.fileno()]
        self._selector.unregister(sock)
        if reset:
            linger = struct.pack("ii", 1, 0)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        sock.close()
        connection.core.connection_lost()

    def _heartbeats(self) -> float | None:
        """Send the empty frames that are due; return the seconds until the next one."""
        now, waits = time.monotonic(), []
        for connection in self._connections.values():
            interval = connection.interval()
            if interval is not None:
                if now >= connection.sent_at + interval:
                    with self._script.changed:
                        connection.core.send(None)
                    self._flush_soon(connection, now)
                waits.append(connection.sent_at + interval - now)
        return max(0.0, min(waits)) if waits else None

    def _flush_soon(self, connection: _Connection, now: float) -> None:
        connection.sent_at = now
        self.wake()
