# SPDX-License-Identifier: Apache-2.0
"""Hosts that can't be used, each with what an error has to say of it."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from amqp1_driver.testing.fixture import BusFixture
from amqp1_driver.testing.peer import ScriptedPeer
from tests.bars.certificates import Authority, Certificate
from tests.bars.ports import closed_port
from tests.bars.tlsfront import TlsFront

USER, PASSWORD, WRONG = "ann", "0pen-sesame", "wr0ng-word"
KEY_PASSWORD = "key-w0rd"
SECRETS = (PASSWORD, WRONG, KEY_PASSWORD)


@dataclass
class Trouble:
    """`settings` of the driver fit the host that works, too, whose port goes into `good`."""

    name: str
    port: int
    cause: str
    credentials: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    #: makes a bus that works with these settings
    good: Callable[[], AbstractContextManager[BusFixture]] = BusFixture
    good_name: str = "localhost"

    @property
    def host(self) -> str:
        """For a transport URL."""
        return f"{self.credentials}{self.name}:{self.port}"


Made = Iterator[Trouble]


def secured(certificate: Certificate, **options: Any) -> BusFixture:
    """A bus that speaks TLS."""
    return BusFixture("router", tls_cert=certificate.cert, tls_key=certificate.key, **options)


def with_users() -> BusFixture:
    return BusFixture("router", users={USER: PASSWORD})


# -- TCP and AMQP ----------------------------------------------------------------------------


@contextlib.contextmanager
def refused(ca: Authority) -> Made:
    with closed_port() as sock:
        yield Trouble("127.0.0.1", sock.getsockname()[1], "Connection refused")


@contextlib.contextmanager
def hangs_up_at_once(ca: Authority) -> Made:
    with ScriptedPeer(auto=True) as peer:
        peer.override(times=None).expect_header(3).drop()
        yield Trouble("127.0.0.1", peer.port, "connection lost")


@contextlib.contextmanager
def open_refused(ca: Authority) -> Made:
    with ScriptedPeer(auto=True) as peer:
        peer.override(times=None).expect_open().respond().close("amqp:not-found", "no such vhost")
        yield Trouble("127.0.0.1", peer.port, "condition=amqp:not-found, description=no such vhost")


@contextlib.contextmanager
def forced_close(ca: Authority) -> Made:
    with ScriptedPeer(auto=True) as peer:
        peer.override(times=None).expect_begin().respond().close(
            "amqp:connection:forced", "going down"
        )
        yield Trouble(
            "127.0.0.1", peer.port, "condition=amqp:connection:forced, description=going down"
        )


# -- SASL ------------------------------------------------------------------------------------


@contextlib.contextmanager
def wrong_password(ca: Authority) -> Made:
    with with_users() as bus:
        yield Trouble(
            "127.0.0.1",
            bus.port,
            "description=Authentication failed [mech=PLAIN]",
            f"{USER}:{WRONG}@",
            good=with_users,
        )


@contextlib.contextmanager
def unknown_user(ca: Authority) -> Made:
    with with_users() as bus:
        yield Trouble(
            "127.0.0.1",
            bus.port,
            "description=Authentication failed [mech=PLAIN]",
            f"nobody:{PASSWORD}@",
            good=with_users,
        )


@contextlib.contextmanager
def no_credentials(ca: Authority) -> Made:
    with with_users() as bus:
        yield Trouble(
            "127.0.0.1",
            bus.port,
            "no SASL mechanism in common with the peer; allowed here: ANONYMOUS",
        )


@contextlib.contextmanager
def unknown_mechanism(ca: Authority) -> Made:
    with with_users() as bus:
        yield Trouble(
            "127.0.0.1",
            bus.port,
            "no SASL mechanism in common with the peer; allowed here: NO-SUCH",
            f"{USER}:{PASSWORD}@",
            {"sasl_mechanisms": "NO-SUCH"},
        )


@contextlib.contextmanager
def sasl_out_of_order(ca: Authority) -> Made:
    """5.3.3.6: sys-temp."""
    with ScriptedPeer(auto=True) as peer:
        peer.override(times=None).expect_sasl_init().respond(outcome=4)
        yield Trouble("127.0.0.1", peer.port, "Authentication failed [mech=ANONYMOUS]")


def as_ann(ca: Authority) -> dict[str, Any]:
    """The settings of a client with a certificate."""
    own = ca.client(USER, KEY_PASSWORD)
    return {
        "ssl_ca_file": ca.ca_file,
        "ssl_cert_file": own.cert,
        "ssl_key_file": own.key,
        "ssl_key_password": KEY_PASSWORD,
    }


@contextlib.contextmanager
def external_not_offered(ca: Authority) -> Made:
    server = ca.server("localhost")
    with ScriptedPeer(auto=True) as peer, TlsFront(peer.port, server) as front:
        yield Trouble(
            "localhost",
            front.port,
            "the peer offers ANONYMOUS, PLAIN but not EXTERNAL",
            settings={**as_ann(ca), "sasl_mechanisms": "EXTERNAL"},
            good=lambda: secured(server, tls_ca=ca.ca_file),
        )


@contextlib.contextmanager
def external_refused(ca: Authority) -> Made:
    server = ca.server("localhost")
    with (
        ScriptedPeer(auto=True, mechanisms=("EXTERNAL",)) as peer,
        TlsFront(peer.port, server) as front,
    ):
        peer.override(times=None).expect_sasl_init().respond(outcome=1)
        yield Trouble(
            "localhost",
            front.port,
            "EXTERNAL refused (code 1)",
            settings=as_ann(ca),
            good=lambda: secured(server, tls_ca=ca.ca_file),
        )


# -- TLS -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _bad_certificate(ca: Authority, bad: Certificate, cause: str) -> Made:
    with secured(bad) as bus:
        yield Trouble(
            "localhost",
            bus.port,
            cause,
            settings={"ssl_ca_file": ca.ca_file},
            good=lambda: secured(ca.server("localhost")),
        )


def wrong_name(ca: Authority) -> AbstractContextManager[Trouble]:
    return _bad_certificate(
        ca,
        ca.server("other.example"),
        "wrong host name in the certificate of the peer (expected localhost in subjectAltName)",
    )


def expired(ca: Authority) -> AbstractContextManager[Trouble]:
    return _bad_certificate(
        ca, ca.server("localhost", expired=True), "the certificate of the peer has expired"
    )


def unknown_ca(ca: Authority) -> AbstractContextManager[Trouble]:
    return _bad_certificate(
        ca, ca.another().server("localhost"), "the certificate of the peer comes from an unknown CA"
    )


@contextlib.contextmanager
def tls_to_a_clear_port(ca: Authority) -> Made:
    with BusFixture() as bus:
        yield Trouble(
            "localhost",
            bus.port,
            "the peer does not speak TLS (is this a clear port?)",
            settings={"ssl_ca_file": ca.ca_file},
            good=lambda: secured(ca.server("localhost")),
        )


@contextlib.contextmanager
def clear_to_a_tls_port(ca: Authority) -> Made:
    with secured(ca.server("localhost")) as bus:
        yield Trouble("localhost", bus.port, "is this a TLS port?")


@contextlib.contextmanager
def clear_to_openssl(ca: Authority) -> Made:
    """OpenSSL's own way to refuse what is not TLS."""
    with ScriptedPeer(auto=True) as peer, TlsFront(peer.port, ca.server("localhost")) as front:
        yield Trouble("localhost", front.port, "is this a TLS port?")


