# SPDX-License-Identifier: Apache-2.0

"""Routable addresses: paths with a keyword."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp1_driver.addressing.base import Node, Service
from amqp1_driver.addressing.routable import RoutableAddresser
from amqp1_driver.exceptions import UnsupportedFeature

from .strategies import config, destinations, names, notify, rpc

PLAIN = RoutableAddresser(config())
VHOST = RoutableAddresser(config("vh"))
RPC = "openstack.org/om/rpc"
NOTIFY = "openstack.org/om/notify"


@pytest.mark.parametrize(
    ("addresser", "dest", "address"),
    [
        (PLAIN, rpc("nova", "compute"), f"{RPC}/anycast/nova/compute"),
        (PLAIN, rpc("nova", "compute", "h1"), f"{RPC}/unicast/nova/compute/h1"),
        (PLAIN, rpc("nova", "compute", fanout=True), f"{RPC}/multicast/nova/compute"),
        (PLAIN, rpc(None, "compute"), f"{RPC}/anycast/rpc/compute"),
        (PLAIN, notify("nova", "notifications.info"), f"{NOTIFY}/anycast/nova/notifications.info"),
        (PLAIN, notify(None, "n.info"), f"{NOTIFY}/anycast/notify/n.info"),
        (VHOST, rpc("nova", "compute"), f"{RPC}/anycast/vh/nova/compute"),
        (VHOST, rpc("nova", "compute", "h.a.org"), f"{RPC}/unicast/vh/nova/compute/h.a.org"),
        (VHOST, rpc("nova", "compute", fanout=True), f"{RPC}/multicast/vh/nova/compute"),
        (VHOST, notify("nova", "n.info"), f"{NOTIFY}/anycast/vh/nova/n.info"),
        # slashes and percent signs within names
        (PLAIN, rpc("a/b", "c"), f"{RPC}/anycast/a%2Fb/c"),
        (PLAIN, rpc("a", "b/c"), f"{RPC}/anycast/a/b%2Fc"),
        (PLAIN, rpc("a%2Fb", "c", "d%"), f"{RPC}/unicast/a%252Fb/c/d%25"),
        (RoutableAddresser(config("/")), rpc("nova", "t"), f"{RPC}/anycast/%2F/nova/t"),
    ],
)
def test_target(addresser, dest, address):
    assert addresser.target(dest) == Node(address, ())


def test_prefixes_and_keywords_from_the_configuration():
    addresser = RoutableAddresser(
        config(
            rpc_address_prefix="r/p",
            notify_address_prefix="n/p",
            unicast_address="one",
            anycast_address="any",
            multicast_address="all",
        )
    )
    nodes = addresser.sources(rpc("x", "t", "s"), pool=None, unique="u")
    assert [node.address for node in nodes] == ["r/p/one/x/t/s", "r/p/any/x/t", "r/p/all/x/t"]
    assert addresser.target(notify("x", "t")).address == "n/p/any/x/t"


def test_sources_of_a_server():
    assert VHOST.sources(rpc("nova", "compute", "h1"), pool=None, unique="u") == (
        Node(f"{RPC}/unicast/vh/nova/compute/h1"),
        Node(f"{RPC}/anycast/vh/nova/compute"),
        Node(f"{RPC}/multicast/vh/nova/compute"),
    )
    assert PLAIN.sources(rpc("nova", "compute"), pool=None, unique="u") == (
        Node(f"{RPC}/anycast/nova/compute"),
        Node(f"{RPC}/multicast/nova/compute"),
    )


def test_source_of_notifications():
    assert PLAIN.sources(notify("nova", "n.info"), pool=None, unique="u") == (
        Node(f"{NOTIFY}/anycast/nova/n.info"),
    )


def test_pools_are_refused_by_the_name_of_the_bus():
    addresser = RoutableAddresser(config(), "skupper-router")
    with pytest.raises(UnsupportedFeature, match="not supported by skupper-router"):
        addresser.sources(notify("nova", "n.info"), pool="p", unique="u")


@given(st.none() | names(), destinations(names()), st.none() | names(), destinations(names()))
@example("a", rpc("b", "c"), None, rpc("a", "b", "c"))
@example(None, rpc("a/b", "c"), "a", rpc("b", "c"))
def test_different_destinations_and_virtual_hosts_never_share_an_address(
    vhost, one, other_vhost, other
):
    left = RoutableAddresser(config(vhost)).target(one)
    right = RoutableAddresser(config(other_vhost)).target(other)
    assert (left == right) == ((vhost, one) == (other_vhost, other))


@given(destinations(names()))
def test_a_server_listens_where_its_clients_send(dest):
    sources = VHOST.sources(dest, pool=None, unique="u")
    assert VHOST.target(dest) in sources
    assert len(set(sources)) == len(sources)
    if dest.service is Service.NOTIFY:
        assert len(sources) == 1
