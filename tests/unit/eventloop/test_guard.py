# SPDX-License-Identifier: Apache-2.0

"""An exception inside a stream costs that connection, and never the loop.

Each callback of the handler, and each function of each layer between socket and handler, raises
once in turn, on TCP, TLS and WebSocket.
"""

import functools
import inspect
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from amqp1_driver.eventloop import (
    ConnectError,
    Disconnected,
    EventLoop,
    ProxyParameters,
    TlsError,
    TlsParameters,
    Transport,
    dial,
)
from amqp1_driver.eventloop.dial import Dial
from amqp1_driver.eventloop.tls import TlsEngine
from amqp1_driver.eventloop.transport import TlsWriter, Writer
from amqp1_driver.eventloop.tunnel import Tunnel
from amqp1_driver.eventloop.websocket import Codec, WebSocket
from tests.unit.eventloop.certificates import Certificates
from tests.unit.eventloop.helpers import PATIENCE, Recorder, Server, connect, echo, on_loop
from tests.unit.eventloop.test_websocket import Echo, head, websocket

KINDS = ("tcp", "tls", "websocket")
CALLBACKS = ("connected", "data_received", "pending_output", "output_written", "connection_lost")
LAYERS = (Transport, Dial, Writer, TlsWriter, TlsEngine, Tunnel, WebSocket, Codec)
#: more than a socket with a small buffer takes at once, so that writing is blocked for a time
MUCH = bytes(range(256)) * 256
#: called by the owner, to whom they raise nothing: all that they call is tried by itself
OWNERS = {(layer, name) for layer in (Transport, WebSocket) for name in ("start", "flush", "close")}
#: the last things that are done for a stream, in a few words: what they call is tried
LAST = {(Transport, "_release"), (WebSocket, "connection_lost")}


class Bug(Exception):
    """What nothing expects."""


class Fault:
    """Raises once, in the place that was asked for."""

    def __init__(self) -> None:
        self.raised = 0

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def faulty(*args: Any, **kwargs: Any) -> Any:
            if not self.raised:
                self.raised += 1
                raise Bug("raised on purpose")
            return fn(*args, **kwargs)

        return faulty


class Once(Recorder):
    """A handler that counts what it hears after the end."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)
        self.is_lost.set()


def streams() -> list[tuple[str, type, str]]:
    """Each function of each layer that is in use on each kind of stream."""
    found = []
    for layer in LAYERS:
        for name, fn in vars(layer).items():
            if (
                not inspect.isfunction(fn)
                or name in ("__init__", "abandon")
                or (layer, name) in OWNERS
                or (layer, name) in LAST
            ):
                continue  # __init__ makes the stream; abandon() is for the child of a fork
            for kind in KINDS:
                if (kind == "tcp" and layer in (TlsWriter, TlsEngine)) or (
                    kind != "websocket" and layer in (WebSocket, Codec)
                ):
                    continue
                found.append((kind, layer, name))
    return found


def forgiving(serve: Callable[[Any], object]) -> Callable[[Any], object]:
    """The client may hang up instead of asking."""

    def serving(connection: Any) -> None:
        try:
            serve(connection)
        except AssertionError:
            pass

    return serving


class Stage:
    """A loop and an echo server for each kind of stream."""

    def __init__(self, loop: EventLoop, certificates: Certificates) -> None:
        self.loop = loop
        self._certificates = certificates
        self._tls = TlsParameters(ca_file=certificates.ca_file)

    def server(self, kind: str) -> Server:
        if kind == "tcp":
            return Server(echo)
        return Server(
            echo if kind == "tls" else forgiving(Echo()),
            self._certificates.server(self._certificates.good),
        )

    def connect(self, kind: str, port: int, handler: Recorder) -> None:
        if kind == "websocket":
            websocket(self.loop, port, self._tls, recorder=handler)
        else:
            connect(
                self.loop,
                port,
                host="localhost",
                tls=self._tls if kind == "tls" else None,
                recorder=handler,
            )

    def works(self, kind: str) -> None:
        """Another connection of the same loop is served."""
        with self.server(kind) as server:
            handler = Recorder()
            handler.output += b"alive"
            arrived = handler.expect(5)
            self.connect(kind, server.port, handler)
            assert arrived.wait(PATIENCE)
            assert handler.transport is not None
            on_loop(self.loop, handler.transport.close)
            assert handler.wait_lost() is None


@pytest.fixture
def stage(loop: EventLoop, certificates: Certificates) -> Iterator[Stage]:
    yield Stage(loop, certificates)
    assert loop.is_alive()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("callback", CALLBACKS)
def test_a_callback_that_raises_costs_one_connection(
    stage: Stage, kind: str, callback: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler, fault = Once(), Fault()
    setattr(handler, callback, fault(getattr(handler, callback)))
    if callback == "connection_lost":
        handler.on_connected = lambda: on_loop_later(stage.loop, handler)
    handler.output += b"hello"
    with stage.server(kind) as server:
        stage.connect(kind, server.port, handler)
        if callback == "connection_lost":
            server.join()
            stage.works(kind)
            assert handler.lost == []
        else:
            error = handler.wait_lost()
            assert isinstance(error, Disconnected)
            assert str(error) == (
                f"localhost:{server.port}: internal error: "
                f"Bug('raised on purpose') (at 127.0.0.1:{server.port})"
            )
            assert isinstance(error.__cause__, Bug)
            stage.works(kind)
            assert handler.lost == [error]
    assert fault.raised == 1
    errors = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert errors[0].exc_info is not None
    assert f"localhost:{server.port} at 127.0.0.1:{server.port}" in errors[0].getMessage()


def on_loop_later(loop: EventLoop, handler: Recorder) -> None:
    assert handler.transport is not None
    loop.call_later(0, handler.transport.close)


@pytest.mark.parametrize(
    ("kind", "layer", "name"), streams(), ids=lambda value: getattr(value, "__name__", value)
)
def test_any_function_of_a_stream_that_raises_costs_one_connection(
    stage: Stage, kind: str, layer: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are not called in such an exchange leave it as it is."""
    set_options = dial.set_options

    def small(sock: socket.socket) -> None:
        set_options(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)

    monkeypatch.setattr(dial, "set_options", small)
    fault = Fault()
    monkeypatch.setattr(layer, name, fault(vars(layer)[name]))
    handler = Recorder()
    handler.output += MUCH

    def close() -> None:
        assert handler.transport is not None
        handler.transport.close()

    def all_is_there() -> None:
        if len(handler.input) == len(MUCH):
            stage.loop.call_later(0, close)

    handler.on_data = all_is_there
    with stage.server(kind) as server:
        stage.connect(kind, server.port, handler)
        error = handler.wait_lost()
        assert error is None or isinstance(error, (Disconnected, ConnectError, TlsError))
        assert fault.raised or (error is None and handler.input == MUCH)
        stage.works("tcp")
    assert len(handler.lost) == 1