@contextlib.contextmanager
def old_version(ca: Authority) -> Made:
    server = ca.server("localhost")
    with (
        ScriptedPeer(auto=True) as peer,
        TlsFront(peer.port, server, maximum=ssl.TLSVersion.TLSv1_2) as front,
    ):
        yield Trouble(
            "localhost",
            front.port,
            "no TLS version in common with the peer",
            settings={"ssl_ca_file": ca.ca_file, "ssl_min_version": "TLSv1.3"},
            good=lambda: secured(server),
        )


@contextlib.contextmanager
def wants_client_certificate(ca: Authority) -> Made:
    server = ca.server("localhost")
    with secured(server, tls_ca=ca.ca_file) as bus:
        yield Trouble(
            "localhost",
            bus.port,
            "the peer requires a client certificate",
            settings={"ssl_ca_file": ca.ca_file},
            good=lambda: secured(server),
        )


@contextlib.contextmanager
def refuses_client_certificate(ca: Authority) -> Made:
    server, foreign = ca.server("localhost"), ca.another()
    own = foreign.client(USER)
    with secured(server, tls_ca=ca.ca_file) as bus:
        yield Trouble(
            "localhost",
            bus.port,
            "the peer refuses our client certificate: unknown CA",
            settings={
                "ssl_ca_file": ca.ca_file,
                "ssl_cert_file": own.cert,
                "ssl_key_file": own.key,
            },
            good=lambda: secured(server, tls_ca=foreign.ca_file),
        )


@contextlib.contextmanager
def wrong_key_password(ca: Authority) -> Made:
    with secured(ca.server("localhost"), tls_ca=ca.ca_file) as bus:
        yield Trouble(
            "localhost",
            bus.port,
            "the key password is wrong",
            settings=as_ann(ca) | {"ssl_key_password": WRONG},
        )


#: of a host
OF_HOSTS = [
    refused,
    hangs_up_at_once,
    open_refused,
    forced_close,
    wrong_password,
    unknown_user,
    no_credentials,
    sasl_out_of_order,
    external_not_offered,
    external_refused,
    wrong_name,
    expired,
    unknown_ca,
    tls_to_a_clear_port,
    clear_to_a_tls_port,
    clear_to_openssl,
    old_version,
    wants_client_certificate,
    refuses_client_certificate,
]
#: of the settings: no host would do
OF_SETTINGS = [unknown_mechanism, wrong_key_password]
