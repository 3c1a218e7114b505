# SPDX-License-Identifier: Apache-2.0

"""TCP: name lookup, addresses, reading, writing, and every way in which it can end."""

import errno
import os
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest

from amqp1_driver.eventloop import (
    ConnectError,
    Disconnected,
    EventLoop,
    LoopClosed,
    Transport,
)
from amqp1_driver.eventloop.dial import Dial, Stage
from amqp1_driver.eventloop.guard import Guard
from amqp1_driver.eventloop.transport import State
from tests.unit.eventloop.helpers import (
    PATIENCE,
    Recorder,
    Server,
    closed_port,
    connect,
    echo,
    on_loop,
    open_descriptors,
    reset,
    until_eof,
)

ResolveTo = Callable[..., None]


def closed(loop: EventLoop, recorder: Recorder) -> None:
    assert recorder.transport is not None
    on_loop(loop, recorder.transport.close)


def test_data_goes_both_ways(loop: EventLoop) -> None:
    before = open_descriptors()
    with Server(echo) as server:
        recorder = Recorder()
        recorder.output += b"hello"
        arrived = recorder.expect(5)
        connect(loop, server.port, recorder=recorder)
        assert arrived.wait(PATIENCE)
        assert recorder.transport is not None
        assert recorder.transport._state is State.OPEN
        closed(loop, recorder)
        assert recorder.wait_lost() is None
        server.join()
        assert recorder.description.startswith(
            f"127.0.0.1:{server.port} at 127.0.0.1:{server.port} from 127.0.0.1:"
        )
    assert recorder.calls == ["connected", "data", "lost"]
    assert recorder.input == b"hello"
    assert open_descriptors() <= before


def test_the_socket_is_set_up_for_small_frames_and_dead_peers(loop: EventLoop) -> None:
    with Server(until_eof) as server:
        recorder = connect(loop, server.port)
        recorder.wait_connected()
        assert recorder.transport is not None
        sock = recorder.transport._socket
        assert sock is not None
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        assert not sock.get_inheritable()
        assert not sock.getblocking()
        closed(loop, recorder)


def test_large_writes_go_out_in_parts(loop: EventLoop) -> None:
    payload = os.urandom(1 << 20) * 16
    received: list[bytes] = []
    go = threading.Event()

    def slow(connection: Any) -> None:
        assert go.wait(PATIENCE)
        received.append(until_eof(connection))

    with Server(slow) as server:
        recorder = Recorder()
        recorder.output += payload
        connect(loop, server.port, recorder=recorder)
        recorder.wait_connected()
        left = on_loop(loop, lambda: len(recorder.output))
        assert 0 < left < len(payload)  # EAGAIN: what the socket did not take stays
        emptied = threading.Event()
        take = recorder.output_written

        def output_written(n: int) -> None:
            take(n)
            if not recorder.output:
                emptied.set()

        recorder.output_written = output_written  # type: ignore[method-assign]
        go.set()
        assert emptied.wait(PATIENCE)
        closed(loop, recorder)
        server.join()
    assert received[0] == payload


def test_large_reads_come_whole_and_others_have_their_turn(loop: EventLoop) -> None:
    payload = os.urandom(1 << 20) * 16
    with Server(lambda connection: connection.sendall(payload)) as server:
        recorder = Recorder()
        connect(loop, server.port, recorder=recorder)
        assert isinstance(recorder.wait_lost(), Disconnected)
    assert recorder.input == payload


def test_flush_sends_what_came_later(loop: EventLoop) -> None:
    with Server(echo) as server:
        recorder = connect(loop, server.port)
        arrived = recorder.expect(4)
        recorder.wait_connected()

        def write() -> None:
            recorder.output += b"late"
            assert recorder.transport is not None
            recorder.transport.flush()
            assert not recorder.output

        on_loop(loop, write)
        assert arrived.wait(PATIENCE)
        closed(loop, recorder)


def test_output_offered_as_bytes_is_taken_too(loop: EventLoop) -> None:
    class Plain(Recorder):
        def pending_output(self) -> Any:
            return bytes(self.output)

    with Server(echo) as server:
        recorder = Plain()
        recorder.output += b"bytes"
        arrived = recorder.expect(5)
        connect(loop, server.port, recorder=recorder)
        assert arrived.wait(PATIENCE)
        closed(loop, recorder)


