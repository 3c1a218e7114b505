# SPDX-License-Identifier: Apache-2.0

"""Servers, handlers and loops that the tests of the event loop share."""

import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from amqp1_driver.eventloop import EventLoop, Future, TlsParameters, Transport

T = TypeVar("T")

#: Seconds after which a test that waits has failed; never reached when all is well.
PATIENCE = 20.0


def on_loop(loop: EventLoop, fn: Callable[[], T]) -> T:
    """Run ``fn()`` on the loop thread; its result or exception. The loop survives both."""
    future: Future[T] = Future()

    def run(_: object) -> None:
        try:
            future.set_result(fn())
        except Exception as exc:
            future.set_exception(exc)

    loop.post(run)
    return future.result(PATIENCE)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


class Op:
    """An operation that remembers what became of it."""

    def __init__(self) -> None:
        self.ran = threading.Event()
        self.error: BaseException | None = None
        self.aborts = 0

    def run(self) -> None:
        self.ran.set()

    def abort(self, exc: BaseException) -> None:
        self.aborts += 1
        self.error = exc
        self.ran.set()


class Recorder:
    """A transport handler that records; events for the test thread to wait on."""

    def __init__(self) -> None:
        self.transport: Transport | None = None
        self.output = bytearray()
        self.input = bytearray()
        self.calls: list[str] = []
        self.description = ""
        self.lost: list[Exception | None] = []
        self.is_connected = threading.Event()
        self.is_lost = threading.Event()
        self._expected = 0
        self._arrived = threading.Event()
        self.on_connected: Callable[[], object] = lambda: None
        self.on_data: Callable[[], object] = lambda: None

    def connected(self, description: str) -> None:
        self.calls.append("connected")
        self.description = description
        self.on_connected()
        self.is_connected.set()

    def data_received(self, data: bytes) -> None:
        assert data
        if self.calls[-1:] != ["data"]:
            self.calls.append("data")
        self.input += data
        if self._expected and len(self.input) >= self._expected:
            self._arrived.set()
        self.on_data()

    def pending_output(self) -> memoryview | None:
        return memoryview(self.output) if self.output else None

    def output_written(self, n: int) -> None:
        assert n > 0
        del self.output[:n]

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.lost.append(exc)
        self.is_lost.set()

    def expect(self, count: int) -> threading.Event:
        """An event for ``count`` bytes of input in all; to be asked for before they can come."""
        self._expected = count
        return self._arrived

    def wait_connected(self) -> None:
        assert self.is_connected.wait(PATIENCE), self.lost

    def wait_lost(self) -> Exception | None:
        assert self.is_lost.wait(PATIENCE)
        return self.lost[0]


def connect(
    loop: EventLoop,
    port: int,
    *,
    host: str = "127.0.0.1",
    tls: TlsParameters | None = None,
    timeout: float = PATIENCE,
    recorder: Recorder | None = None,
) -> Recorder:
    """Start a transport; its handler."""
    handler = recorder or Recorder()
    transport = Transport(loop, handler, host, port, tls=tls, timeout=timeout)
    handler.transport = transport
    on_loop(loop, transport.start)
    return handler


class Server:
    """A listening socket whose connections ``serve(connection)`` handles in one thread."""

    def __init__(
        self,
        serve: Callable[[Any], object],
        context: ssl.SSLContext | None = None,
        address: str = "127.0.0.1",
    ) -> None:
        self._serve = serve
        self._context = context
        self._listener = socket.create_server((address, 0))
        self.port: int = self._listener.getsockname()[1]
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # ends accept()
        except OSError:
            pass
        self._listener.close()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            self._serve(connection)
        except OSError as exc:
            self.error = exc
        finally:
            connection.close()

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def until_eof(connection: Any) -> bytes:
    """Read to the end; a reset is an end too."""
    data = bytearray()
    try:
        while chunk := connection.recv(65536):
            data += chunk
    except ConnectionError:
        pass
    return bytes(data)


def echo(connection: Any) -> None:
    while chunk := connection.recv(65536):
        connection.sendall(chunk)


def reset(connection: socket.socket) -> None:
    """Close with a TCP reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
