# SPDX-License-Identifier: Apache-2.0

"""A real router that asks for TLS, a user and his password, configured as documented."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path

import oslo_messaging as om
import pytest

from tests.bars.certificates import Authority
from tests.bars.ports import lasting_port
from tests.bars.support import Transports, outcome
from tests.mesh import config
from tests.mesh.routers import Process, program

USER, REALM, PASSWORD, WRONG = "nova", "openstack", "s3cret", "wr0ng"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def users(tmp_path: Path) -> str:
    """A folder for Cyrus SASL, with one user; saslpasswd2 writes him down."""
    database, folder = tmp_path / "users.sasldb", tmp_path / "sasl2"
    folder.mkdir()
    (folder / "skrouterd.conf").write_text(config.sasl(str(database)))
    subprocess.run(
        ["saslpasswd2", "-c", "-p", "-f", str(database), "-u", REALM, USER],
        input=PASSWORD,
        text=True,
        check=True,
        timeout=20,
    )
    return str(folder)


def settings(name: str, users: str, authority: Authority) -> config.Router:
    """A router for applications with TLS and passwords."""
    own = authority.server("localhost")
    return config.Router(
        name,
        "localhost",
        port=lasting_port(),
        listen="127.0.0.1",
        mechanisms="PLAIN",
        sasl_dir=users,
        idle=30,
        tls=config.Tls(authority.ca_file, own.cert, own.key),
    )


@pytest.fixture
def router(tmp_path: Path, users: str, authority: Authority) -> Iterator[Process]:
    binary = program()
    assert binary is not None
    process = Process(binary, settings("router1", users, authority), [], tmp_path)
    process.start()
    yield process
    process.kill()


def url(router: Process, password: str, user: str = f"{USER}%40{REALM}") -> str:
    return f"amqp://{user}:{password}@{router.address}"


def test_calls_go_by_tls_with_a_password(
    router: Process, authority: Authority, transports: Transports
) -> None:
    way = url(router, PASSWORD)
    transports.serve(way, ssl_ca_file=authority.ca_file)
    client = transports.client(way, timeout=10, ssl_ca_file=authority.ca_file)
    assert client.call({}, "echo", text="hidden") == "hidden"


def test_the_realm_may_be_an_option(
    router: Process, authority: Authority, transports: Transports
) -> None:
    settings = {"ssl_ca_file": authority.ca_file, "sasl_default_realm": REALM}
    way = url(router, PASSWORD, USER)
    transports.serve(way, **settings)
    assert transports.client(way, timeout=10, **settings).call({}, "echo", text="1") == "1"


def test_a_wrong_password_is_told_as_such(
    router: Process, authority: Authority, transports: Transports
) -> None:
    client = transports.client(url(router, WRONG), retry=0, ssl_ca_file=authority.ca_file)
    told = outcome(lambda: client.cast({}, "echo", text="1"))
    assert isinstance(told.error, om.exceptions.MessageDeliveryFailure)
    assert "Authentication failed [mech=PLAIN]" in told.text
    assert WRONG not in told.text
    assert told.seconds < 5


def test_one_who_speaks_no_tls_gets_nowhere(router: Process, transports: Transports) -> None:
    """The router answers in clear as far as the header, and hangs up."""
    client = transports.client(url(router, PASSWORD), retry=0)
    told = outcome(lambda: client.cast({}, "echo", text="1"))
    assert isinstance(told.error, om.exceptions.MessageDeliveryFailure)
    assert "the peer closed the connection" in told.text
    assert told.seconds < 5


class SecureMesh:
    """Two routers that show each other certificates: of one authority, or of two."""

    def __init__(self, folder: Path, users: str, authority: Authority, second: Authority) -> None:
        binary = program()
        assert binary is not None
        made = []
        for number, its in enumerate((authority, second), 1):
            own = its.server("localhost")
            made.append(
                dataclasses.replace(
                    settings(f"router{number}", users, authority),
                    mesh_host="localhost",
                    mesh_port=lasting_port(),
                    mesh_tls=config.Tls(its.ca_file, own.cert, own.key),
                )
            )
        self.routers = [
            Process(binary, one, made[:index], folder) for index, one in enumerate(made)
        ]

    def __enter__(self) -> list[str]:
        for one in self.routers:
            one.start()
        return [url(one, PASSWORD) for one in self.routers]

    def __exit__(self, *exc_info: object) -> None:
        for one in self.routers:
            one.kill()


def test_routers_join_by_certificates(
    tmp_path: Path, users: str, authority: Authority, transports: Transports
) -> None:
    with SecureMesh(tmp_path, users, authority, authority) as (first, second):
        transports.serve(first, ssl_ca_file=authority.ca_file)
        client = transports.client(second, timeout=60, ssl_ca_file=authority.ca_file)
        assert client.call({}, "echo", text="through") == "through"


def test_a_router_with_a_certificate_of_another_authority_stays_out(
    tmp_path: Path, users: str, authority: Authority, transports: Transports
) -> None:
    with SecureMesh(tmp_path, users, authority, authority.another()) as (first, second):
        transports.serve(first, ssl_ca_file=authority.ca_file)
        # longer than those of one authority need, see the test above
        told = outcome(
            lambda: transports.client(second, timeout=6, ssl_ca_file=authority.ca_file).call(
                {}, "echo", text="through"
            )
        )
        assert isinstance(told.error, om.MessagingTimeout)
