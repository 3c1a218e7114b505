# SPDX-License-Identifier: Apache-2.0

import ssl

import pytest

from amqp1_driver.eventloop import TlsError, TlsParameters
from amqp1_driver.eventloop.tls import TlsEngine, make_context
from tests.unit.eventloop.certificates import KEY_PASSWORD, Certificates


class Peer:
    """The server's end, in memory."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def handshake(self, data: bytes) -> bytes:
        self.incoming.write(data)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self.outgoing.read()

    def say(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self.outgoing.read()


@pytest.fixture
def pair(certificates: Certificates) -> tuple[TlsEngine, Peer]:
    context = make_context(TlsParameters(ca_file=certificates.ca_file))
    engine = TlsEngine(context, "localhost")
    peer = Peer(certificates.server(certificates.good))
    assert not engine.established
    engine.feed(b"")
    while not engine.established:
        assert engine.feed(peer.handshake(engine.take_output())) == b""
    engine.feed(peer.handshake(engine.take_output()))  # the session tickets
    return engine, peer


def test_plaintext_passes_both_ways(pair: tuple[TlsEngine, Peer]) -> None:
    engine, peer = pair
    assert engine.wrap(b"ping") == 4
    wire = engine.take_output()
    assert b"ping" not in wire
    peer.incoming.write(wire)
    assert peer.tls.read() == b"ping"
    wire = peer.say(b"pong")
    assert engine.feed(wire[:7]) == b""
    assert engine.feed(memoryview(wire[7:])) == b"pong"
    assert engine.describe().startswith("TLSv1.3 TLS_")


def test_large_input_comes_whole(pair: tuple[TlsEngine, Peer]) -> None:
    engine, peer = pair
    data = bytes(range(256)) * 4096
    assert engine.feed(peer.say(data)) == data


def test_close_notify_is_seen_and_sent(pair: tuple[TlsEngine, Peer]) -> None:
    engine, peer = pair
    engine.close_notify()
    peer.incoming.write(engine.take_output())
    assert peer.tls.read() == b""
    try:
        peer.tls.unwrap()
    except ssl.SSLWantReadError:
        pass
    assert engine.feed(peer.outgoing.read()) == b""
    assert engine.closed


def test_data_in_front_of_the_farewell_is_not_lost(pair: tuple[TlsEngine, Peer]) -> None:
    engine, peer = pair
    wire = peer.say(b"last words")
    try:
        peer.tls.unwrap()
    except ssl.SSLWantReadError:
        pass
    assert engine.feed(wire + peer.outgoing.read()) == b"last words"
    assert engine.closed


def test_data_in_front_of_a_broken_record_is_not_lost(pair: tuple[TlsEngine, Peer]) -> None:
    engine, peer = pair
    wire = peer.say(b"last words")
    assert engine.feed(wire + b"\x17\x03\x03\x00\x20" + bytes(32)) == b"last words"
    assert engine.error is not None
    assert "clear port" not in engine.error.reason


def test_a_broken_record_is_an_error_and_the_peer_gets_an_alert(
    pair: tuple[TlsEngine, Peer],
) -> None:
    engine, _ = pair
    with pytest.raises(TlsError) as caught:
        engine.feed(b"garbage" * 10)
    assert caught.value.reason == "the peer sent a broken record (WRONG_VERSION_NUMBER)"


def test_there_is_no_farewell_in_the_middle_of_the_handshake(certificates: Certificates) -> None:
    engine = TlsEngine(make_context(TlsParameters(ca_file=certificates.ca_file)), "localhost")
    engine.feed(b"")
    assert engine.take_output() != b""
    engine.close_notify()
    assert engine.take_output() == b""


@pytest.mark.parametrize("name", [".example.org", "a" * 300], ids=["leading dot", "long"])
def test_server_names_that_cannot_be_sent(name: str, certificates: Certificates) -> None:
    context = make_context(TlsParameters(ca_file=certificates.ca_file))
    with pytest.raises(TlsError, match="bad server name"):
        TlsEngine(context, name)


@pytest.mark.parametrize("name", [None, "", "."])
def test_a_check_without_a_name_to_look_for_is_refused(
    name: str | None, certificates: Certificates
) -> None:
    with pytest.raises(TlsError, match="no server name"):
        TlsEngine(make_context(TlsParameters(ca_file=certificates.ca_file)), name)
    TlsEngine(make_context(TlsParameters(verify=False)), name)


def test_the_dot_of_the_dns_root_is_not_part_of_the_name(certificates: Certificates) -> None:
    engine = TlsEngine(make_context(TlsParameters(ca_file=certificates.ca_file)), "localhost.")
    engine.feed(b"")
    hello = engine.take_output()
    assert b"\x00\x09localhost" in hello
    assert b"localhost." not in hello


def test_the_context_checks_by_default() -> None:
    context = make_context(TlsParameters())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_the_context_checks_nothing_when_told_so() -> None:
    context = make_context(TlsParameters(verify=False))
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.check_hostname


def test_without_a_ca_file_the_systems_cas_are_trusted(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificates.ca_file)
    assert len(make_context(TlsParameters()).get_ca_certs()) >= 1


def test_the_minimum_version_is_set() -> None:
    context = make_context(TlsParameters(min_version="TLSv1.3"))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    with pytest.raises(TlsError, match=r"unknown minimum TLS version 'SSLv3'"):
        make_context(TlsParameters(min_version="SSLv3"))


def test_a_client_certificate_with_a_locked_key(certificates: Certificates) -> None:
    make_context(
        TlsParameters(
            cert_file=certificates.cert_file,
            key_file=certificates.locked_key_file,
            key_password=KEY_PASSWORD,
        )
    )


@pytest.mark.parametrize(
    ("cert", "key", "password", "text"),
    [
        ("cert_file", "locked_key_file", "wrong", "the key password is wrong"),
        ("cert_file", "locked_key_file", None, "the key needs a password"),
        ("cert_file", "missing_file", None, "No such file"),
        ("missing_file", None, None, "No such file"),
        ("garbage_file", None, None, "no usable PEM file"),
        ("cert_file", "other_key_file", None, "certificate and key do not belong together"),
    ],
)
def test_client_certificates_that_are_no_good(
    certificates: Certificates, cert: str, key: str | None, password: str | None, text: str
) -> None:
    parameters = TlsParameters(
        cert_file=getattr(certificates, cert),
        key_file=getattr(certificates, key) if key else None,
        key_password=password,
    )
    with pytest.raises(TlsError, match=text) as caught:
        make_context(parameters)
    assert getattr(certificates, cert) in str(caught.value)


@pytest.mark.parametrize(
    ("ca", "text"), [("missing_file", "No such file"), ("garbage_file", "no usable PEM file")]
)
def test_ca_files_that_are_no_good(certificates: Certificates, ca: str, text: str) -> None:
    with pytest.raises(TlsError, match=text) as caught:
        make_context(TlsParameters(ca_file=getattr(certificates, ca)))
    assert getattr(certificates, ca) in str(caught.value)


def test_the_key_password_is_not_shown() -> None:
    assert "sesame" not in repr(TlsParameters(key_password=KEY_PASSWORD))