# -- names and addresses -----------------------------------------------------------------------


def test_a_name_that_does_not_resolve(loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    error = connect(loop, 5672, host="nowhere.invalid").wait_lost()
    assert isinstance(error, ConnectError)
    assert str(error) == (
        "nowhere.invalid:5672: the host name does not resolve: Name or service not known"
    )
    assert isinstance(error.__cause__, socket.gaierror)
    assert on_loop(loop, lambda: 1) == 1


def test_a_lookup_that_fails_in_its_own_way(
    loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("resolver bug")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    error = connect(loop, 5672, host="nowhere.invalid").wait_lost()
    assert isinstance(error, ConnectError)
    assert "resolver bug" in str(error)


def test_a_lookup_without_an_address(loop: EventLoop, resolve_to: ResolveTo) -> None:
    resolve_to()
    error = connect(loop, 5672, host="empty.invalid").wait_lost()
    assert isinstance(error, ConnectError)
    assert str(error) == "empty.invalid:5672: cannot connect"


def test_a_lookup_that_hangs_ends_with_the_deadline_and_holds_nobody_up(
    loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    left = threading.Event()
    lookup = socket.getaddrinfo

    def hang(*args: Any, **kwargs: Any) -> Any:
        release.wait(PATIENCE)
        left.set()
        return lookup("127.0.0.1", 1, 0, socket.SOCK_STREAM)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    start = loop.now()
    recorder = connect(loop, 5672, host="slow.invalid", timeout=0.05)
    assert on_loop(loop, lambda: 1) == 1  # the loop goes on
    error = recorder.wait_lost()
    assert loop.now() - start < 1
    assert isinstance(error, ConnectError)
    assert str(error) == (
        "slow.invalid:5672: not connected within 0.05 s: timed out looking up the host name"
    )
    release.set()
    assert left.wait(PATIENCE)
    on_loop(loop, lambda: None)
    assert recorder.calls == ["lost"]


def test_a_lookup_that_outlives_the_loop_disturbs_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()
    threads: list[threading.Thread] = []
    seen: list[Any] = []
    started = threading.Event()

    def hang(*_: Any, **__: Any) -> Any:
        threads.append(threading.current_thread())
        started.set()
        release.wait(PATIENCE)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setattr(threading, "excepthook", seen.append)
    loop = EventLoop("brief")
    loop.start()
    recorder = connect(loop, 5672, host="slow.invalid")
    assert started.wait(PATIENCE)
    assert loop.stop(PATIENCE)
    assert isinstance(recorder.wait_lost(), LoopClosed)
    release.set()
    threads[0].join(PATIENCE)
    assert seen == []
    assert recorder.calls == ["lost"]


def test_no_thread_for_the_lookup(loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    error = connect(loop, 5672).wait_lost()
    assert isinstance(error, ConnectError)
    assert "can't start new thread" in str(error)


def test_a_dead_ipv6_address_does_not_hide_the_live_ipv4_one(
    loop: EventLoop, resolve_to: ResolveTo
) -> None:
    with Server(until_eof) as server:
        resolve_to(("::1", closed_port()), ("127.0.0.1", server.port))
        recorder = connect(loop, server.port, host="both.example")
        recorder.wait_connected()
        assert f"both.example:{server.port} at 127.0.0.1:{server.port}" in recorder.description
        closed(loop, recorder)
    assert recorder.calls == ["connected", "lost"]


def test_an_address_that_swallows_packets_leaves_time_for_the_next(
    loop: EventLoop, resolve_to: ResolveTo
) -> None:
    black_hole = socket.socket()
    black_hole.bind(("127.0.0.1", 0))
    black_hole.listen(0)
    hole = black_hole.getsockname()
    fillers = []
    for _ in range(3):  # a full backlog drops further attempts without a word
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(hole)
        fillers.append(filler)
    with Server(until_eof) as server:
        resolve_to(hole, ("127.0.0.1", server.port))
        recorder = connect(loop, server.port, host="half.example", timeout=1.0)
        recorder.wait_connected()
        closed(loop, recorder)
    resolve_to(hole)
    error = connect(loop, hole[1], host="hole.example", timeout=0.5).wait_lost()
    assert isinstance(error, ConnectError)
    assert f"timed out connecting to 127.0.0.1:{hole[1]}" in str(error)
    for each in [black_hole, *fillers]:
        each.close()


def test_when_all_addresses_fail_each_is_named(loop: EventLoop, resolve_to: ResolveTo) -> None:
    one, two = closed_port(), closed_port()
    resolve_to(("127.0.0.1", one), ("127.0.0.1", two), ("127.0.0.1", one))
    before = open_descriptors()
    error = connect(loop, 5672, host="down.example").wait_lost()
    assert isinstance(error, ConnectError)
    assert str(error) == (
        "down.example:5672: cannot connect"
        f" (127.0.0.1:{one}: Connection refused; 127.0.0.1:{two}: Connection refused)"
    )
    assert error.host == "down.example"
    assert error.port == 5672
    codes = [exc.errno for _, exc in error.failures if isinstance(exc, OSError)]
    assert codes == [errno.ECONNREFUSED, errno.ECONNREFUSED]
    assert open_descriptors() == before


def test_an_address_that_no_socket_can_be_made_for(
    loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
        return [(12345, socket.SOCK_STREAM, 0, "", ("odd", 1))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    error = connect(loop, 5672, host="odd.example").wait_lost()
    assert isinstance(error, ConnectError)
    assert "odd:1: Address family not supported" in str(error)


def test_a_socket_connected_to_itself_is_no_connection(loop: EventLoop) -> None:
    """The kernel may choose the closed port that is connected to as the port of this end."""
    own = socket.socket()
    own.bind(("127.0.0.1", 0))
    own.connect(own.getsockname())
    results: list[Any] = []

    def check() -> None:
        guard = Guard(loop, results.append)
        connector = Dial(guard, "h", 1, None, None, loop.now() + 1, results.append)
        connector._socket = own
        connector._address = "127.0.0.1:1"
        connector._on_event()

    on_loop(loop, check)
    assert isinstance(results[0], ConnectError)
    assert "127.0.0.1:1: Connection refused" in str(results[0])
    assert own.fileno() == -1


def test_an_event_before_the_connection_is_up_means_nothing(loop: EventLoop) -> None:
    fresh = socket.socket()
    results: list[Any] = []

    def check() -> None:
        guard = Guard(loop, results.append)
        connector = Dial(guard, "h", 1, None, None, loop.now() + 1, results.append)
        connector._socket = fresh
        connector._on_event()
        assert results == []
        connector.abort()

    on_loop(loop, check)
    assert fresh.fileno() == -1


# -- the end -----------------------------------------------------------------------------------


def test_the_peer_closes(loop: EventLoop) -> None:
    with Server(lambda connection: connection.sendall(b"bye")) as server:
        recorder = connect(loop, server.port)
        error = recorder.wait_lost()
        assert isinstance(error, Disconnected)
        assert str(error) == f"127.0.0.1:{server.port}: the peer closed the connection"
    assert recorder.calls == ["connected", "data", "lost"]


def test_the_peer_resets(loop: EventLoop) -> None:
    with Server(reset) as server:
        recorder = connect(loop, server.port)
        error = recorder.wait_lost()
        on_loop(loop, lambda: None)
    assert len(recorder.lost) == 1
    assert isinstance(error, Disconnected | ConnectError)
    assert "Connection reset by peer" in str(error)


def test_what_the_peer_said_last_is_heard_although_sending_fails(loop: EventLoop) -> None:
    """A bus that closes says why; a write that fails first must not hide it."""
    gone = threading.Event()
    speak = threading.Event()

    def serve(connection: Any) -> None:
        assert speak.wait(PATIENCE)
        connection.sendall(b"this is why")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        connection.close()
        gone.set()

    with Server(serve) as server:
        recorder = connect(loop, server.port)
        recorder.wait_connected()
        transport = recorder.transport
        assert transport is not None

        def write() -> None:
            speak.set()
            assert gone.wait(PATIENCE)
            for _ in range(3):  # the first is answered by a reset, the next one fails
                recorder.output += b"x"
                transport.flush()
            assert transport._outlet is not None
            assert transport._outlet.error is not None
            assert recorder.lost == []

        on_loop(loop, write)
        error = recorder.wait_lost()
    assert recorder.input == b"this is why"
    assert recorder.calls == ["connected", "data", "lost"]
    assert isinstance(error, Disconnected)


def test_the_handler_may_close_from_any_callback(loop: EventLoop) -> None:
    for where in ("connected", "data", "written"):
        with Server(echo) as server:
            recorder = Recorder()
            recorder.output += b"x" * 10
            transport = Transport(loop, recorder, "127.0.0.1", server.port, timeout=PATIENCE)
            if where == "connected":
                recorder.on_connected = transport.close
            elif where == "data":
                recorder.on_data = transport.close
            else:
                take = recorder.output_written

                def written(n: int, take: Any = take, transport: Transport = transport) -> None:
                    take(n)
                    transport.close()

                recorder.output_written = written  # type: ignore[method-assign]
            on_loop(loop, transport.start)
            assert recorder.wait_lost() is None
            on_loop(loop, transport.close)
            on_loop(loop, transport.flush)
        assert recorder.calls.count("lost") == 1
        assert recorder.calls[-1] == "lost"


def test_close_before_the_start_and_while_connecting(
    loop: EventLoop, resolve_to: ResolveTo
) -> None:
    recorder = Recorder()
    transport = Transport(loop, recorder, "127.0.0.1", 1, timeout=PATIENCE)
    on_loop(loop, transport.close)
    assert recorder.lost == [None]

    before = open_descriptors()
    with Server(until_eof) as server:
        resolve_to(("127.0.0.1", server.port))
        recorder = Recorder()
        transport = Transport(loop, recorder, "h.example", server.port, timeout=PATIENCE)

        def start_and_close() -> None:
            transport.start()
            assert transport._state is State.APPROACH
            transport.close()

        on_loop(loop, start_and_close)
        assert recorder.lost == [None]

        recorder = Recorder()
        other = Transport(loop, recorder, "h.example", server.port, timeout=PATIENCE)
        result = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", server.port))]

        def connect_and_close() -> None:
            other.start()
            approach = other._approach
            assert approach is not None
            approach._on_prepared((result, None))  # type: ignore[arg-type]
            assert approach.stage is Stage.CONNECTING
            other.close()

        on_loop(loop, connect_and_close)
        assert recorder.calls == ["lost"]
    assert open_descriptors() == before


def test_the_end_of_the_loop_ends_its_connections() -> None:
    before = open_descriptors()
    loop = EventLoop("ending")
    loop.start()
    with Server(until_eof) as server:
        recorder = connect(loop, server.port)
        recorder.wait_connected()
        assert loop.stop(PATIENCE)
        server.join()
    assert len(recorder.lost) == 1
    assert isinstance(recorder.lost[0], LoopClosed)
    assert open_descriptors() == before


def test_the_death_of_the_loop_ends_its_connections(caplog: pytest.LogCaptureFixture) -> None:
    before = open_descriptors()
    loop = EventLoop("dying")
    loop.start()

    def fail(_: object) -> None:
        raise ValueError("bug")

    with Server(until_eof) as server:
        recorder = connect(loop, server.port)
        recorder.wait_connected()
        loop.post(fail)
        error = recorder.wait_lost()
        server.join()
    assert loop.stop(PATIENCE)
    assert isinstance(error, LoopClosed)
    assert isinstance(error.cause, ValueError)
    assert open_descriptors() == before


def test_no_timer_is_left_behind(loop: EventLoop, resolve_to: ResolveTo) -> None:
    with Server(until_eof) as server:
        resolve_to(("127.0.0.1", closed_port()), ("127.0.0.1", server.port))
        recorder = connect(loop, server.port, host="h.example")
        recorder.wait_connected()
        assert on_loop(loop, lambda: len(loop._timers)) == 0
        closed(loop, recorder)
    connect(loop, closed_port()).wait_lost()
    assert on_loop(loop, lambda: len(loop._timers)) == 0


def test_an_ipv6_host_is_written_in_brackets(loop: EventLoop) -> None:
    error = connect(loop, closed_port(), host="::1").wait_lost()
    assert isinstance(error, ConnectError)
    assert str(error).startswith(f"[::1]:{error.port}: cannot connect ([::1]:{error.port}: ")
