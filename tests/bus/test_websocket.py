# SPDX-License-Identifier: Apache-2.0

"""AMQP over WebSocket: frame by frame with literals of RFC 6455, then on real sockets."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import websocket
from hypothesis import given
from hypothesis import strategies as st
from proton import Collector, Connection, Message, Transport

from amqp1_driver.bus import Bus
from amqp1_driver.bus.websocket import WebSocketServer

TIMEOUT = 10
AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
PATH = "/$servicebus/websocket"
NO_MASK = bytes(4)
#: RFC 6455 1.3: this key is answered with this value.
KEY, ACCEPT = "dGhlIHNhbXBsZSBub25jZQ==", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def request(path: str = PATH, subprotocols: str | None = "amqp") -> bytes:
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: bus",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {KEY}",
        "Sec-WebSocket-Version: 13",
    ]
    if subprotocols is not None:
        lines.append(f"Sec-WebSocket-Protocol: {subprotocols}")
    return "\r\n".join([*lines, "", ""]).encode()


def taken(server: WebSocketServer) -> bytes:
    output = bytes(server.output)
    server.output.clear()
    return output


@pytest.fixture
def server() -> WebSocketServer:
    """A server whose handshake is over."""
    server = WebSocketServer()
    assert server.feed(request()) == b""
    assert taken(server).startswith(b"HTTP/1.1 101 ")
    return server


@pytest.mark.parametrize(
    "path", [PATH, PATH + "/", "/%24servicebus/websocket", PATH + "?sb-hc-id=1", PATH.upper()]
)
def test_the_handshake_is_answered_with_the_key_and_the_subprotocol(path: str) -> None:
    server = WebSocketServer()
    for byte in request(path):
        server.feed(bytes((byte,)))
    head = taken(server).lower()
    assert head.startswith(b"http/1.1 101 ")
    assert b"sec-websocket-accept: " + ACCEPT.lower() in head
    assert b"sec-websocket-protocol: amqp\r\n" in head
    assert not server.ended


def test_the_older_name_of_the_subprotocol_is_good_too() -> None:
    server = WebSocketServer()
    server.feed(request(subprotocols="x, AMQPWSB10"))
    assert b"sec-websocket-protocol: amqpwsb10\r\n" in taken(server).lower()


@pytest.mark.parametrize(
    "hello, status, problem",
    [
        (request("/"), b"HTTP/1.1 404 ", "nothing is served at /"),
        (request("/chat"), b"HTTP/1.1 404 ", "nothing is served at /chat"),
        (request(subprotocols=None), b"HTTP/1.1 400 ", "amqp was not offered"),
        (request(subprotocols="mqtt"), b"HTTP/1.1 400 ", "amqp was not offered"),
        (b"GET / HTTP/1.1\r\nHost: bus\r\n\r\n", b"HTTP/1.1 400 ", ""),
        (AMQP + b"\r\n\r\n", b"HTTP/1.1 400 ", ""),
    ],
)
def test_anything_else_is_refused_in_http(hello: bytes, status: bytes, problem: str) -> None:
    server = WebSocketServer()
    assert server.feed(hello) == b""
    assert taken(server).startswith(status)
    assert server.ended
    assert problem in (server.problem or "")
    assert server.feed(request()) == b""
    assert taken(server) == b""


def test_a_binary_message_is_bytes_of_amqp(server: WebSocketServer) -> None:
    assert server.feed(b"\x82\x88" + NO_MASK + AMQP) == AMQP


def test_the_mask_is_taken_off(server: WebSocketServer) -> None:
    # RFC 6455 5.7: "Hello", masked; there as text.
    assert server.feed(bytes.fromhex("82 85 37fa213d 7f9f4d5158")) == b"Hello"


def test_messages_may_come_in_fragments_with_a_ping_between_and_byte_by_byte(
    server: WebSocketServer,
) -> None:
    wire = b"\x02\x83" + NO_MASK + AMQP[:3]
    wire += b"\x89\x82" + NO_MASK + b"hi"
    wire += b"\x80\x85" + NO_MASK + AMQP[3:]
    assert b"".join(server.feed(bytes((byte,))) for byte in wire) == AMQP
    assert taken(server) == b"\x8a\x02hi"


def test_several_messages_may_come_at_once(server: WebSocketServer) -> None:
    one = b"\x82\x84" + NO_MASK
    assert server.feed(one + AMQP[:4] + one + AMQP[4:]) == AMQP


def test_output_is_one_unmasked_binary_message(server: WebSocketServer) -> None:
    server.wrap(AMQP)
    assert taken(server) == b"\x82\x08" + AMQP


def test_a_close_is_echoed_and_ends_it(server: WebSocketServer) -> None:
    server.feed(b"\x88\x82" + NO_MASK + b"\x03\xe8")
    assert taken(server) == b"\x88\x02\x03\xe8"
    assert server.ended
    assert server.problem is None
    server.wrap(AMQP)
    server.close()
    assert taken(server) == b""


def test_our_own_close_is_said_once(server: WebSocketServer) -> None:
    server.close()
    server.close()
    assert taken(server) == b"\x88\x02\x03\xe8"
    server.feed(b"\x88\x82" + NO_MASK + b"\x03\xe8")
    assert server.ended
    assert taken(server) == b""


@pytest.mark.parametrize(
    "wire, code",
    [
        (b"\x81\x82" + NO_MASK + b"hi", b"\x03\xeb"),  # text: 1003
        (b"\x82\x02hi", b"\x03\xea"),  # not masked: 1002
        (b"\x83\x80" + NO_MASK, b"\x03\xea"),  # a reserved opcode: 1002
    ],
)
def test_what_is_not_allowed_is_answered_with_a_close(
    server: WebSocketServer, wire: bytes, code: bytes
) -> None:
    assert server.feed(wire) == b""
    assert taken(server)[2:4] == code
    assert server.ended
    assert server.problem


@given(st.lists(st.binary(max_size=40), max_size=8), st.booleans())
def test_no_bytes_do_harm(chunks: list[bytes], greeted: bool) -> None:
    server = WebSocketServer()
    if greeted:
        server.feed(request())
    for chunk in chunks:
        server.feed(chunk)
        server.wrap(AMQP)
    server.close()
    if server.ended:
        taken(server)
        server.wrap(AMQP)
        assert taken(server) == b""


# -- on sockets --------------------------------------------------------------


class Client:
    """A proton client over websocket-client; ``chunk``: bytes in each message, None = any."""

    def __init__(self, url: str, chunk: int | None = None, **options: Any) -> None:
        self.socket = websocket.create_connection(
            url, subprotocols=["amqp"], timeout=TIMEOUT, **options
        )
        self._chunk = chunk
        self.connection = Connection()
        self.connection.container = "client"
        self._collector = Collector()
        self.connection.collect(self._collector)
        self._transport = Transport()
        self._transport.bind(self.connection)
        self.connection.open()
        self.session = self.connection.session()
        self.session.open()

    def write(self) -> None:
        while (size := self._transport.pending()) > 0:
            data = bytes(self._transport.peek(size) or b"")
            self._transport.pop(size)
            step = self._chunk or len(data)
            for at in range(0, len(data), step):
                self.socket.send_binary(data[at : at + step])

    def until(self, condition: Callable[[], Any]) -> Any:
        self.write()
        while not (result := condition()):
            self._read(self.socket.recv())
            self.write()
        return result

    def _read(self, data: bytes) -> None:
        while data:
            room = self._transport.capacity()
            self._transport.push(data[:room])
            data = data[room:]
            while self._collector.peek() is not None:
                self._collector.pop()


@pytest.fixture
def bus() -> Iterator[Bus]:
    with Bus("broker", websocket_port=0) as running:
        yield running


def exchange(client: Client, body: str) -> str:
    """Send a message to a queue and receive it again."""
    sender = client.session.sender("out")
    sender.target.address = "q"
    receiver = client.session.receiver("in")
    receiver.source.address = "q"
    sender.open()
    receiver.open()
    receiver.flow(1)
    client.until(lambda: sender.credit)
    sender.send(Message(body=body))
    delivery = client.until(
        lambda: receiver.current if receiver.current and not receiver.current.partial else None
    )
    message = Message()
    message.decode(receiver.recv(delivery.pending))
    delivery.update(delivery.ACCEPTED)
    delivery.settle()
    client.write()
    return str(message.body)


@pytest.mark.parametrize("chunk", [None, 1, 7])
def test_amqp_frames_may_begin_and_end_anywhere_in_messages(bus: Bus, chunk: int | None) -> None:
    assert bus.websocket_address == f"ws://127.0.0.1:{bus.websocket_port}{PATH}"
    client = Client(str(bus.websocket_address), chunk)
    assert exchange(client, "hello") == "hello"
    client.socket.close()
    bus.wait_until(lambda b: not b.peek_connections())


def test_a_message_of_two_megabytes_goes_both_ways(bus: Bus) -> None:
    client = Client(str(bus.websocket_address))
    body = "x" * 2_000_000
    assert exchange(client, body) == body
    client.socket.close()


def test_a_closing_bus_closes_amqp_then_the_websocket(bus: Bus) -> None:
    client = Client(str(bus.websocket_address))
    exchange(client, "hello")
    bus.close_connections()
    client.until(lambda: client.connection.remote_condition)
    assert client.connection.remote_condition.name == "amqp:connection:forced"
    client.connection.close()
    client.write()
    opcode, data = client.socket.recv_data()
    assert (opcode, data) == (8, b"\x03\xe8")
    client.socket.shutdown()


def test_a_password_is_asked_for_over_websocket_too() -> None:
    with Bus("broker", websocket_port=0, users={"joe": "secret"}) as bus:
        sock = websocket.create_connection(
            str(bus.websocket_address), subprotocols=["amqp"], timeout=TIMEOUT
        )
        sock.send_binary(AMQP)
        assert sock.recv() == SASL
        assert sock.recv_data() == (8, b"\x03\xe8")
        sock.shutdown()


def test_tls_is_below_the_websocket(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = str(tmp_path / "server.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with Bus("broker", websocket_port=0, tls_cert=certificate) as bus:
        assert bus.websocket_address == f"wss://127.0.0.1:{bus.websocket_port}{PATH}"
        url = f"wss://localhost:{bus.websocket_port}{PATH}"
        client = Client(url, sslopt={"context": context})
        assert exchange(client, "hello") == "hello"
        client.socket.close()


def test_a_bus_without_the_option_has_no_websocket() -> None:
    with Bus("broker") as bus:
        assert (bus.websocket_port, bus.websocket_address) == (None, None)


def test_without_wsproto_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amqp1_driver.bus.websocket", None)
    with pytest.raises(ValueError, match=r"needs the extra amqp1-driver\[websocket\]"):
        Bus(websocket_port=0).start()


def test_a_websocket_port_that_is_taken_leaves_nothing_open(bus: Bus) -> None:
    second = Bus("broker", websocket_port=bus.websocket_port)
    with pytest.raises(OSError, match="Address already in use"):
        second.start()
    with Bus("broker", port=second.port):
        pass
