# SPDX-License-Identifier: Apache-2.0


"""AMQP over a WebSocket and through a proxy, against servers written by hand from RFC 6455."""

import base64
import hashlib
import re
import socket
import threading
from collections.abc import Callable
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
)
from amqp1_driver.eventloop.dial import Dial
from amqp1_driver.eventloop.guard import Guard
from amqp1_driver.eventloop.tunnel import Tunnel, TunnelError
from amqp1_driver.eventloop.websocket import Codec, WebSocket
from tests.unit.eventloop.certificates import Certificates
from tests.unit.eventloop.helpers import PATIENCE, Recorder, Server, connect, on_loop

PATH = "/$servicebus/websocket"
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
EIGHT = b"AMQP\x00\x01\x00\x00"


def head(connection: Any) -> bytes:
    """A request or response up to the empty line."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, data
        data += byte
    return data


def accept(request: bytes, subprotocol: bytes = b"AMQPWSB10") -> bytes:
    key = re.search(rb"(?i)sec-websocket-key: *(\S+)", request)
    assert key is not None
    answer = base64.b64encode(hashlib.sha1(key.group(1) + _GUID).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: "
        + answer
        + b"\r\nSec-WebSocket-Protocol: "
        + subprotocol
        + b"\r\n\r\n"
    )


def unmask(data: bytes) -> tuple[int, bytes, bytes]:
    """Opcode and payload of the first frame, and the rest."""
    assert data[0] & 0x80 and data[1] & 0x80  # the whole message, masked as a client must
    size, at = data[1] & 0x7F, 2
    if size >= 126:
        width = 2 if size == 126 else 8
        size, at = int.from_bytes(data[2 : 2 + width], "big"), 2 + width
    mask, body = data[at : at + 4], data[at + 4 : at + 4 + size]
    plain = bytes(byte ^ mask[i % 4] for i, byte in enumerate(body))
    return data[0] & 0x0F, plain, data[at + 4 + size :]


def opened() -> Codec:
    codec = Codec("host", PATH, ["AMQPWSB10"])
    assert codec.feed(accept(bytes(codec.output))) == b""
    assert codec.opened
    codec.output = memoryview(b"")
    return codec


# -- bytes in, bytes out ----------------------------------------------------------------------


def test_what_is_asked_for() -> None:
    request = bytes(Codec("ns.servicebus.windows.net", PATH, ["AMQPWSB10"]).output)
    lines = request.split(b"\r\n")
    assert lines[0] == b"GET /$servicebus/websocket HTTP/1.1"
    headers = {line.split(b": ")[0].lower(): line.split(b": ")[1] for line in lines[1:-2]}
    assert headers[b"host"] == b"ns.servicebus.windows.net"
    assert headers[b"sec-websocket-protocol"] == b"AMQPWSB10"
    assert headers[b"sec-websocket-version"] == b"13"
    assert b"sec-websocket-extensions" not in headers
    assert len(base64.b64decode(headers[b"sec-websocket-key"])) == 16


def test_messages_are_a_stream() -> None:
    codec = opened()
    frames = b"\x82\x02ab\x02\x01c\x80\x01d\x82\x00\x82\x03ef"
    assert codec.feed(frames) == b"abcdef"
    assert codec.feed(b"g") == b"g"
    assert codec.ended is None


def test_data_goes_out_masked() -> None:
    codec = opened()
    codec.wrap(memoryview(b"x" * 300))
    assert unmask(bytes(codec.output)) == (2, b"x" * 300, b"")


def test_what_came_with_the_acceptance_is_not_lost() -> None:
    codec = Codec("host", PATH, ["amqp"])
    assert codec.feed(accept(bytes(codec.output), b"amqp") + b"\x82\x02hi") == b"hi"
    assert (codec.opened, codec.subprotocol) == (True, "amqp")


def test_a_ping_is_answered() -> None:
    codec = opened()
    assert codec.feed(b"\x89\x03abc") == b""
    assert unmask(bytes(codec.output)) == (10, b"abc", b"")


def test_the_peer_closes() -> None:
    codec = opened()
    assert codec.feed(b"\x82\x01x\x88\x05\x03\xf0bye") == b"x"
    assert codec.ended == "the peer closed the WebSocket with code 1008 (bye)"
    assert unmask(bytes(codec.output)) == (8, b"\x03\xf0bye", b"")


def test_we_close() -> None:
    codec = opened()
    codec.close()
    assert unmask(bytes(codec.output)) == (8, b"\x03\xe8", b"")
    codec.close()
    assert codec.ended == "closed"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x81\x02hi", "the peer sent text over the WebSocket"),
        (b"\xf2\x01x", "it broke the WebSocket protocol ("),
        (b"\x82\x81\x00\x00\x00\x00x", "it broke the WebSocket protocol ("),
    ],
)
def test_what_a_peer_may_not_send(data: bytes, reason: str) -> None:
    codec = opened()
    codec.feed(data)
    assert (codec.ended or "").startswith(reason)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 10\r\n\r\nno\n  token",
            "the WebSocket was refused: HTTP 401 Unauthorized: no token",
        ),
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "the WebSocket was refused: HTTP 404 Not Found",
        ),
        (b"HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n", "the WebSocket was refused: HTTP 799"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "the WebSocket was refused: HTTP 200 OK: hello",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "it speaks no WebSocket ("),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: wrong\r\n\r\n",
            "it speaks no WebSocket (",
        ),
    ],
)
def test_a_refusal_in_words(answer: bytes, reason: str) -> None:
    codec = Codec("host", PATH, ["amqp"])
    codec.feed(answer)
    assert (codec.ended or "").startswith(reason)
    assert not codec.opened


@pytest.mark.parametrize(
    "header",
    [
        b"Sec-WebSocket-Protocol: am\xc3qp",
        b"Connection: Upgrade, \xff",
        b"Sec-WebSocket-Extensions: \x80",
        b"Sec-WebSocket-Accept: \xfe",
        b"Upgrade: \xe4",
        b"X-Other: \x80",
    ],
)
def test_bytes_that_are_not_ascii_in_the_answer(header: bytes) -> None:
    codec = Codec("host", PATH, ["amqp"])
    answer = accept(bytes(codec.output), b"amqp")
    name = header.split(b":")[0]
    lines = [line for line in answer.split(b"\r\n") if not line.startswith(name + b":")]
    codec.feed(b"\r\n".join([*lines[:-2], header, b"", b""]))
    if name == b"X-Other":
        assert codec.opened  # of no concern
    else:
        assert (codec.ended or "").startswith("it speaks no WebSocket (")
        assert not codec.opened


def test_words_of_the_peer_are_made_printable() -> None:
    codec = opened()
    codec.feed(b"\x88\x07\x03\xf0a\x1b[m\n")
    assert codec.ended == "the peer closed the WebSocket with code 1008 (a\\x1b[m\\n)"
    codec = Codec("host", PATH, ["amqp"])
    codec.feed(b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\na\x1b[1mb")
    assert codec.ended == "the WebSocket was refused: HTTP 404 Not Found: a\\x1b[1mb"


def test_many_pings_have_one_answer() -> None:
    """RFC 6455, 5.5.3: an endpoint may answer the most recent ping only."""
    codec = opened()
    codec.feed(b"".join(b"\x89\x02" + bytes((n, n)) for n in range(200)))
    assert unmask(bytes(codec.output)) == (10, b"\xc7\xc7", b"")
    # nobody reads it: what is queued does not grow
    first = bytes(codec.output)
    for n in range(200):
        codec.feed(b"\x89\x01" + bytes((n,)))
    assert bytes(codec.output) == first
    codec.output = memoryview(b"")
    codec.answer_ping()
    assert unmask(bytes(codec.output)) == (10, b"\xc7", b"")
    codec.output = memoryview(b"")
    codec.answer_ping()
    assert bytes(codec.output) == b""


def test_nothing_counts_after_the_end() -> None:
    codec = opened()
    assert codec.feed(b"\x82\x01x\x81\x02hi\x82\x01y\x89\x01p") == b"x"
    assert codec.ended == "the peer sent text over the WebSocket"
    assert bytes(codec.output) == b""


def test_pings_are_answered_while_data_waits(loop: EventLoop) -> None:
    answered = threading.Event()

    def serve(connection: Any) -> None:
        connection.sendall(accept(head(connection)))
        connection.sendall(b"\x89\x03abc")
        held = b""
        while len(held) < 9:
            held += connection.recv(65536)
        if unmask(held)[:2] == (10, b"abc"):
            answered.set()

    with Server(serve) as server:
        websocket(loop, server.port)
        assert answered.wait(PATIENCE)


def test_an_owner_that_closes_when_it_is_connected_hears_no_data(loop: EventLoop) -> None:
    def serve(connection: Any) -> None:
        connection.sendall(accept(head(connection)) + b"\x82\x01x")
        connection.recv(1)

    with Server(serve) as server:
        recorder = Recorder()
        recorder.on_connected = lambda: recorder.transport.close()  # type: ignore[union-attr]
        websocket(loop, server.port, recorder=recorder)
        assert recorder.wait_lost() is None
    assert (recorder.calls, recorder.input) == (["connected", "lost"], b"")


def test_a_refusal_whose_body_does_not_come() -> None:
    codec = Codec("host", PATH, ["amqp"])
    codec.feed(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nbusy")
    assert codec.ended is None
    assert codec.refusal == "the WebSocket was refused: HTTP 503 Service Unavailable: busy"


# -- over sockets -----------------------------------------------------------------------------


def websocket(
    loop: EventLoop,
    port: int,
    tls: TlsParameters | None = None,
    *,
    host: str = "localhost",
    proxy: ProxyParameters | None = None,
    timeout: float = PATIENCE,
    recorder: Recorder | None = None,
) -> Recorder:
    handler = recorder or Recorder()
    socket_ = WebSocket(handler, host, port, PATH, ["AMQPWSB10"], timeout)
    socket_.transport = Transport(loop, socket_, host, port, tls=tls, proxy=proxy, timeout=timeout)
    handler.transport = socket_  # type: ignore[assignment]
    on_loop(loop, socket_.start)
    return handler


@pytest.fixture
def trusting(certificates: Certificates) -> TlsParameters:
    return TlsParameters(ca_file=certificates.ca_file)


class Echo:
    """Accepts a WebSocket, and gives back what comes until it is closed."""

    def __init__(self) -> None:
        self.request = b""
        self.closed = b""
        self.data = b""
        self.done = threading.Event()

    def __call__(self, connection: Any) -> None:
        self.request = head(connection)
        connection.sendall(accept(self.request))
        held = b""
        while chunk := connection.recv(65536):
            held += chunk
            while len(held) >= 2 and len(held) >= self._size(held):
                opcode, data, held = unmask(held)
                if opcode == 8:
                    self.closed = data
                    self.done.set()
                    return
                self.data += data
                for at in range(0, len(data), 100):  # frames of another size
                    piece = data[at : at + 100]
                    connection.sendall(bytes((0x82, len(piece))) + piece)

    @staticmethod
    def _size(held: bytes) -> int:
        size, at = held[1] & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(held) < 2 + width:
                return len(held) + 1
            size, at = int.from_bytes(held[2 : 2 + width], "big"), 2 + width
        return at + 4 + size


def test_data_goes_both_ways_over_tls(
    loop: EventLoop, certificates: Certificates, trusting: TlsParameters
) -> None:
    echo = Echo()
    with Server(echo, certificates.server(certificates.good)) as server:
        recorder = Recorder()
        recorder.output += EIGHT + bytes(range(256)) * 1000
        arrived = recorder.expect(256008)
        websocket(loop, server.port, trusting, recorder=recorder)
        assert arrived.wait(PATIENCE)
        assert recorder.input == EIGHT + bytes(range(256)) * 1000
        assert recorder.calls[0] == "connected"
        assert recorder.description.endswith(", WebSocket (AMQPWSB10)")
        assert recorder.transport is not None
        on_loop(loop, recorder.transport.close)
        assert recorder.wait_lost() is None
        assert echo.done.wait(PATIENCE)
        assert echo.closed == b"\x03\xe8"
        assert f"localhost:{server.port}".encode() in echo.request
    assert recorder.lost == [None]


def failure(loop: EventLoop, serve: Callable[[Any], object], timeout: float = PATIENCE) -> str:
    with Server(serve) as server:
        recorder = websocket(loop, server.port, timeout=timeout)
        error = recorder.wait_lost()
        assert isinstance(error, ConnectError)
        assert (error.host, error.port, len(recorder.lost)) == ("localhost", server.port, 1)
        assert "connected" not in recorder.calls
        return error.reason


def test_a_refusal_names_host_and_status(loop: EventLoop) -> None:
    def refuse(connection: Any) -> None:
        head(connection)
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")

    assert failure(loop, refuse) == "the WebSocket was refused: HTTP 403 Forbidden: no"


def test_a_refusal_without_a_length_ends_with_the_connection(loop: EventLoop) -> None:
    def refuse(connection: Any) -> None:
        head(connection)
        connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 9\r\n\r\nabc")
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)

    assert failure(loop, refuse) == "the WebSocket was refused: HTTP 502 Bad Gateway: abc"


def test_a_peer_that_hangs_up_instead_of_answering(loop: EventLoop) -> None:
    assert failure(loop, head) == "no answer to the WebSocket: the peer closed the connection"


def test_silence_is_waited_for_no_longer_than_allowed(loop: EventLoop) -> None:
    def silent(connection: Any) -> None:
        head(connection)
        connection.recv(1)

    assert failure(loop, silent, timeout=0.3) == "no answer to the WebSocket within 0.3 s"


def test_the_peer_closes_an_open_websocket(loop: EventLoop) -> None:
    def serve(connection: Any) -> None:
        connection.sendall(accept(head(connection)) + b"\x88\x06\x03\xe9gone")
        connection.recv(1)

    with Server(serve) as server:
        error = websocket(loop, server.port).wait_lost()
    assert isinstance(error, Disconnected)
    assert error.reason == "the peer closed the WebSocket with code 1001 (gone)"


# -- through a proxy --------------------------------------------------------------------------


def test_what_the_proxy_is_asked() -> None:
    assert Tunnel(ProxyParameters("p", 3128), "bus.example", 5671).request == (
        b"CONNECT bus.example:5671 HTTP/1.1\r\nHost: bus.example:5671\r\n\r\n"
    )
    assert Tunnel(ProxyParameters("p", 3128, "user", "pass"), "::1", 443).request == (
        b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n"
        b"Proxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n"
    )


def test_the_way_is_free() -> None:
    tunnel = Tunnel(ProxyParameters("p", 3128), "bus", 443)
    assert (tunnel.feed(b"HTTP/1.1 200 Conn"), tunnel.established) == (b"", False)
    assert tunnel.feed(b"ection established\r\nVia: p\r\n\r\nrest") == b"rest"
    assert tunnel.established


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n",
            "proxy p:3128 refuses: HTTP 407 Proxy Authentication Required",
        ),
        (b"HTTP/1.1 502\r\n\r\n", "proxy p:3128 refuses: HTTP 502"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "proxy p:3128 speaks no HTTP: "),
    ],
)
def test_a_proxy_that_does_not_let_us_through(answer: bytes, reason: str) -> None:
    with pytest.raises(TunnelError) as caught:
        Tunnel(ProxyParameters("p", 3128, "user", "secret"), "bus", 443).feed(answer)
    assert str(caught.value).startswith(reason)
    assert "secret" not in str(caught.value)


class Proxy(Server):
    """Connects to the one target whatever is asked for; keeps the request."""

    def __init__(self, target: int) -> None:
        super().__init__(self._relay)
        self.request = b""
        self._target = target

    def _relay(self, connection: Any) -> None:
        self.request = head(connection)
        with socket.socket() as behind:  # not by name: that may be patched
            behind.settimeout(PATIENCE)
            behind.connect(("127.0.0.1", self._target))
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=self._copy, args=(behind, connection), daemon=True)
            back.start()
            self._copy(connection, behind)
            back.join(PATIENCE)

    @staticmethod
    def _copy(one: Any, other: Any) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.mark.parametrize("websockets", [False, True], ids=["tcp", "websocket"])
def test_tls_to_the_host_through_a_proxy_that_knows_its_name(
    loop: EventLoop,
    certificates: Certificates,
    trusting: TlsParameters,
    resolve_to: Callable[..., None],
    websockets: bool,
) -> None:
    serve = Echo() if websockets else _echo_once
    with Server(serve, certificates.server(certificates.good)) as server:
        with Proxy(server.port) as proxy:
            resolve_to(("127.0.0.1", proxy.port))
            recorder = Recorder()
            recorder.output += EIGHT
            arrived = recorder.expect(8)
            where = ProxyParameters("proxy.example", proxy.port)
            tls = TlsParameters(ca_file=certificates.ca_file, server_name="localhost")
            if websockets:
                websocket(loop, 443, tls, host="bus.invalid", proxy=where, recorder=recorder)
            else:
                handler = Transport(
                    loop, recorder, "bus.invalid", 5671, tls=tls, proxy=where, timeout=PATIENCE
                )
                recorder.transport = handler
                on_loop(loop, handler.start)
            assert arrived.wait(PATIENCE), recorder.lost
            assert f"through proxy proxy.example:{proxy.port} over TLS" in recorder.description
            assert recorder.transport is not None
            on_loop(loop, recorder.transport.close)
        assert proxy.request.startswith(b"CONNECT bus.invalid:%d " % (443 if websockets else 5671))


def _echo_once(connection: Any) -> None:
    connection.sendall(connection.recv(8))
    connection.recv(1)


def through(
    loop: EventLoop,
    serve: Callable[[Any], object],
    timeout: float = PATIENCE,
    tls: TlsParameters | None = None,
) -> Exception:
    with Server(serve) as server:
        recorder = Recorder()
        transport = Transport(
            loop,
            recorder,
            "bus.invalid",
            5671,
            timeout=timeout,
            tls=tls,
            proxy=ProxyParameters("127.0.0.1", server.port),
        )
        on_loop(loop, transport.start)
        error = recorder.wait_lost()
        assert error is not None and str(error).startswith("bus.invalid:5671: ")
        return error


def test_clear_tcp_through_a_proxy(loop: EventLoop) -> None:
    def serve(connection: Any) -> None:
        head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nearly")

    with Server(serve) as server:
        recorder = Recorder()
        arrived = recorder.expect(5)
        transport = Transport(
            loop,
            recorder,
            "bus.invalid",
            5672,
            timeout=PATIENCE,
            proxy=ProxyParameters("127.0.0.1", server.port),
        )
        on_loop(loop, transport.start)
        assert arrived.wait(PATIENCE)
        assert recorder.input == b"early"
        assert isinstance(recorder.wait_lost(), Disconnected)


def test_a_proxy_that_refuses(loop: EventLoop) -> None:
    def serve(connection: Any) -> None:
        head(connection)
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        connection.recv(1)

    error = through(loop, serve)
    assert isinstance(error, ConnectError)
    assert error.reason.endswith("refuses: HTTP 403 Forbidden")


def test_a_proxy_that_hangs_up(loop: EventLoop) -> None:
    assert "closed the connection instead of answering" in str(through(loop, head))


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (b"HTTP/1.1 503 Busy\r\n\r\n", "proxy p:3128 refuses: HTTP 503 Busy"),
        (b"", "proxy p:3128 closed the connection instead of answering"),
    ],
)
def test_what_the_proxy_said_last_is_heard_although_asking_fails(
    loop: EventLoop, last: bytes, reason: str
) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.sendall(last)
    theirs.close()
    results: list[Any] = []
    done = threading.Event()

    def finish(result: Any) -> None:
        results.append(result)
        done.set()

    def ask() -> None:
        proxy = ProxyParameters("p", 3128)
        approach = Dial(
            Guard(loop, results.append), "h", 1, None, proxy, loop.now() + PATIENCE, finish
        )
        approach._ask_proxy(proxy, ours)

    on_loop(loop, ask)
    assert done.wait(PATIENCE)
    on_loop(loop, lambda: None)
    [error] = results
    assert isinstance(error, ConnectError)
    assert error.reason == reason
    assert ours.fileno() == -1


def test_a_silent_proxy(loop: EventLoop) -> None:
    def silent(connection: Any) -> None:
        head(connection)
        connection.recv(1)

    assert "timed out waiting for the proxy" in str(through(loop, silent, timeout=0.3))


def test_a_proxy_that_is_not_there(loop: EventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    recorder = Recorder()
    transport = Transport(
        loop,
        recorder,
        "bus.invalid",
        5671,
        timeout=PATIENCE,
        proxy=ProxyParameters("127.0.0.1", port),
    )
    on_loop(loop, transport.start)
    text = str(recorder.wait_lost())
    assert text.startswith(f"bus.invalid:5671: cannot connect to proxy 127.0.0.1:{port} (127.0.0.1")


def test_a_proxy_whose_name_does_not_resolve(loop: EventLoop) -> None:
    recorder = Recorder()
    transport = Transport(
        loop,
        recorder,
        "127.0.0.1",
        5671,
        timeout=PATIENCE,
        proxy=ProxyParameters("proxy.invalid", 3128),
    )
    on_loop(loop, transport.start)
    assert "the name of proxy proxy.invalid:3128 does not resolve" in str(recorder.wait_lost())


def test_tls_that_fails_behind_the_proxy(loop: EventLoop, trusting: TlsParameters) -> None:
    def serve(connection: Any) -> None:
        head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nAMQP\x00\x01\x00\x00")
        connection.recv(65536)

    assert isinstance(through(loop, serve, tls=trusting), TlsError)


def test_without_a_proxy_nothing_is_asked(loop: EventLoop) -> None:
    first = threading.Event()

    def serve(connection: Any) -> None:
        assert connection.recv(8) == EIGHT
        first.set()

    with Server(serve) as server:
        recorder = Recorder()
        recorder.output += EIGHT
        connect(loop, server.port, recorder=recorder)
        assert first.wait(PATIENCE)
