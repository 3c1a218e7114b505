# SPDX-License-Identifier: Apache-2.0
"""Bar: TLS and SASL as deployments use them, on the embedded bus and in front of a peer."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any

import oslo_messaging as om
import pytest

from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.fixture import BusProcess
from amqp1_driver.testing.peer import ScriptedPeer
from tests.bars.certificates import Authority
from tests.bars.support import Transports, outcome
from tests.bars.tlsfront import TlsFront
from tests.bars.troubles import KEY_PASSWORD, PASSWORD, USER, as_ann, secured, with_users


@pytest.fixture
def peer() -> Iterator[ScriptedPeer]:
    with ScriptedPeer(auto=True) as one:
        yield one


def assert_calls_work(transports: Transports, url: str, **settings: Any) -> None:
    transports.serve(url, **settings)
    client = transports.client(url, timeout=5, **settings)
    assert client.call({}, "echo", text="hello") == "hello"


def cast(transports: Transports, url: str, **settings: Any) -> None:
    """Taken by a scripted peer."""
    transports.client(url, default_send_timeout=5, **settings).cast({}, "echo", text="hello")


def test_the_command_with_tls_and_users(authority: Authority, transports: Transports) -> None:
    server = authority.server("localhost")
    with BusProcess(
        "broker", "--tls-cert", server.cert, "--tls-key", server.key, "--user", f"{USER}:{PASSWORD}"
    ) as bus:
        assert bus.address.startswith("amqps://")
        assert_calls_work(
            transports, bus.url("amqp", host="localhost"), ssl_ca_file=authority.ca_file
        )


def test_the_command_with_client_certificates(authority: Authority, transports: Transports) -> None:
    server = authority.server("localhost")
    with BusProcess(
        "router", "--tls-cert", server.cert, "--tls-key", server.key, "--tls-ca", authority.ca_file
    ) as bus:
        assert_calls_work(transports, bus.url("amqp", host="localhost"), **as_ann(authority))


def test_the_ca_certificates_of_the_system_are_used_without_a_file(
    authority: Authority, transports: Transports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority.ca_file)
    with secured(authority.server("localhost")) as bus:
        assert_calls_work(transports, bus.url("amqp", host="localhost"), ssl=True)


def test_an_address_instead_of_a_name_is_looked_for_in_the_certificate(
    authority: Authority, transports: Transports
) -> None:
    with secured(authority.server("127.0.0.1")) as bus:
        assert_calls_work(transports, bus.url("amqp"), ssl_ca_file=authority.ca_file)


def test_plain_with_the_credentials_of_the_url(transports: Transports) -> None:
    with with_users() as bus:
        assert_calls_work(transports, bus.url())


def test_plain_by_name_of_the_mechanism(transports: Transports, peer: ScriptedPeer) -> None:
    url = f"amqp://{USER}:{PASSWORD}@127.0.0.1:{peer.port}"
    cast(transports, url, sasl_mechanisms="PLAIN")
    [init] = peer.frames(p.SaslInit)
    # RFC 4616: authorisation identity (none), user, password
    assert init.performative.mechanism == "PLAIN"
    assert init.performative.initial_response == b"\0ann\x000pen-sesame"


def test_the_default_realm_is_added_to_users_without_one(
    transports: Transports, peer: ScriptedPeer
) -> None:
    cast(
        transports, f"amqp://{USER}:{PASSWORD}@127.0.0.1:{peer.port}", sasl_default_realm="example"
    )
    cast(
        transports,
        f"amqp://{USER}%40own:{PASSWORD}@127.0.0.1:{peer.port}",
        sasl_default_realm="example",
    )
    assert [
        entry.performative.initial_response.split(b"\0")[1] for entry in peer.frames(p.SaslInit)
    ] == [b"ann@example", b"ann@own"]


def test_external_with_an_encrypted_key(authority: Authority, transports: Transports) -> None:
    with (
        ScriptedPeer(auto=True, mechanisms=("EXTERNAL", "PLAIN")) as peer,
        TlsFront(peer.port, authority.server("localhost"), client_ca=authority.ca_file) as front,
    ):
        cast(transports, f"amqp://localhost:{front.port}", **as_ann(authority))
        [init] = peer.frames(p.SaslInit)
        [shown] = front.clients
    assert init.performative.mechanism == "EXTERNAL"
    assert (("commonName", "ann"),) in shown["subject"]


def test_a_client_certificate_where_tls_alone_identifies_clients(
    authority: Authority, transports: Transports
) -> None:
    """The bus offers ANONYMOUS only, as the driver inside of oslo.messaging has it."""
    with (
        ScriptedPeer(auto=True, mechanisms=("ANONYMOUS",)) as peer,
        TlsFront(peer.port, authority.server("localhost"), client_ca=authority.ca_file) as front,
    ):
        cast(transports, f"amqp://localhost:{front.port}", **as_ann(authority))
        [init] = peer.frames(p.SaslInit)
    assert init.performative.mechanism == "ANONYMOUS"


def test_a_password_beside_a_client_certificate(
    authority: Authority, transports: Transports
) -> None:
    """A user in the URL means a password mechanism, whatever TLS is told."""
    with (
        ScriptedPeer(auto=True, mechanisms=("EXTERNAL", "PLAIN")) as peer,
        TlsFront(peer.port, authority.server("localhost"), client_ca=authority.ca_file) as front,
    ):
        cast(transports, f"amqp://{USER}:{PASSWORD}@localhost:{front.port}", **as_ann(authority))
        assert [e.performative.mechanism for e in peer.frames(p.SaslInit)] == ["PLAIN"]


@pytest.mark.parametrize(
    ("least", "most", "found"),
    [
        ("TLSv1.2", ssl.TLSVersion.TLSv1_2, "TLSv1.2"),
        ("TLSv1.2", ssl.TLSVersion.TLSv1_3, "TLSv1.3"),
        ("TLSv1.3", ssl.TLSVersion.TLSv1_3, "TLSv1.3"),
    ],
)
def test_the_minimum_version(
    least: str,
    most: ssl.TLSVersion,
    found: str,
    authority: Authority,
    transports: Transports,
    peer: ScriptedPeer,
) -> None:
    with TlsFront(peer.port, authority.server("localhost"), maximum=most) as front:
        cast(
            transports,
            f"amqp://localhost:{front.port}",
            ssl_ca_file=authority.ca_file,
            ssl_min_version=least,
        )
        assert front.versions == [found]


def test_the_host_name_is_sent_as_sni(
    authority: Authority, transports: Transports, peer: ScriptedPeer
) -> None:
    with TlsFront(peer.port, authority.server("localhost")) as front:
        cast(transports, f"amqp://localhost:{front.port}", ssl_ca_file=authority.ca_file)
        assert front.server_names == ["localhost"]


def test_an_address_is_not_sent_as_sni(
    authority: Authority, transports: Transports, peer: ScriptedPeer
) -> None:
    """RFC 6066, 3: literal addresses are not permitted."""
    with TlsFront(peer.port, authority.server("127.0.0.1")) as front:
        cast(transports, f"amqp://127.0.0.1:{front.port}", ssl_ca_file=authority.ca_file)
        assert front.server_names == [None]


def test_the_virtual_host_may_be_the_name_that_is_verified(
    authority: Authority, transports: Transports, peer: ScriptedPeer
) -> None:
    settings: dict[str, Any] = {"ssl_ca_file": authority.ca_file, "ssl_verify_vhost": True}
    with TlsFront(peer.port, authority.server("tenant.example")) as front:
        cast(transports, f"amqp://localhost:{front.port}/tenant.example", **settings)
        assert front.server_names == ["tenant.example"]
    with TlsFront(peer.port, authority.server("localhost")) as front:
        client = transports.client(
            f"amqp://localhost:{front.port}/tenant.example", retry=0, **settings
        )
        done = outcome(lambda: client.cast({}, "echo", text="hello"))
    assert isinstance(done.error, om.MessageDeliveryFailure)
    assert (
        "wrong host name in the certificate of the peer (expected tenant.example in subjectAltName)"
    ) in done.text


def test_traced_frames_do_not_show_the_password(
    transports: Transports, peer: ScriptedPeer, capfd: pytest.CaptureFixture[str]
) -> None:
    cast(transports, f"amqp://{USER}:{PASSWORD}@127.0.0.1:{peer.port}", trace=True)
    transports.cleanup()
    shown = "".join(capfd.readouterr())
    assert "@transfer" in shown
    assert PASSWORD not in shown


def test_settings_and_hosts_do_not_show_passwords(
    authority: Authority, transports: Transports
) -> None:
    transport = transports.rpc(f"amqp://{USER}:{PASSWORD}@127.0.0.1", **as_ann(authority))
    driver = transport._driver
    shown = repr(driver._settings) + repr(driver._hosts) + str(driver._hosts)
    assert PASSWORD not in shown
    assert KEY_PASSWORD not in shown
