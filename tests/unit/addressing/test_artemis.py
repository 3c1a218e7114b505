# SPDX-License-Identifier: Apache-2.0

"""ActiveMQ Artemis: addresses, queues, and what links have to ask for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.addressing.artemis import ArtemisAddresser
from amqp1_driver.addressing.base import Node, Queue, Service
from amqp1_driver.exceptions import UnsupportedFeature

from .strategies import config, destinations, names, notify, rpc

PLAIN = ArtemisAddresser(config())
NOTE = "openstack.notify.nova:notifications.info"


def test_targets_of_rpc():
    assert PLAIN.target(rpc("nova", "compute")) == Node(
        "openstack.rpc.anycast.nova:compute", (), "queue"
    )
    assert PLAIN.target(rpc("nova", "compute", "h1.a.org")) == Node(
        "openstack.rpc.unicast.nova:compute:h1.a.org", (), "queue"
    )
    assert PLAIN.target(rpc("nova", "compute", fanout=True)) == Node(
        "openstack.rpc.multicast.nova:compute", (), "topic"
    )


def test_target_of_notifications_keeps_a_queue_for_listeners_yet_to_come():
    assert PLAIN.target(notify("nova", "notifications.info")) == Node(
        NOTE, (Queue(f"{NOTE}::{NOTE}", True, False, False),), "topic"
    )


def test_sources_of_a_server():
    assert PLAIN.sources(rpc("nova", "compute", "h1"), pool=None, unique="u") == (
        Node("openstack.rpc.unicast.nova:compute:h1", (), "queue"),
        Node("openstack.rpc.anycast.nova:compute", (), "queue"),
        Node("openstack.rpc.multicast.nova:compute", (), "topic"),
    )
    assert len(PLAIN.sources(rpc("nova", "compute"), pool=None, unique="u")) == 2


def test_sources_of_notifications():
    for pool in (None, ""):
        assert PLAIN.sources(notify("nova", "notifications.info"), pool=pool, unique="u") == (
            Node(f"{NOTE}::{NOTE}", (), "topic"),
        )
    assert PLAIN.sources(notify("nova", "notifications.info"), pool="a:b", unique="u") == (
        Node(f"{NOTE}::{NOTE}:a%3Ab", (), "topic"),
    )


def test_pools_are_refused_when_the_syntax_is_forced_upon_another_bus():
    addresser = ArtemisAddresser(config(), "qpidd", pools=False)
    with pytest.raises(UnsupportedFeature, match="not supported by qpidd"):
        addresser.sources(notify("nova", "n.info"), pool="p", unique="u")
    assert len(addresser.sources(notify("nova", "n.info"), pool=None, unique="u")) == 1


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("a::b", "a%3A%3Ab"),
        ("a%3Ab", "a%253Ab"),
        ("*.#", "%2A.%23"),
        ("a?b=c", "a%3Fb=c"),
        ("a/b é", "a/b é"),
    ],
)
def test_what_has_a_meaning_to_artemis_is_encoded(topic, name):
    assert PLAIN.target(rpc("x", topic)).address == f"openstack.rpc.anycast.x:{name}"


def test_a_virtual_host_is_one_word_of_the_address():
    addresser = ArtemisAddresser(config("v.1"))
    assert addresser.target(rpc("x", "t")).address == "openstack.vhost.v%2E1.rpc.anycast.x:t"
    assert addresser.target(notify("x", "t")).address == "openstack.vhost.v%2E1.notify.x:t"


NAMES = names("ab:.%*#?")
VHOSTS = st.none() | NAMES


@given(VHOSTS, destinations(NAMES), VHOSTS, destinations(NAMES))
def test_different_destinations_and_virtual_hosts_never_share_an_address(
    vhost, one, other_vhost, other
):
    left = ArtemisAddresser(config(vhost)).target(one).address
    right = ArtemisAddresser(config(other_vhost)).target(other).address
    assert (left == right) == ((vhost, one) == (other_vhost, other))


@given(destinations(NAMES), st.none() | NAMES)
def test_address_and_queue_are_parted_by_the_only_two_colons(dest, pool):
    if dest.service is not Service.NOTIFY:
        return
    (node,) = PLAIN.sources(dest, pool=pool, unique="u")
    address, _, queue = node.address.partition("::")
    assert address == PLAIN.target(dest).address
    assert "::" not in queue
    assert (queue == address) == (pool is None)
