# SPDX-License-Identifier: Apache-2.0

# ruff: noqa: E402  (eventlet's patches come before or after the imports, as the model says)

"""One scenario in a process of its own: python -m ... MODEL SCENARIO FOLDER.

The models are the ways in which processes use threads: none of eventlet, eventlet's patches
before or after the import of the driver, patches of all but the threads, or of all but select.
An assertion that fails ends the process with a traceback, which the test shows.
"""

import os
import subprocess
import sys
import time
from typing import Any

MODEL, SCENARIO, FOLDER = sys.argv[1:4]

if MODEL in ("before", "no-threads", "no-select"):
    import eventlet

    if MODEL == "before":
        eventlet.monkey_patch()
    elif MODEL == "no-threads":
        eventlet.monkey_patch(thread=False)
    else:
        eventlet.monkey_patch(select=False)

import socket
import ssl
import threading

from amqp1_driver.eventloop import (
    ConnectError,
    EventLoop,
    Future,
    LoopClosed,
    TlsParameters,
    Transport,
    runtime,
)

if MODEL == "after":
    import eventlet

    eventlet.monkey_patch()

GREEN = MODEL in ("before", "after", "no-select")
PATIENCE = 20.0


class Handler:
    def __init__(self, output: bytes = b"") -> None:
        self.output = bytearray(output)
        self.input = bytearray()
        self.expected = len(output)
        self.complete = threading.Event()
        self.gone = threading.Event()
        self.lost: list[Any] = []

    def connected(self, description: str) -> None:
        self.description = description

    def data_received(self, data: bytes) -> None:
        self.input += data
        if len(self.input) >= self.expected:
            self.complete.set()

    def pending_output(self) -> memoryview | None:
        return memoryview(self.output) if self.output else None

    def output_written(self, n: int) -> None:
        del self.output[:n]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)
        self.gone.set()


def new_loop() -> EventLoop:
    loop = EventLoop("scenario")
    loop.start()
    return loop


def on_loop(loop: EventLoop, fn: Any) -> Any:
    future: Future[Any] = Future()
    loop.post(lambda _: future.set_result(fn()))
    return future.result(PATIENCE)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def echo_server(context: ssl.SSLContext | None = None) -> tuple[int, threading.Thread]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        listener.close()
        if context is not None:
            connection = context.wrap_socket(connection, server_side=True)
        while data := connection.recv(65536):
            connection.sendall(data)
        connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return listener.getsockname()[1], thread


def exchange(tls: TlsParameters | None, context: ssl.SSLContext | None) -> None:
    """A megabyte there and back, and nothing left over."""
    port, server = echo_server(context)
    loop = new_loop()
    handler = Handler(os.urandom(1 << 20))
    sent = bytes(handler.output)
    transport = Transport(loop, handler, "localhost", port, tls=tls, timeout=PATIENCE)
    on_loop(loop, transport.start)
    assert handler.complete.wait(PATIENCE)
    assert handler.input == sent
    on_loop(loop, transport.close)
    server.join(PATIENCE)
    assert handler.lost == [None]
    assert loop.stop(PATIENCE)


# -- the scenarios ---------------------------------------------------------------------------


def model() -> None:
    """The loop runs on the kind of thread that the process uses."""
    assert runtime.is_green() is GREEN
    loop = new_loop()
    native_ident = runtime.native("threading").get_ident
    assert (on_loop(loop, native_ident) == native_ident()) is GREEN
    assert on_loop(loop, loop.in_loop) is True
    assert loop.in_loop() is False
    assert loop.stop(PATIENCE)
    assert not loop.is_alive()


def many_callers() -> None:
    """Waits on futures, room and timers do not lose a wake-up."""
    loop = EventLoop("scenario", mailbox_size=4)
    loop.start()
    done = []

    def work(name: int) -> None:
        for n in range(100):
            future: Future[int] = Future()
            loop.put(future.set_result, n, PATIENCE)
            assert future.result(PATIENCE) == n
        done.append(name)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(done) == list(range(20))
    fired = threading.Event()
    on_loop(loop, lambda: loop.call_later(0.01, fired.set))
    assert fired.wait(PATIENCE)
    started = time.monotonic()
    never: Future[None] = Future()
    try:
        never.result(0.05)
    except TimeoutError:
        pass
    else:
        raise AssertionError
    assert 0.05 <= time.monotonic() - started < 1
    assert loop.stop(PATIENCE)


def clear() -> None:
    before = descriptors()
    exchange(None, None)
    exchange(None, None)
    assert descriptors() <= before + (2 if MODEL != "native" else 0)


def tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER + "/server.pem")
    parameters = TlsParameters(ca_file=FOLDER + "/ca.pem", min_version="TLSv1.3")
    exchange(parameters, context)


def refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    loop = new_loop()
    handler = Handler()
    transport = Transport(loop, handler, "127.0.0.1", port, timeout=PATIENCE)
    on_loop(loop, transport.start)
    assert handler.gone.wait(PATIENCE)
    assert "Connection refused" in str(handler.lost[0])
    assert loop.stop(PATIENCE)


