# SPDX-License-Identifier: Apache-2.0

"""The bus on real sockets, spoken to by proton's own blocking client."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection, LinkDetached

from amqp1_driver.bus import Bus

TIMEOUT = 10
AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
#: An Open frame with the container-id "x".
OPEN = bytes.fromhex("00000011 02 00 0000 0053 10 c0 04 01 a1 01 78")


@pytest.fixture(params=["router", "broker"])
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    with Bus(request.param) as running:
        yield running


def connect(bus: Bus, **options: Any) -> BlockingConnection:
    return BlockingConnection(bus.address, timeout=TIMEOUT, reconnect=False, **options)


def raw(bus: Bus) -> socket.socket:
    """A bare TCP connection; to be used as a context manager."""
    return socket.create_connection(("127.0.0.1", bus.port), timeout=TIMEOUT)


@contextlib.contextmanager
def greeted(bus: Bus) -> Iterator[socket.socket]:
    """A bare TCP connection on which the bus has answered the SASL header."""
    with raw(bus) as sock:
        sock.sendall(SASL)
        assert sock.recv(8) == SASL
        yield sock


def read_to_end(sock: socket.socket) -> bytes:
    data = b""
    try:
        while chunk := sock.recv(4096):
            data += chunk
    except ConnectionResetError:
        pass
    return data


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "amqp1-bus"]


def answer_one(server: BlockingConnection) -> None:
    """An RPC server that answers one request."""
    receiver = server.create_receiver("service", credit=10)
    request = receiver.receive(timeout=TIMEOUT)
    receiver.accept()
    reply = Message(address=request.reply_to, body=f"pong {request.body}")
    reply.correlation_id = request.id
    server.create_sender(None).send(reply)
    server.close()


def test_a_blocking_client_calls_and_is_answered(bus: Bus) -> None:
    server = threading.Thread(target=answer_one, args=(connect(bus),))
    server.start()
    client = connect(bus)
    replies = client.create_receiver(None, dynamic=True, credit=10)
    sender = client.create_sender("service")
    reply_to = replies.link.remote_source.address
    sender.send(Message(body="ping", reply_to=reply_to, id="1"))
    reply = replies.receive(timeout=TIMEOUT)
    replies.accept()
    assert (reply.body, reply.correlation_id) == ("pong ping", "1")
    client.close()
    server.join(TIMEOUT)
    assert not server.is_alive()


def test_a_large_message_arrives_whole_when_the_client_reads_late(bus: Bus) -> None:
    reader, writer = connect(bus), connect(bus)
    receiver = reader.create_receiver("big", credit=10)
    sender = writer.create_sender("big")
    body = "x" * 5_000_000
    sender.link.send(Message(body=body))
    while writer.conn.transport.pending() > 0 or sender.link.queued:
        writer.container.process()
    assert receiver.receive(timeout=TIMEOUT).body == body
    reader.close()
    writer.close()


def test_connections_and_links_are_told(bus: Bus) -> None:
    client = connect(bus, container_id="me")
    client.create_receiver("q", credit=7, name="link")
    bus.wait_until(lambda b: any(x.links and x.links[0].credit for x in b.peek_connections()))
    (connection,) = bus.connections
    assert (connection.container, connection.hostname) == ("me", "127.0.0.1")
    assert (connection.user, connection.mechanism) == ("anonymous", "ANONYMOUS")
    (link,) = connection.links
    assert (link.name, link.address, link.receiving, link.credit) == ("link", "q", True, 7)
    client.close()


def test_stopping_closes_connections_with_connection_forced(bus: Bus) -> None:
    client = connect(bus)
    stopper = threading.Thread(target=bus.stop)
    stopper.start()
    with pytest.raises(ConnectionException, match="amqp:connection:forced"):
        client.wait(lambda: False, timeout=TIMEOUT)
    stopper.join(TIMEOUT)
    assert threads() == []


def test_killing_resets_sockets_and_frees_the_port(bus: Bus) -> None:
    with greeted(bus) as sock:
        bus.kill()
        assert b"AMQP" not in read_to_end(sock)
    with pytest.raises(ConnectionRefusedError):
        raw(bus)
    with Bus(bus.mode, port=bus.port) as again:
        connect(again).close()


def test_a_stopped_bus_leaves_no_thread_and_no_descriptor() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for _ in range(5):
        with Bus("broker") as bus:
            sock = raw(bus)
            sock.close()
    assert descriptors() == before
    assert threads() == []


def test_dropped_connections_may_come_back(bus: Bus) -> None:
    with greeted(bus) as sock:
        bus.drop_connections()
        assert b"AMQP" not in read_to_end(sock)
    connect(bus).close()


def test_closed_connections_are_told_why(bus: Bus) -> None:
    client = connect(bus)
    bus.close_connections("amqp:internal-error", "Connection forced: maintenance")
    with pytest.raises(ConnectionException, match="maintenance"):
        client.wait(lambda: False, timeout=TIMEOUT)


def test_detached_links_are_told_why_and_the_connection_lives(bus: Bus) -> None:
    client = connect(bus)
    receiver = client.create_receiver("q", credit=1)
    assert bus.detach_links("q") == 1
    with pytest.raises(LinkDetached, match="amqp:resource-deleted"):
        receiver.receive(timeout=TIMEOUT)
    client.create_receiver("r")
    client.close()


def test_a_frozen_bus_says_nothing_until_it_is_thawed(bus: Bus) -> None:
    with greeted(bus):
        bus.freeze()
        with raw(bus) as other:
            other.sendall(SASL)
            assert select.select([other], [], [], 0.1)[0] == []
            bus.thaw()
            assert other.recv(8) == SASL


def test_the_depth_of_a_queue_can_be_asked_and_awaited() -> None:
    with Bus("broker") as bus:
        client = connect(bus)
        sender = client.create_sender("q")
        sender.send(Message(body="x"))
        sender.send(Message(body="y"))
        assert (bus.queue_depth("q"), bus.queue_depth("other")) == (2, 0)
        receiver = client.create_receiver("q", credit=1)
        receiver.receive(timeout=TIMEOUT)
        receiver.accept()
        client.close()
        bus.wait_until(lambda b: b.peek("q") == 1)


def test_a_peer_that_just_closes_its_socket_is_forgotten(bus: Bus) -> None:
    with raw(bus) as sock:
        sock.sendall(AMQP + OPEN)
        bus.wait_until(lambda b: [c.container for c in b.peek_connections()] == ["x"])
    bus.wait_until(lambda b: b.peek_connections() == [])


def test_a_bus_must_be_started_once_before_it_is_used() -> None:
    bus = Bus()
    with pytest.raises(RuntimeError, match="not been started"):
        bus.queue_depth("q")
    bus.stop()
    with bus, pytest.raises(RuntimeError, match="already"):
        bus.start()


def test_paused_credit_is_withheld_until_resumed(bus: Bus) -> None:
    client = connect(bus)
    client.create_receiver("q", credit=10)
    bus.pause_credit("q")
    sender = client.create_sender("q")
    bus.wait_until(lambda b: len(b.peek_connections()[0].links) == 2)
    assert sender.link.credit == 0
    bus.resume_credit()
    client.wait(lambda: sender.link.credit == 250, timeout=TIMEOUT)
    client.close()


def test_a_silent_peer_is_given_up_after_the_idle_timeout() -> None:
    with Bus(idle_timeout=0.2) as bus, raw(bus) as sock:
        # Header and Open (container-id "x") without SASL; then silence.
        sock.sendall(AMQP + bytes.fromhex("00000011 02 00 0000 0053 10 c0 04 01 a1 01 78"))
        assert b"amqp:resource-limit-exceeded" in read_to_end(sock)


def test_wait_until_ends_with_a_timeout_or_with_the_bus(bus: Bus) -> None:
    with pytest.raises(TimeoutError):
        bus.wait_until(lambda b: False, timeout=0.05)
    bus.stop()
    with pytest.raises(RuntimeError):
        bus.wait_until(lambda b: True)
    bus.stop()


# -- authentication and TLS ----------------------------------------------------


def test_the_right_password_is_let_in() -> None:
    with Bus(users={"joe": "secret"}) as bus:
        client = connect(bus, user="joe", password="secret", allowed_mechs="PLAIN")
        assert bus.connections[0].user == "joe"
        client.close()


def test_a_wrong_password_is_an_authentication_failure() -> None:
    with Bus(users={"joe": "secret"}) as bus:
        with pytest.raises(ConnectionException, match="amqp:unauthorized-access"):
            connect(bus, user="joe", password="wrong", allowed_mechs="PLAIN")
        assert bus.counters.auth_failures == 1


def test_a_client_that_speaks_tls_to_a_clear_port_is_answered_and_closed() -> None:
    with Bus() as bus:
        context = ssl.create_default_context()
        context.check_hostname = False
        with raw(bus) as sock, pytest.raises(ssl.SSLError, match="WRONG_VERSION_NUMBER"):
            context.wrap_socket(sock)


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(ca: trustme.CA, tmp_path: Path) -> dict[str, str]:
    """Paths of PEM files: the CA, a server's and a client's certificate with key."""
    paths = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "server", "client")}
    ca.cert_pem.write_to_path(paths["ca"])
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(paths["server"])
    client = ca.issue_cert("client@example.org", common_name="joe")
    client.private_key_and_cert_chain_pem.write_to_path(paths["client"])
    return paths


def domain(files: dict[str, str], *, certificate: bool) -> SSLDomain:
    result = SSLDomain(SSLDomain.MODE_CLIENT)
    result.set_trusted_ca_db(files["ca"])
    result.set_peer_authentication(SSLDomain.VERIFY_PEER, files["ca"])
    if certificate:
        result.set_credentials(files["client"], files["client"], "")
    return result


def test_tls_carries_messages(files: dict[str, str]) -> None:
    with Bus("broker", tls_cert=files["server"], tls_key=files["server"]) as bus:
        assert bus.address.startswith("amqps://")
        client = connect(bus, ssl_domain=domain(files, certificate=False))
        body = "x" * 300_000
        client.create_sender("q").send(Message(body=body))
        assert client.create_receiver("q", credit=1).receive(timeout=TIMEOUT).body == body
        client.close()


def test_a_client_certificate_authenticates_by_external(files: dict[str, str]) -> None:
    with Bus(tls_cert=files["server"], tls_ca=files["ca"]) as bus:
        options = {"ssl_domain": domain(files, certificate=True), "allowed_mechs": "EXTERNAL"}
        client = connect(bus, **options)
        (connection,) = bus.connections
        assert (connection.user, connection.mechanism) == ("joe", "EXTERNAL")
        client.close()


def test_a_client_without_the_required_certificate_is_refused(files: dict[str, str]) -> None:
    with Bus(tls_cert=files["server"], tls_ca=files["ca"]) as bus:
        with pytest.raises(ConnectionException):
            connect(bus, ssl_domain=domain(files, certificate=False))
        assert bus.connections == []


def test_a_client_that_speaks_in_clear_to_a_tls_port_gets_no_amqp(files: dict[str, str]) -> None:
    with Bus(tls_cert=files["server"]) as bus, raw(bus) as sock:
        sock.sendall(SASL)
        assert b"AMQP" not in read_to_end(sock)


def test_tls_1_2_is_the_least_version(files: dict[str, str], ca: trustme.CA) -> None:
    with Bus(tls_cert=files["server"]) as bus:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        ca.configure_trust(context)
        with context.wrap_socket(raw(bus), server_hostname="127.0.0.1") as sock:
            assert sock.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"mode": "hub"}, "hub"),
        ({"tls_ca": "ca.pem"}, "tls_ca"),
        ({"queue_capacity": 5, "queue_resume": 6}, "queue_resume"),
        ({"queue_capacity": 5, "queue_resume": 5}, "queue_resume"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Bus(**settings)
