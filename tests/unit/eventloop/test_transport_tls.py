# SPDX-License-Identifier: Apache-2.0

"""TLS over real sockets: what works, and what each thing that can be wrong is called."""

import os
import socket
import ssl
import threading
from typing import Any

import pytest

from amqp1_driver.eventloop import (
    ConnectError,
    Disconnected,
    EventLoop,
    TlsError,
    TlsParameters,
)
from tests.unit.eventloop.certificates import KEY_PASSWORD, Certificates
from tests.unit.eventloop.helpers import (
    PATIENCE,
    Recorder,
    Server,
    connect,
    echo,
    on_loop,
    open_descriptors,
    reset,
    until_eof,
)


@pytest.fixture
def trusting(certificates: Certificates) -> TlsParameters:
    return TlsParameters(ca_file=certificates.ca_file)


def failure(
    loop: EventLoop,
    server: Server,
    tls: TlsParameters,
    host: str = "localhost",
    timeout: float = PATIENCE,
) -> Exception:
    before = open_descriptors()
    recorder = connect(loop, server.port, host=host, tls=tls, timeout=timeout)
    error = recorder.wait_lost()
    on_loop(loop, lambda: None)
    assert len(recorder.lost) == 1
    server.join()
    assert open_descriptors() <= before
    assert error is not None
    assert f"{host}:{server.port}" in str(error)
    return error


def test_data_goes_both_ways(
    loop: EventLoop, certificates: Certificates, trusting: TlsParameters
) -> None:
    with Server(echo, certificates.server(certificates.good)) as server:
        recorder = Recorder()
        recorder.output += b"hello over TLS"
        arrived = recorder.expect(14)
        connect(loop, server.port, host="localhost", tls=trusting, recorder=recorder)
        assert arrived.wait(PATIENCE)
        assert recorder.input == b"hello over TLS"
        assert " over TLSv1.3 TLS_" in recorder.description
        assert recorder.transport is not None
        on_loop(loop, recorder.transport.close)
        assert recorder.wait_lost() is None
        server.join()
        assert server.error is None  # a farewell, no truncation
    assert recorder.calls == ["connected", "data", "lost"]


def test_large_writes_go_out_in_parts(
    loop: EventLoop, certificates: Certificates, trusting: TlsParameters
) -> None:
    payload = os.urandom(1 << 20) * 8
    received: list[bytes] = []
    go = threading.Event()

    def slow(connection: Any) -> None:
        assert go.wait(PATIENCE)
        data = bytearray()
        while len(data) < len(payload):
            data += connection.recv(1 << 16)
        received.append(bytes(data))
        connection.sendall(b"done")
        until_eof(connection)

    with Server(slow, certificates.server(certificates.good)) as server:
        recorder = Recorder()
        arrived = recorder.expect(4)
        recorder.output += payload
        connect(loop, server.port, host="localhost", tls=trusting, recorder=recorder)
        recorder.wait_connected()
        # The peer does not read: all but what fits into the buffers stays with the handler.
        assert on_loop(loop, lambda: len(recorder.output)) > len(payload) // 4
        go.set()
        assert arrived.wait(PATIENCE)
        assert received[0] == payload
        assert recorder.transport is not None
        on_loop(loop, recorder.transport.close)


def test_the_server_name_is_sent_and_checked(loop: EventLoop, certificates: Certificates) -> None:
    names: list[str | None] = []
    context = certificates.server(certificates.good)
    context.sni_callback = lambda tls, name, _: names.append(name)
    tls = TlsParameters(ca_file=certificates.ca_file, server_name="bus.example.org")
    with Server(until_eof, context) as server:
        recorder = connect(loop, server.port, host="127.0.0.1", tls=tls)
        recorder.wait_connected()
        assert recorder.transport is not None
        on_loop(loop, recorder.transport.close)
    assert names == ["bus.example.org"]


def test_without_a_server_name_the_host_is_sent(
    loop: EventLoop, certificates: Certificates, trusting: TlsParameters
) -> None:
    names: list[str | None] = []
    context = certificates.server(certificates.good)
    context.sni_callback = lambda tls, name, _: names.append(name)
    with Server(until_eof, context) as server:
        connect(loop, server.port, host="localhost", tls=trusting).wait_connected()
        assert names == ["localhost"]
        loop.post(lambda _: None)
        recorder_closed = loop.stop(PATIENCE)
    assert recorder_closed


def test_an_ip_address_is_checked_but_not_sent(
    loop: EventLoop, certificates: Certificates, trusting: TlsParameters
) -> None:
    names: list[str | None] = []
    context = certificates.server(certificates.good)
    context.sni_callback = lambda tls, name, _: names.append(name)
    with Server(until_eof, context) as server:
        recorder = connect(loop, server.port, host="127.0.0.1", tls=trusting)
        recorder.wait_connected()
        assert names == [None]
        assert recorder.transport is not None
        on_loop(loop, recorder.transport.close)


