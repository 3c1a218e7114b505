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
import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from amqp1_driver.testing import reactions
from amqp1_driver.testing.core import (
    Defaults,
    Event,
    Link,
    LogEntry,
    PeerCore,
    PeerFailure,
    ReceivedTransfer,
    SentTransfer,
    Session,
    must,
)
from amqp1_driver.testing.loop_thread import LoopThread, reset_on_close
from amqp1_driver.testing.script import (
    Action,
    Expectations,
    OnCore,
    Rules,
    Script,
    Step,
    Verbs,
    always,
)
from amqp1_driver.wire import performatives as p
from amqp1_driver.wire.messages import Message

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

T = TypeVar("T")


class Peer(Expectations, Verbs):
    """A scripted peer without transport: ``connect()`` returns a PeerCore per connection.

    Besides expectations, a script has actions of the peer itself. An action has its place in the
    script; it runs at once if no step is before it. The action affects the newest connection. A
    link argument is a Link, a name, an address, or None for the link attached last. The action
    waits for the steps before it and until its link is attached. A transfer also waits for credit.

    The ``wait_...`` methods raise PeerFailure after ``timeout`` seconds, and the failure of the
    script as soon as there is one.

    Keyword arguments are those of ``Defaults``. Any thread may use the peer.
    """

    def __init__(self, *, auto: bool = False, **defaults: Any) -> None:
        super().__init__(Script(auto, Defaults(**defaults)))

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

    # -- expectations of several steps at once -----------------------------------------------

    def _sasl(self, mechanism: str, initial_response: Any = None) -> Step:
        self.expect_header(3).respond(mechanisms=(mechanism,))
        match = {} if initial_response is None else {"initial_response": initial_response}
        self.expect_sasl_init(mechanism=mechanism, **match).respond(outcome=0)
        return self.expect_header(0).respond()

    def expect_sasl_anonymous(self) -> Step:
        """Expect SASL with ANONYMOUS alone, then the AMQP header."""
        return self._sasl("ANONYMOUS")

    def expect_sasl_external(self) -> Step:
        """Expect SASL with EXTERNAL alone, then the AMQP header."""
        return self._sasl("EXTERNAL")

    def expect_sasl_plain(self, user: str, password: str) -> Step:
        """Expect SASL with PLAIN alone and these credentials (RFC 4616), then the AMQP header."""
        wanted = f"{user}\0{password}".encode()
        return self._sasl("PLAIN", lambda got: got is not None and got.split(b"\0", 1)[1] == wanted)

    def reject_sasl(self, code: int = 1, *mechanisms: str) -> Step:
        """Answer the first sasl-init with a failure (5.3.3.6: 1 auth ... 4 sys-temp); close."""
        self.expect_header(3).respond(mechanisms=mechanisms or ("ANONYMOUS", "PLAIN"))
        return self.expect_sasl_init().respond(outcome=code)

    def expect_connection(self, **open_overrides: Any) -> Step:
        """Expect SASL ANONYMOUS, open and begin, and answer all of them."""
        self.expect_sasl_anonymous()
        self.expect_open().respond(**open_overrides)
        return self.expect_begin().respond()

    # -- actions --------------------------------------------------------------------------

    def _act(self, what: str, run: OnCore, ready: OnCore = always) -> Self:
        """Append an action to the script."""
        self.script.add(Action(what, ready, run))
        return self

    def _act_on(self, what: str, which: Link | str | None, run: Callable[[Link], object]) -> None:
        def find(core: PeerCore) -> Link | None:
            return core.find_link(which)

        self._act(what, lambda core: run(must(find(core))), find)

    def grant(self, credit: int, link: Link | str | None = None) -> None:
        """Set the credit of a link on which the client sends."""
        self._act_on(
            f"grant({credit}, {link!r})", link, lambda it: reactions.grant(it, credit, window=0)
        )

    def send_transfer(
        self,
        link: Link | str | None,
        message: bytes | Message,
        *,
        ignore_credit: bool = False,
        **fields: Any,
    ) -> None:
        """Send a delivery to the client; ``fields`` as in ``reactions.transfer`` (settled ...)."""

        def ready(core: PeerCore) -> bool:
            found = core.find_link(link)
            if found is None or found.client_sends:
                return False
            return ignore_credit or (found.credit > 0 and found.session.remote_window > 0)

        self._act(
            f"send_transfer({link!r}) with credit and session window",
            lambda core: reactions.transfer(must(core.find_link(link)), message, **fields),
            ready,
        )

    def settle(
        self,
        transfer: ReceivedTransfer | int = -1,
        state: Any = None,
        *,
        settled: bool = True,
    ) -> None:
        """Send the outcome (default Accepted) of a held delivery.

        :param transfer: the delivery, or its index in ``transfers``
        """
        outcome = p.Accepted() if state is None else state

        def find(core: PeerCore) -> ReceivedTransfer | None:
            if isinstance(transfer, ReceivedTransfer):
                return transfer
            with contextlib.suppress(IndexError):
                return self.script.transfers[transfer]
            return None

        self._act(
            f"settle({transfer})",
            lambda core: reactions.settle(must(find(core)), outcome, settled=settled),
            find,
        )

    def flow(self, link: Link | str | None = None, **fields: Any) -> None:
        """Send a flow on a link with these fields (incoming_window=0 blocks the session)."""

        def run(found: Link) -> None:
            session = found.session
            session.window = fields.get("incoming_window", session.window)
            session.core.flow(session, found, **fields)

        self._act_on(f"flow({link!r})", link, run)

    def remote_detach(
        self,
        link: Link | str | None = None,
        condition: str | None = None,
        description: str | None = None,
        *,
        closed: bool = True,
    ) -> None:
        """Detach a link."""
        self._act_on(
            f"remote_detach({link!r})",
            link,
            lambda found: reactions.detach(found, condition, description, closed=closed),
        )

    def end_session(
        self,
        channel: int | None = None,
        condition: str | None = None,
        description: str | None = None,
    ) -> None:
        """End the session on the client's ``channel``; None is the newest."""

        def find(core: PeerCore) -> Session | None:
            newest = next(reversed(core.sessions), -1)
            return core.sessions.get(newest if channel is None else channel)

        self._act(
            f"end_session({channel})",
            lambda core: reactions.end(must(find(core)), condition, description),
            find,
        )

    def drop_after_bytes(self, count: int, *, received: bool = True) -> None:
        """Reset the connection after ``count`` more bytes received from or sent to the client."""
        self._act("drop_after_bytes", lambda core: core.drop_after(count, received))

    # -- waits ----------------------------------------------------------------------------

    def frames(self, kind: Any) -> list[LogEntry]:
        """Return the frames of that class from the client (None: empty frames)."""
        wanted = type(None) if kind is None else kind
        return [
            entry for entry in self.log if entry.incoming and isinstance(entry.performative, wanted)
        ]

    def wait_done(self, timeout: float = 10.0) -> None:
        """Wait until every step has run."""
        steps = self.script.steps
        self.script.wait_for(
            lambda: not steps, timeout, lambda: f"still to come: {'; '.join(map(str, steps))}"
        )

    def _wait_count(
        self, count: int, timeout: float, what: str, found: Callable[[], Sequence[T]]
    ) -> list[T]:
        self.script.wait_for(
            lambda: len(found()) >= count, timeout, lambda: f"{len(found())} of {count} {what}"
        )
        return list(found())

    def wait_transfers(self, count: int, timeout: float = 10.0) -> list[ReceivedTransfer]:
        """Wait until the client has sent ``count`` deliveries."""
        return self._wait_count(count, timeout, "transfers", lambda: self.script.transfers)

    def wait_frames(self, kind: Any, count: int = 1, timeout: float = 10.0) -> list[LogEntry]:
        """Wait until the client has sent ``count`` frames of a class (None: empty frames)."""
        name = getattr(kind, "__name__", "empty")
        return self._wait_count(count, timeout, name, lambda: self.frames(kind))

    def wait_connections(self, count: int, timeout: float = 10.0) -> None:
        """Wait until the peer has accepted ``count`` TCP connections in all."""
        self._wait_count(count, timeout, "connections", lambda: self.script.cores)

    def wait_link(self, link: str | None = None, timeout: float = 10.0) -> Link:
        """Wait until a link with that name or address is attached on the newest connection."""
        found: Link = self.script.wait_for(
            lambda: self.script.core and self.script.core.find_link(link),
            timeout,
            f"no link {link!r}",
        )
        return found

    def wait_disconnected(self, timeout: float = 10.0) -> None:
        """Wait until no client is connected."""
        self.script.wait_for(
            lambda: all(core.lost for core in self.script.cores), timeout, "still connected"
        )

    def wait_settled(self, count: int, timeout: float = 10.0) -> None:
        """Wait until the client has settled ``count`` of the deliveries sent to it."""
        sent = self.script.sent
        self.script.wait_for(
            lambda: sum(item.settled for item in sent) >= count,
            timeout,
            lambda: f"settled: {[(item.delivery_id, item.state) for item in sent]}",
        )


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
        self._connections: set[_Connection] = set()
        self._stopped = False
        self._thread = LoopThread("scripted-peer", self._failed)
        serve = self._thread.loop.create_server(lambda: _Connection(self), sock=listener)
        self._listening = asyncio.run_coroutine_threadsafe(serve, self._thread.loop).result(10)
        self.script.wake = lambda: self._thread.post(self._flush)

    @property
    def url(self) -> str:
        """Return amqp://HOST:PORT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"amqp://{host}:{self.port}"

    def stop(self) -> None:
        """Close all sockets and end the thread; idempotent."""
        self._thread.stop(self._close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: BaseException | None, traceback: object) -> None:
        self.stop()
        if value is None and self.script.failure is not None:
            raise self.script.failure

    # -- on the thread of the peer --------------------------------------------------------

    def _flush(self) -> None:
        """Send the output of all connections."""
        for connection in list(self._connections):
            connection.flush()

    def _close(self) -> None:
        self._stopped = True
        self._listening.close()
        for connection in list(self._connections):
            connection.transport.abort()

    def _failed(self, error: BaseException) -> None:
        with self.script.changed:
            self.script.fail(error)
        self._flush()


class _Connection(asyncio.Protocol):
    """A connection of a client and its core; lives on the thread of the peer."""

    transport: asyncio.Transport

    def __init__(self, peer: ScriptedPeer) -> None:
        self._peer = peer
        self._core = peer.connect()
        self._heartbeat: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection and send the output that the script has for it."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._peer._connections.add(self)
        if self._peer._stopped:
            transport.abort()
        self._peer._flush()

    def data_received(self, data: bytes) -> None:
        """Let the script react to bytes of the client."""
        self._write(self._core.receive(data))
        self._peer._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection to the script."""
        self._peer._connections.discard(self)
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        self._core.connection_lost()
        self._peer._flush()

    def flush(self) -> None:
        """Send the output of the core, and end the connection if the core has ended it."""
        if self.transport.is_closing():
            return
        self._write(self._core.take_output())
        if self._core.ending == "reset":
            reset_on_close(self.transport.get_extra_info("socket"))
            self.transport.abort()
        elif self._core.ending == "close":
            self.transport.write_eof()  # then wait for the client to close
        elif self._heartbeat is None:
            self._schedule_heartbeat()

    def _write(self, data: bytes) -> None:
        if data:
            self.transport.write(data)
            self._schedule_heartbeat()

    def _schedule_heartbeat(self) -> None:
        """Send an empty frame when half of the client's idle-time-out has passed without output."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        core = self._core
        wanted = core.remote_open.idle_time_out if core.remote_open is not None else None
        if wanted and core.script.defaults.heartbeats and core.usable():
            loop = asyncio.get_running_loop()
            self._heartbeat = loop.call_later(wanted / 2000, self._beat)

    def _beat(self) -> None:
        self._heartbeat = None
        with self._core.script.changed:
            if self._core.usable():
                self._core.send(None)
        self.flush()
