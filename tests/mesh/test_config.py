# SPDX-License-Identifier: Apache-2.0

"""What the documentation shows to operators is what the mesh of these tests runs with."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.mesh import config

EXAMPLES = Path(__file__).resolve().parents[2] / "doc" / "source" / "examples"

HOSTS = ["router1.example.org", "router2.example.org", "router3.example.org"]
MESH = [
    config.Router(host.partition(".")[0], host, listen="0.0.0.0", mesh_host=host) for host in HOSTS
]
ALONE = config.Router("router1", "router1.example.org", listen="0.0.0.0")
SECURE = config.Router(
    "router1",
    "router1.example.org",
    port=5671,
    listen="0.0.0.0",
    mechanisms="PLAIN",
    sasl_dir="/etc/skupper-router/sasl2",
    idle=30,
    tls=config.Tls(
        "/etc/pki/amqp/ca.pem", "/etc/pki/amqp/router1.pem", "/etc/pki/amqp/router1.key"
    ),
)

SECURE_MESH = [
    dataclasses.replace(
        SECURE,
        name=plain.name,
        host=plain.host,
        mesh_host=plain.host,
        tls=config.Tls(
            "/etc/pki/amqp/ca.pem",
            f"/etc/pki/amqp/{plain.name}.pem",
            f"/etc/pki/amqp/{plain.name}.key",
        ),
        mesh_tls=config.Tls(
            "/etc/pki/mesh/ca.pem",
            f"/etc/pki/mesh/{plain.name}.pem",
            f"/etc/pki/mesh/{plain.name}.key",
        ),
    )
    for plain in MESH
]


@pytest.mark.parametrize(
    ("name", "settings", "others"),
    [
        ("router.conf", ALONE, []),
        ("mesh-router1.conf", MESH[0], []),
        ("mesh-router2.conf", MESH[1], MESH[:1]),
        ("mesh-router3.conf", MESH[2], MESH[:2]),
        ("router-secure.conf", SECURE, []),
        ("mesh-secure.conf", SECURE_MESH[1], SECURE_MESH[:1]),
    ],
)
def test_the_example_is_what_the_tests_run(name, settings, others):
    _, _, shown = (EXAMPLES / name).read_text().partition("# begin\n")
    assert shown == config.text(settings, others)


def test_the_example_of_sasl_is_what_the_tests_run():
    _, _, shown = (EXAMPLES / "router-sasl.conf").read_text().partition("# begin\n")
    assert shown == config.sasl("/etc/skupper-router/users.sasldb")


def test_the_example_of_qpidd_is_what_its_tests_run():
    _, _, shown = (EXAMPLES / "qpidd.conf").read_text().partition("# begin\n")
    assert shown == config.qpidd()


def test_every_kind_of_address_has_its_distribution():
    """Those of the driver's own options; a prefix that is missing would be balanced."""
    text = config.text(ALONE)
    assert [line.split()[1] for line in text.splitlines() if "prefix" in line] == [
        "openstack.org/om/rpc/multicast",
        "openstack.org/om/rpc/unicast",
        "openstack.org/om/rpc/anycast",
        "openstack.org/om/notify/anycast",
    ]
    assert "mode: standalone" in text
    assert "inter-router" not in text