@pytest.mark.parametrize("cert", ["host_as_common_name", "address_and_common_name"])
def test_a_common_name_counts_without_a_host_name_in_subject_alt_name(
    loop: EventLoop, certificates: Certificates, trusting: TlsParameters, cert: str
) -> None:
    with Server(until_eof, certificates.server(getattr(certificates, cert))) as server:
        recorder = connect(loop, server.port, host="localhost", tls=trusting)
        recorder.wait_connected()
        assert recorder.transport is not None
        on_loop(loop, recorder.transport.close)


@pytest.mark.parametrize(
    ("cert", "host", "text"),
    [
        ("other_name", "localhost", "wrong host name in the certificate of the peer"),
        (
            "common_name",
            "127.0.0.1",
            "wrong IP address in the certificate of the peer (expected "
            "127.0.0.1 in subjectAltName; no common name counts for it)",
        ),
        ("other_name", "127.0.0.1", "wrong IP address in the certificate of the peer"),
        (
            "address_as_common_name",
            "127.0.0.1",
            "127.0.0.1 in subjectAltName; no common name counts for it)",
        ),
        (
            "other_and_common_name",
            "localhost",
            "wrong host name in the certificate of the peer (expected localhost in subjectAltName)",
        ),
        ("expired", "localhost", "the certificate of the peer has expired"),
        ("early", "localhost", "the certificate of the peer is not yet valid"),
        ("foreign", "localhost", "the certificate of the peer comes from an unknown CA"),
    ],
)
def test_certificates_that_are_no_good(
    loop: EventLoop,
    certificates: Certificates,
    trusting: TlsParameters,
    cert: str,
    host: str,
    text: str,
) -> None:
    with Server(echo, certificates.server(getattr(certificates, cert))) as server:
        error = failure(loop, server, trusting, host)
        assert isinstance(error, TlsError)
        assert text in str(error)
        # The peer is told why.
        assert isinstance(server.error, ssl.SSLError)
        assert "ALERT" in str(server.error)


def test_a_bad_certificate_passes_when_nothing_is_verified(
    loop: EventLoop, certificates: Certificates
) -> None:
    with Server(until_eof, certificates.server(certificates.foreign)) as server:
        recorder = connect(loop, server.port, tls=TlsParameters(verify=False))
        recorder.wait_connected()
        assert recorder.transport is not None
        on_loop(loop, recorder.transport.close)


@pytest.mark.parametrize(
    "answer",
    [
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff" * 64,
        bytes(64),
    ],
    ids=["AMQP", "SASL", "HTTP", "ones", "zeros"],
)
def test_tls_to_a_clear_port_that_answers(
    loop: EventLoop, trusting: TlsParameters, answer: bytes
) -> None:
    def serve(connection: Any) -> None:
        connection.sendall(answer)
        until_eof(connection)

    with Server(serve) as server:
        error = failure(loop, server, trusting)
    assert isinstance(error, TlsError)
    assert "the peer does not speak TLS (is this a clear port?)" in str(error)


def test_tls_to_a_clear_port_that_hangs_up(loop: EventLoop, trusting: TlsParameters) -> None:
    def serve(connection: Any) -> None:
        connection.recv(65536)

    with Server(serve) as server:
        error = failure(loop, server, trusting)
    assert isinstance(error, TlsError)
    assert "during the handshake" in str(error)


def test_tls_to_a_clear_port_that_resets(loop: EventLoop, trusting: TlsParameters) -> None:
    def serve(connection: Any) -> None:
        connection.recv(1)
        reset(connection)

    with Server(serve) as server:
        error = failure(loop, server, trusting)
    assert isinstance(error, TlsError)
    assert "broke off the handshake" in str(error)


def test_a_silent_peer_ends_with_the_deadline(loop: EventLoop, trusting: TlsParameters) -> None:
    with Server(until_eof) as server:
        error = failure(loop, server, trusting, timeout=0.05)
    assert isinstance(error, ConnectError)
    assert "not connected within 0.05 s: timed out waiting for the TLS handshake" in str(error)


def test_the_minimum_version_is_enforced(loop: EventLoop, certificates: Certificates) -> None:
    context = certificates.server(certificates.good)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    tls = TlsParameters(ca_file=certificates.ca_file, min_version="TLSv1.3")
    with Server(echo, context) as server:
        error = failure(loop, server, tls)
    assert isinstance(error, TlsError)
    assert "no TLS version in common with the peer" in str(error)


