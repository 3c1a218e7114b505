# SPDX-License-Identifier: Apache-2.0
import contextlib
import socket
import threading
import time

import proton
import pytest
from proton.utils import BlockingConnection

from amqp1_driver.testing.peer import ScriptedPeer
from amqp1_driver.testing.proxy import BUFFER, FaultProxy


@pytest.fixture
def upstream():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


@pytest.fixture
def proxy(upstream):
    with FaultProxy(*upstream.getsockname()) as it:
        yield it


@contextlib.contextmanager
def joined(proxy, upstream):
    """The two ends of a connection through the proxy."""
    with socket.create_connection(("127.0.0.1", proxy.port), 10) as client:
        server, _ = upstream.accept()
        server.settimeout(10)
        with server:
            proxy.wait_connections(1)
            yield client, server


def read(sock, size):
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, f"ended after {len(data)} bytes"
        data += piece
    return bytes(data)


def ended(sock):
    """Whether the connection was reset; None if it was closed in order."""
    try:
        return None if sock.recv(1) == b"" else False
    except ConnectionResetError:
        return True


def test_bytes_pass_both_ways_and_so_does_the_end(proxy, upstream):
    with joined(proxy, upstream) as (client, server):
        client.sendall(b"ping")
        assert read(server, 4) == b"ping"
        server.sendall(b"pong")
        assert read(client, 4) == b"pong"
        client.shutdown(socket.SHUT_WR)
        assert server.recv(1) == b""
        server.sendall(b"last words")
        assert read(client, 10) == b"last words"
    proxy.wait_connections(0)
    assert proxy.forwarded == {"up": 4, "down": 14}
    assert (proxy.connections, proxy.accepted) == (0, 1)


def test_cut_resets_both_sides_and_takes_new_connections(proxy, upstream):
    with joined(proxy, upstream) as (client, server):
        proxy.cut()
        assert proxy.connections == 0
        assert ended(client)
        assert ended(server)
    with joined(proxy, upstream) as (client, server):
        client.sendall(b"x")
        assert read(server, 1) == b"x"
        proxy.wait_accepted(2)


def test_refuse_keeps_what_is_up(proxy, upstream):
    with joined(proxy, upstream) as (client, server):
        proxy.refuse()
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.port), 10)
        client.sendall(b"x")
        assert read(server, 1) == b"x"
        proxy.accept_again()
        proxy.accept_again()
        with joined(proxy, upstream):
            proxy.wait_connections(2)


def test_freeze_in_one_direction(proxy, upstream):
    with joined(proxy, upstream) as (client, server):
        proxy.freeze("up")
        client.sendall(b"held")
        server.sendall(b"passes")
        assert read(client, 6) == b"passes"
        assert proxy.forwarded["up"] == 0
        proxy.thaw("up")
        assert read(server, 4) == b"held"


def test_freeze_in_both_directions(proxy, upstream):
    with joined(proxy, upstream) as (client, server):
        proxy.freeze()
        client.sendall(b"one")
        server.sendall(b"two")
        assert proxy.forwarded == {"up": 0, "down": 0}
        proxy.thaw()
        assert read(server, 3) == b"one"
        assert read(client, 3) == b"two"


def test_bytes_can_be_delayed(proxy, upstream):
    with joined(proxy, upstream) as (client, server):
        proxy.delay_bytes(3, "up")
        client.sendall(b"abcdef")
        assert read(server, 3) == b"abc"
        client.sendall(b"gh")
        assert read(server, 2) == b"de"
        proxy.delay_bytes(0)
        assert read(server, 3) == b"fgh"
        proxy.delay_bytes(2)
        client.sendall(b"the end")
        client.shutdown(socket.SHUT_WR)
        assert read(server, 7) == b"the end"
    with pytest.raises(ValueError, match="count must be 0 to 32768"):
        proxy.delay_bytes(32769)


def test_byte_by_byte(proxy, upstream):
    proxy.chunk_size = 1
    assert proxy.chunk_size == 1
    with joined(proxy, upstream) as (client, server):
        client.sendall(b"abcdef")
        assert read(server, 6) == b"abcdef"