def hanging_lookup() -> None:
    """A lookup that hangs holds up neither the loop nor the hub nor the deadline."""
    release = runtime.native("threading").Event()
    returned = runtime.native("threading").Event()

    def hang(*_: Any, **__: Any) -> Any:
        release.wait(PATIENCE)
        returned.set()
        return []

    runtime.native("socket").getaddrinfo = hang
    loop = new_loop()
    handler = Handler()
    transport = Transport(loop, handler, "slow.invalid", 5672, timeout=0.1)
    started = time.monotonic()
    on_loop(loop, transport.start)
    for _ in range(50):
        on_loop(loop, lambda: None)
    assert handler.gone.wait(PATIENCE)
    assert 0.1 <= time.monotonic() - started < 2
    assert isinstance(handler.lost[0], ConnectError)
    assert "timed out looking up" in str(handler.lost[0])
    release.set()
    assert returned.wait(PATIENCE)
    on_loop(loop, lambda: None)
    assert len(handler.lost) == 1
    assert loop.stop(PATIENCE)


def busy_loop_lets_others_run() -> None:
    """Operations that follow one another without end do not starve the process."""
    loop = new_loop()
    going = [True]

    def again(_: object) -> None:
        if going[0]:
            loop.post(again)

    loop.post(again)
    turns = []
    other = threading.Thread(target=lambda: turns.append(1))
    other.start()
    other.join(PATIENCE)
    assert turns == [1]
    going[0] = False
    assert loop.stop(PATIENCE)


def death() -> None:
    loop = new_loop()
    died = threading.Event()
    loop.on_death(lambda exc: died.set())

    def fail(_: object) -> None:
        raise ValueError("bug")

    loop.post(fail)
    assert died.wait(PATIENCE)
    assert loop.stop(PATIENCE)
    try:
        loop.post(fail)
    except LoopClosed as exc:
        assert isinstance(exc.cause, ValueError)
    else:
        raise AssertionError


def fork() -> None:
    """The child makes a loop of its own; nothing of the parent's is open or used in it."""
    port, server = echo_server()
    loop = new_loop()
    handler = Handler(b"before the fork")
    transport = Transport(loop, handler, "127.0.0.1", port, timeout=PATIENCE)
    on_loop(loop, transport.start)
    assert handler.complete.wait(PATIENCE)
    inherited = transport._socket.fileno()  # type: ignore[union-attr]
    stay, leave = os.pipe()

    child = os.fork()
    if child == 0:
        status = 1
        try:
            if MODEL != "native":
                eventlet.hubs.use_hub()  # as oslo.service does
            try:
                loop.post(print)
            except LoopClosed as exc:
                assert "belongs to the parent" in str(exc)
            else:
                raise AssertionError
            assert not loop.is_alive()
            assert loop.stop(0)
            try:
                os.fstat(inherited)
            except OSError:
                pass
            else:
                raise AssertionError("the connection is open in the child")
            fresh = new_loop()
            assert on_loop(fresh, lambda: 42) == 42
            assert fresh.stop(PATIENCE)
            os.close(leave)
            # Stays until the parent has seen that its connection closes in spite of it.
            runtime.native("os").read(stay, 1)
            status = 0
        finally:
            if status:
                import traceback

                traceback.print_exc()
            os._exit(status)

    os.close(stay)
    # The parent's connection works on ...
    handler.complete.clear()
    handler.expected = len(b"before the fork, and after")
    handler.output += b", and after"
    on_loop(loop, transport.flush)
    assert handler.complete.wait(PATIENCE)
    # ... and the server sees its end, although the child lives.
    on_loop(loop, transport.close)
    server.join(PATIENCE)
    assert not server.is_alive()
    os.close(leave)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert loop.stop(PATIENCE)


def close_on_exec() -> None:
    """A program that is started inherits none of the loop's descriptors."""
    port, server = echo_server()
    loop = new_loop()
    handler = Handler(b"x")
    transport = Transport(loop, handler, "127.0.0.1", port, timeout=PATIENCE)
    on_loop(loop, transport.start)
    assert handler.complete.wait(PATIENCE)
    # The listing itself has a descriptor open, which is gone when its link is read.
    listing = """
import os
for name in os.listdir("/proc/self/fd"):
    try:
        print(name, os.readlink("/proc/self/fd/" + name))
    except OSError:
        pass
"""
    output = subprocess.run(
        [sys.executable, "-c", listing], close_fds=False, stdout=subprocess.PIPE, check=True
    ).stdout
    assert b"0 " in output
    assert b"socket:" not in output, output
    assert b"eventfd" not in output, output
    assert b"eventpoll" not in output, output
    assert loop.stop(PATIENCE)
    server.join(PATIENCE)


def left_running() -> None:
    """A loop that nobody stops does not keep the process."""
    loop = new_loop()
    assert on_loop(loop, lambda: 1) == 1


if __name__ == "__main__":
    globals()[SCENARIO]()
    print("passed")
