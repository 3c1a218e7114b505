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

A script is possible in auto mode as well. The first waiting step of the script takes precedence;
the peer sends the regular answer to every event that does not fit this step.

Without sockets::

    peer = Peer(auto=True)
    core = peer.connect()
    client.feed(core.receive(client.output()))
"""

from __future__ import annotations

import asyncio
import socket
from types import TracebackType
from typing import Any, Self

from amqp1_driver.testing.core import PeerCore
from amqp1_driver.testing.loop_thread import LoopThread, reset_on_close
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

        The rule applies at every position of the script, to events that do not fit the first
        waiting step. Newer rules take precedence over older ones.

        :param times: number of uses of the rule; None = no limit
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
        listener = socket.create_server((host, port), family=family)
        self.host, self.port = host, listener.getsockname()[1]
        self._server = _Server(self.script, listener)

    @property
    def url(self) -> str:
        """Return amqp://HOST:PORT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"amqp://{host}:{self.port}"

    def stop(self) -> None:
        """Close all sockets and end the thread; idempotent."""
        self._server.stop()

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


class _Server:
    """The thread of a ScriptedPeer, with the listening socket and the connections."""

    def __init__(self, script: Script, listener: socket.socket) -> None:
        self.script = script
        self.connections: set[_Connection] = set()
        self.stopped = False
        self._thread = LoopThread("scripted-peer", self._failed)
        self.loop = self._thread.loop
        serve = self.loop.create_server(lambda: _Connection(self), sock=listener)
        self._listening = asyncio.run_coroutine_threadsafe(serve, self.loop).result(10)
        script.wake = lambda: self._thread.post(self.flush)

    def flush(self) -> None:
        """Send the output of all connections; on the thread of the peer only."""
        for connection in list(self.connections):
            connection.flush()

    def stop(self) -> None:
        """Close the sockets and end the thread; for any other thread."""
        self._thread.stop(self._close)

    def _close(self) -> None:
        self.stopped = True
        self._listening.close()
        for connection in list(self.connections):
            connection.abort()

    def _failed(self, error: BaseException) -> None:
        with self.script.changed:
            self.script.fail(error)
        self.flush()


class _Connection(asyncio.Protocol):
    """A connection of a client and its core; lives on the thread of the peer."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._core = server.script.connect()
        self._transport: asyncio.Transport
        self._heartbeat: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection and send the output that the script has for it."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)
        if self._server.stopped:
            self.abort()
        self._server.flush()

    def data_received(self, data: bytes) -> None:
        """Let the script react to bytes of the client."""
        self._write(self._core.receive(data))
        self._server.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection to the script."""
        self._server.connections.discard(self)
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        self._core.connection_lost()
        self._server.flush()

    def flush(self) -> None:
        """Send the output of the core, and end the connection if the core has ended it."""
        if self._transport.is_closing():
            return
        self._write(self._core.take_output())
        if self._core.ending == "reset":
            reset_on_close(self._transport.get_extra_info("socket"))
            self.abort()
        elif self._core.ending == "close":
            self._transport.write_eof()  # then wait for the client to close
        elif self._heartbeat is None:
            self._schedule_heartbeat()

    def abort(self) -> None:
        """Close the socket without sending the rest of the output."""
        self._transport.abort()

    def _write(self, data: bytes) -> None:
        if data:
            self._transport.write(data)
            self._schedule_heartbeat()

    def _schedule_heartbeat(self) -> None:
        """Send an empty frame when half of the client's idle-time-out has passed without output."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        core = self._core
        wanted = core.remote_open.idle_time_out if core.remote_open is not None else None
        if wanted and core.script.defaults.heartbeats and core.usable():
            self._heartbeat = self._server.loop.call_later(wanted / 2000, self._beat)

    def _beat(self) -> None:
        self._heartbeat = None
        with self._server.script.changed:
            if self._core.usable():
                self._core.send(None)
        self.flush()
