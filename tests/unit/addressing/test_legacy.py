# SPDX-License-Identifier: Apache-2.0

"""Legacy addresses: exclusive, unicast and broadcast."""

import pytest
from hypothesis import given

from amqp1_driver.addressing.base import Node, Service
from amqp1_driver.addressing.legacy import LegacyAddresser
from amqp1_driver.exceptions import UnsupportedFeature

from .strategies import config, destinations, names, notify, rpc

PLAIN = LegacyAddresser(config())
VHOST = LegacyAddresser(config("vh"))


@pytest.mark.parametrize(
    ("addresser", "dest", "address"),
    [
        (PLAIN, rpc("nova", "compute"), "unicast.nova.compute"),
        (PLAIN, rpc("nova", "compute", "h1"), "exclusive.nova.compute.h1"),
        (PLAIN, rpc("nova", "compute", fanout=True), "broadcast.nova.compute.all"),
        (PLAIN, rpc(None, "compute"), "unicast.rpc.compute"),
        (PLAIN, notify("nova", "notifications.info"), "unicast.nova.notifications.info"),
        (PLAIN, notify(None, "notifications.info"), "unicast.notify.notifications.info"),
        (VHOST, rpc("nova", "compute"), "unicast.vh.nova.compute"),
        (VHOST, rpc("nova", "compute", "h1.a.org"), "exclusive.vh.nova.compute.h1.a.org"),
        (VHOST, rpc("nova", "compute", fanout=True), "broadcast.vh.nova.compute.all"),
        (VHOST, notify("nova", "n.error"), "unicast.vh.nova.n.error"),
    ],
)
def test_target(addresser, dest, address):
    assert addresser.target(dest) == Node(address, ())


def test_prefixes_from_the_configuration():
    addresser = LegacyAddresser(
        config(server_request_prefix="one", broadcast_prefix="all", group_request_prefix="any")
    )
    nodes = addresser.sources(rpc("x", "t", "s"), pool=None, unique="u")
    assert [node.address for node in nodes] == ["one.x.t.s", "any.x.t", "all.x.t.all"]


def test_sources_of_a_server():
    assert VHOST.sources(rpc("nova", "compute", "h1"), pool=None, unique="u") == (
        Node("exclusive.vh.nova.compute.h1"),
        Node("unicast.vh.nova.compute"),
        Node("broadcast.vh.nova.compute.all"),
    )
    assert PLAIN.sources(rpc("nova", "compute"), pool=None, unique="u") == (
        Node("unicast.nova.compute"),
        Node("broadcast.nova.compute.all"),
    )


def test_source_of_notifications():
    dest = notify("nova", "notifications.info")
    for pool in (None, ""):
        assert PLAIN.sources(dest, pool=pool, unique="u") == (
            Node("unicast.nova.notifications.info"),
        )


def test_source_of_a_pool():
    dest = notify("nova", "notifications.info")
    pooled = LegacyAddresser(config(), "a broker", pools=True)
    assert pooled.sources(dest, pool="p", unique="u") == (
        Node("unicast.nova.notifications.info::p"),
    )
    with pytest.raises(UnsupportedFeature) as caught:
        LegacyAddresser(config(), "qpidd").sources(dest, pool="p", unique="u")
    assert str(caught.value) == (
        "notification pools are not supported by qpidd (address=unicast.nova.notifications.info)"
    )


# Dots within names are part of this syntax, as operators have it: see the module.
UNDOTTED = names("ab:/%")


@given(destinations(UNDOTTED), destinations(UNDOTTED))
def test_different_destinations_have_different_addresses(one, other):
    same = PLAIN.target(one) == PLAIN.target(other)
    if one.service is other.service:
        assert same == (one == other)


@given(destinations(UNDOTTED))
def test_a_server_listens_where_its_clients_send(dest):
    sources = VHOST.sources(dest, pool=None, unique="u")
    assert VHOST.target(dest) in sources
    assert len(set(sources)) == len(sources)
    if dest.service is Service.NOTIFY:
        assert len(sources) == 1