@pytest.mark.parametrize("name", ["feed", "feed_eof", "_on_event", "__init__"])
def test_a_bug_in_the_tunnel_costs_one_connection(
    stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tunnel, name, Fault()(vars(Tunnel)[name]))

    def proxy(connection: Any) -> None:
        head(connection)
        if name != "feed_eof":
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            connection.recv(1)

    with Server(forgiving(proxy)) as server:
        handler = Recorder()
        transport = Transport(
            stage.loop,
            handler,
            "bus",
            5672,
            timeout=PATIENCE,
            proxy=ProxyParameters("127.0.0.1", server.port),
        )
        on_loop(stage.loop, transport.start)
        error = handler.wait_lost()
    assert isinstance(error, ConnectError)
    assert error.reason == "internal error: Bug('raised on purpose')"
    stage.works("tcp")


def test_a_bug_at_the_deadline_costs_one_connection(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Transport, "_on_timeout", Fault()(Transport._on_timeout))
    monkeypatch.setattr(Dial, "start", lambda self: None)
    handler = connect(stage.loop, 1, timeout=0.01)
    error = handler.wait_lost()
    assert isinstance(error, ConnectError)
    assert error.reason == "internal error: Bug('raised on purpose')"


def test_what_is_no_exception_ends_the_loop(loop: EventLoop) -> None:
    """SystemExit and its like are for the process."""

    class Leave(BaseException):
        pass

    def leave() -> None:
        raise Leave

    dead: list[BaseException] = []
    loop.on_death(dead.append)
    with Server(echo) as server:
        handler = Recorder()
        handler.on_connected = leave
        connect(loop, server.port, recorder=handler)
        handler.wait_lost()
        assert loop.stop(PATIENCE)
    assert [type(cause) for cause in dead] == [Leave]


def test_an_error_whose_words_fail_is_told_all_the_same(stage: Stage) -> None:
    class Mute(Exception):
        def __repr__(self) -> str:
            raise ValueError

        __str__ = __repr__

    def fail() -> None:
        raise Mute

    with Server(echo) as server:
        handler = Recorder()
        handler.on_connected = fail
        connect(stage.loop, server.port, recorder=handler)
        error = handler.wait_lost()
    assert isinstance(error, Disconnected)
    assert error.reason.startswith("internal error: <Mute without words: ValueError>")
