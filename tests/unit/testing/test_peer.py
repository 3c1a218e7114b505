# SPDX-License-Identifier: Apache-2.0
"""The peer on a socket, with proton's BlockingConnection as the client."""

import socket

import proton
import pytest
from proton.utils import BlockingConnection, LinkDetached, SendException

from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.messages import Message
from amqp1_driver.testing.peer import PeerFailure, ScriptedPeer


@pytest.fixture
def peer():
    with ScriptedPeer(auto=True) as it:
        yield it


def connect(peer, **kwargs):
    return BlockingConnection(peer.url, timeout=10, **kwargs)


def test_the_example_of_the_docstring():
    with ScriptedPeer() as peer:
        peer.expect_sasl_anonymous()
        peer.expect_open().respond(product="qpid-cpp")
        peer.expect_begin().respond()
        peer.expect_attach(role="sender", target="q").respond().grant(10)
        peer.expect_transfer(body="hello").reject("amqp:not-allowed", "no")
        peer.expect_close().respond()
        peer.expect_disconnect()
        client = connect(peer)
        sender = client.create_sender("q")
        with pytest.raises(SendException) as failure:
            sender.send(proton.Message(body="hello"))
        assert failure.value.state == proton.Delivery.REJECTED
        client.close()
        peer.wait_done(10)


def test_send_and_receive(peer):
    client = connect(peer)
    sender = client.create_sender("q")
    for number in range(250):  # more than the credit at once
        sender.send(proton.Message(body=number))
    sender.send(proton.Message(body="x" * 300_000))
    transfers = peer.wait_transfers(251)
    assert [t.body for t in transfers[:250]] == list(range(250))
    receiver = client.create_receiver(None, dynamic=True)
    peer.send_transfer(receiver.link.remote_source.address, Message("y" * 300_000))
    assert receiver.receive(10).body == "y" * 300_000
    receiver.accept()
    client.close()
    peer.wait_settled(1)
    peer.wait_disconnected()


def test_one_fault(peer):
    peer.override(times=1).expect_transfer(address="q").release()
    client = connect(peer)
    sender = client.create_sender("q")
    with pytest.raises(SendException):
        sender.send(proton.Message(body=1))
    sender.send(proton.Message(body=2))
    peer.remote_detach("q", "amqp:resource-deleted")
    with pytest.raises(LinkDetached, match="amqp:resource-deleted"):
        client.wait(lambda: False, timeout=10)
    client.close()


def test_dropped_at_once_and_back_again(peer):
    client = connect(peer)
    peer.drop()
    with pytest.raises(proton.ConnectionException):
        client.wait(lambda: False, timeout=10)
    again = connect(peer)
    again.create_sender("q").send(proton.Message(body=1))
    peer.wait_connections(2)
    again.close()


def test_dropped_in_the_middle_of_a_frame():
    with ScriptedPeer(auto=True) as peer:
        peer.override().expect_open().respond().call(lambda event: event.core.drop_after(10, True))
        client = connect(peer)
        with pytest.raises(proton.ConnectionException):
            client.create_sender("q")
        peer.wait_disconnected()
        assert peer.frames(p.Begin) == []


def test_drop_is_a_reset(peer):
    with socket.create_connection((peer.host, peer.port), 10) as sock:
        peer.wait_connections(1)
        peer.drop()
        with pytest.raises(ConnectionResetError):
            sock.recv(1)


def test_a_peer_that_accepts_and_stays_silent():
    with ScriptedPeer() as peer:
        peer.silence()
        with socket.create_connection((peer.host, peer.port), 10) as sock:
            sock.sendall(b"AMQP\x00\x01\x00\x00")
            peer.wait_connections(1)
            peer.wait_done(10)
            assert peer.log == []
            peer.drop()
            with pytest.raises(ConnectionResetError):
                sock.recv(1)


def test_empty_frames_keep_an_idle_client_connected(peer):
    sock = socket.create_connection((peer.host, peer.port), 10)
    with sock, sock.makefile("rb") as stream:
        sock.sendall(
            b"AMQP\x00\x01\x00\x00"  # open: container-id "c", idle-time-out 20 ms
            + bytes.fromhex("00000016 02 00 0000  00 53 10 c0 09 05 a10163 40 40 40 5214")
        )
        assert stream.read(8) == b"AMQP\x00\x01\x00\x00"
        size = int.from_bytes(stream.read(4), "big")
        assert stream.read(size - 4)[4:7] == b"\x00\x53\x10"
        for _ in range(3):
            assert stream.read(8) == b"\x00\x00\x00\x08\x02\x00\x00\x00"


def test_raw_bytes_and_orderly_end(peer):
    with socket.create_connection((peer.host, peer.port), 10) as sock:
        peer.wait_connections(1)
        peer.raw(b"HTTP/1.1 400\r\n")
        peer.override().expect_header().finish()
        sock.sendall(b"AMQP\x00\x01\x00\x00")
        with sock.makefile("rb") as stream:
            assert stream.read() == b"HTTP/1.1 400\r\n"


def test_many_connections_at_a_time(peer):
    clients = [connect(peer) for _ in range(5)]
    for number, client in enumerate(clients):
        client.create_sender("q").send(proton.Message(body=number))
    assert {t.link.session.core.index for t in peer.wait_transfers(5)} == {0, 1, 2, 3, 4}
    for client in clients:
        client.close()
    peer.wait_disconnected()


def test_the_failure_is_raised_when_the_test_is_over():
    with pytest.raises(PeerFailure, match=r"expected Begin\(\)"), ScriptedPeer() as peer:
        peer.expect_begin()
        with pytest.raises(proton.ConnectionException):
            connect(peer)


def test_waits_end_with_the_failure(peer):
    with socket.create_connection((peer.host, peer.port), 10) as sock:
        sock.sendall(b"HTTP is not AMQP")
        with pytest.raises(PeerFailure, match="not an AMQP frame: b'HTTP is not AMQP'"):
            peer.wait_transfers(1, 10)
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    peer.script.failure = None  # seen: not again at the end


@pytest.mark.parametrize(
    ("wait", "text"),
    [
        (lambda peer: peer.wait_transfers(1, 0), "0 of 1 transfers"),
        (lambda peer: peer.wait_connections(1, 0), "0 of 1 connections"),
        (lambda peer: peer.wait_link("x", 0), "no link 'x'"),
        (lambda peer: peer.wait_frames(p.Open, 1, 0), "0 of 1 Open"),
        (lambda peer: peer.wait_settled(1, 0), "settled:"),
    ],
)
def test_waits_say_what_is_missing(peer, wait, text):
    with pytest.raises(PeerFailure, match=text):
        wait(peer)


def test_the_port_is_given_back():
    peer = ScriptedPeer()
    peer.stop()
    peer.stop()
    with ScriptedPeer(port=peer.port) as again:
        assert again.url == f"amqp://127.0.0.1:{peer.port}"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((again.host, again.port), 10)