@pytest.mark.parametrize("direction", ["up", "down"])
def test_cut_after_so_many_bytes(proxy, upstream, direction):
    with joined(proxy, upstream) as (client, server):
        source, sink = (client, server) if direction == "up" else (server, client)
        source.sendall(b"12")
        assert read(sink, 2) == b"12"
        proxy.cut_after(5, direction)
        source.sendall(b"345678901")
        assert read(sink, 5) == b"34567"
        assert ended(sink)
        proxy.wait_cut()
        proxy.wait_forwarded(7, direction)
    with joined(proxy, upstream) as (client, server):  # once only
        client.sendall(b"1234567890")
        assert read(server, 10) == b"1234567890"


def test_what_it_holds_is_bounded(proxy, upstream):
    size = 16 * 1024 * 1024
    with joined(proxy, upstream) as (client, server):
        writer = threading.Thread(target=client.sendall, args=(b"x" * size,))
        writer.start()
        proxy.wait_forwarded(BUFFER)
        received = 0
        while received < size:
            received += len(server.recv(1 << 20))
            with proxy._changed:
                held = [len(pipe.buffer) for pair in proxy._pairs for pipe in pair.pipes]
            assert max(held) <= BUFFER
        writer.join(10)


def test_a_dead_upstream_resets_the_client():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with FaultProxy(*address) as proxy:
        with (
            pytest.raises(ConnectionResetError),
            socket.create_connection(("127.0.0.1", proxy.port), 10) as client,
        ):
            client.recv(1)
        proxy.wait_accepted(1)
        proxy.wait_connections(0)


def test_waits_time_out(proxy):
    for wait in (
        lambda: proxy.wait_connections(1, 0),
        lambda: proxy.wait_accepted(1, 0),
        lambda: proxy.wait_cut(1, 0),
        lambda: proxy.wait_forwarded(1, "up", 0),
    ):
        with pytest.raises(TimeoutError, match="not within 0 s"):
            wait()


def test_it_stops_with_connections_up(upstream):
    proxy = FaultProxy(*upstream.getsockname())
    with joined(proxy, upstream) as (client, _):
        proxy.stop()
        proxy.stop()
        proxy.cut()  # nothing left to do
        assert ended(client) is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), 10)


def test_an_amqp_client_through_the_proxy():
    with ScriptedPeer(auto=True) as peer, FaultProxy("127.0.0.1", peer.port) as proxy:
        client = BlockingConnection(f"amqp://127.0.0.1:{proxy.port}", timeout=10)
        sender = client.create_sender("q")
        proxy.chunk_size = 7
        sender.send(proton.Message(body="x" * 5000))
        assert peer.transfers[0].body == "x" * 5000
        proxy.cut()
        with pytest.raises(proton.ConnectionException):
            sender.send(proton.Message(body="y"))
        peer.wait_disconnected()


def test_delayed_bytes_come_later_and_in_order(proxy, upstream):
    with joined(proxy, upstream) as (client, server):
        proxy.delay(0.2, "up")
        began = time.monotonic()
        client.sendall(b"one")
        client.sendall(b"two")
        assert read(server, 6) == b"onetwo"
        assert time.monotonic() - began >= 0.2
        server.sendall(b"not held")
        assert read(client, 8) == b"not held"
        proxy.delay(0.0)
        client.sendall(b"three")
        assert read(server, 5) == b"three"


def test_a_throttled_connection_passes_so_many_bytes_per_second(proxy, upstream):
    with joined(proxy, upstream) as (client, server):
        proxy.throttle(10_000, "up")
        began = time.monotonic()
        client.sendall(b"x" * 3000)
        assert read(server, 3000) == b"x" * 3000
        # 500 of them may pass at once
        assert time.monotonic() - began >= 0.2
        proxy.throttle(0)
        client.sendall(b"y" * 100_000)
        assert read(server, 100_000) == b"y" * 100_000


def test_an_abandoned_client_hears_nothing_until_it_is_buried(proxy, upstream):
    with joined(proxy, upstream) as (client, server):
        proxy.abandon()
        assert ended(server) is True
        client.sendall(b"to nobody")
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        client.settimeout(10)
        with joined(proxy, upstream) as (another, there):
            another.sendall(b"x")
            assert read(there, 1) == b"x"
        proxy.bury()
        assert ended(client) is True


def test_the_end_of_a_delayed_stream_comes_after_its_bytes(proxy, upstream):
    with joined(proxy, upstream) as (client, server):
        proxy.delay(0.1, "up")
        client.sendall(b"last")
        client.shutdown(socket.SHUT_WR)
        assert read(server, 4) == b"last"
        assert server.recv(1) == b""