def test_tls_1_2_is_spoken_when_the_minimum_allows_it(
    loop: EventLoop, certificates: Certificates, trusting: TlsParameters
) -> None:
    context = certificates.server(certificates.good)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with Server(echo, context) as server:
        recorder = Recorder()
        recorder.output += b"old"
        arrived = recorder.expect(3)
        connect(loop, server.port, host="localhost", tls=trusting, recorder=recorder)
        assert arrived.wait(PATIENCE)
        assert " over TLSv1.2 " in recorder.description
        assert recorder.transport is not None
        on_loop(loop, recorder.transport.close)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_certificate_with_a_locked_key_is_shown(
    loop: EventLoop, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    subjects: list[Any] = []

    def serve(connection: Any) -> None:
        subjects.append(connection.getpeercert()["subjectAltName"])
        connection.sendall(b"welcome")
        until_eof(connection)

    context = certificates.server(certificates.good, ask_client=True)
    context.maximum_version = version
    tls = TlsParameters(
        ca_file=certificates.ca_file,
        cert_file=certificates.cert_file,
        key_file=certificates.locked_key_file,
        key_password=KEY_PASSWORD,
    )
    with Server(serve, context) as server:
        recorder = Recorder()
        arrived = recorder.expect(7)
        connect(loop, server.port, host="localhost", tls=tls, recorder=recorder)
        assert arrived.wait(PATIENCE)
        assert recorder.transport is not None
        on_loop(loop, recorder.transport.close)
    assert subjects == [(("email", "client@example.org"),)]


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (ssl.TLSVersion.TLSv1_2, "wants a client certificate"),
        (ssl.TLSVersion.TLSv1_3, "the peer requires a client certificate"),
    ],
)
def test_a_client_certificate_that_is_missing(
    loop: EventLoop,
    certificates: Certificates,
    trusting: TlsParameters,
    version: ssl.TLSVersion,
    text: str,
) -> None:
    context = certificates.server(certificates.good, ask_client=True)
    context.maximum_version = version
    with Server(echo, context) as server:
        error = failure(loop, server, trusting)
    assert isinstance(error, TlsError)
    assert text in str(error)


def test_a_client_certificate_from_an_unknown_ca(
    loop: EventLoop, certificates: Certificates
) -> None:
    tls = TlsParameters(
        ca_file=certificates.ca_file,
        cert_file=certificates.foreign_cert_file,
        key_file=certificates.other_key_file,
    )
    with Server(echo, certificates.server(certificates.good, ask_client=True)) as server:
        error = failure(loop, server, tls)
    assert isinstance(error, TlsError)
    assert "the peer refuses our client certificate: unknown CA" in str(error)


def test_files_that_are_no_good_are_named_with_the_host(
    loop: EventLoop, certificates: Certificates
) -> None:
    tls = TlsParameters(ca_file=certificates.missing_file)
    recorder = connect(loop, 5671, host="localhost", tls=tls)
    error = recorder.wait_lost()
    assert isinstance(error, TlsError)
    assert str(error) == (
        f"localhost:5671: TLS: CA file {certificates.missing_file}: No such file or directory"
    )


def test_a_name_that_tls_cannot_carry(loop: EventLoop, certificates: Certificates) -> None:
    tls = TlsParameters(ca_file=certificates.ca_file, server_name=".example.org")
    with Server(until_eof) as server:
        error = failure(loop, server, tls, host="127.0.0.1")
    assert isinstance(error, TlsError)
    assert "bad server name '.example.org'" in str(error)


@pytest.mark.parametrize("how", ["farewell", "eof", "reset"])
def test_the_end_of_an_established_connection(
    loop: EventLoop, certificates: Certificates, trusting: TlsParameters, how: str
) -> None:
    def serve(connection: Any) -> None:
        connection.sendall(b"bye")
        connection.recv(2)
        if how == "farewell":
            try:
                connection.unwrap()
            except OSError:
                pass
        elif how == "reset":
            reset(connection)
        else:
            connection.shutdown(socket.SHUT_RDWR)

    with Server(serve, certificates.server(certificates.good)) as server:
        recorder = Recorder()
        recorder.output += b"ok"
        connect(loop, server.port, host="localhost", tls=trusting, recorder=recorder)
        error = recorder.wait_lost()
    assert recorder.calls == ["connected", "data", "lost"]
    assert recorder.input == b"bye"
    assert isinstance(error, Disconnected)
    assert ("connection lost" if how == "reset" else "closed the connection") in str(error)


def test_garbage_in_the_middle_of_a_connection(
    loop: EventLoop, certificates: Certificates, trusting: TlsParameters
) -> None:
    def serve(connection: Any) -> None:
        raw = socket.socket(fileno=os.dup(connection.fileno()))
        raw.settimeout(PATIENCE)
        raw.sendall(b"\x17\x03\x03\x00\x40" + bytes(64))
        until_eof(raw)
        raw.close()

    with Server(serve, certificates.server(certificates.good)) as server:
        error = failure(loop, server, trusting)
    assert isinstance(error, TlsError)
    assert "clear port" not in str(error)
