# SPDX-License-Identifier: Apache-2.0

"""Qpid Broker-J: names of queues, keys, and what is declared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.addressing.base import Binding, Node, Queue
from amqp1_driver.addressing.brokerj import BrokerJAddresser
from amqp1_driver.exceptions import UnsupportedFeature

from .strategies import config, destinations, names, notify, rpc

PLAIN = BrokerJAddresser(config())
KEY = "openstack:notify:nova:n.info"
ANY = Queue("openstack:rpc:anycast:nova:compute", True, False, False, (), True)
OWN = Queue("openstack:rpc:unicast:nova:compute:h1", True, False, True)


def test_target_any_one():
    assert PLAIN.target(rpc("nova", "compute")) == Node(
        "openstack:rpc:anycast:nova:compute", (ANY,)
    )


def test_the_queue_of_casts_that_are_not_durable_goes_with_its_last_reader():
    addresser = BrokerJAddresser(config(durable=["notify"]))
    (queue,) = addresser.target(rpc("nova", "compute")).declare
    assert queue.auto_delete is True


def test_the_queue_for_any_server_can_be_left():
    addresser = BrokerJAddresser(config(delete_unused_queues=False))
    (queue,) = addresser.target(rpc("nova", "compute")).declare
    assert queue.temporary is False


def test_target_one_server_is_not_declared_by_the_sender():
    assert PLAIN.target(rpc("nova", "compute", "h1")) == Node(
        "openstack:rpc:unicast:nova:compute:h1", ()
    )


def test_target_all():
    assert PLAIN.target(rpc("nova", "compute", fanout=True)) == Node(
        "amq.direct/openstack:rpc:multicast:nova:compute", ()
    )


def test_target_of_notifications_declares_the_queue_of_listeners_yet_to_come():
    assert PLAIN.target(notify("nova", "n.info")) == Node(
        f"amq.direct/{KEY}",
        (Queue(KEY, True, False, False), Binding("amq.direct", KEY, KEY)),
    )


def test_sources_of_a_server():
    fanout = "openstack:rpc:multicast:nova:compute"
    assert PLAIN.sources(rpc("nova", "compute", "h1"), pool=None, unique="u") == (
        Node("openstack:rpc:unicast:nova:compute:h1", (OWN,)),
        Node("openstack:rpc:anycast:nova:compute", (ANY,)),
        Node(
            f"{fanout}:u",
            (
                Queue(f"{fanout}:u", False, True, False, (), True),
                Binding("amq.direct", f"{fanout}:u", fanout),
            ),
        ),
    )
    assert len(PLAIN.sources(rpc("nova", "compute"), pool=None, unique="u")) == 2


def test_sources_of_notifications():
    for pool in (None, ""):
        assert PLAIN.sources(notify("nova", "n.info"), pool=pool, unique="u") == (
            Node(KEY, (Queue(KEY, True, False, False), Binding("amq.direct", KEY, KEY))),
        )
    assert PLAIN.sources(notify("nova", "n.info"), pool="p", unique="u") == (
        Node(
            f"{KEY}:p",
            (Queue(f"{KEY}:p", True, False, False), Binding("amq.direct", f"{KEY}:p", KEY)),
        ),
    )


def test_pools_are_refused_when_the_syntax_is_forced_upon_another_bus():
    addresser = BrokerJAddresser(config(), "qpidd", pools=False)
    with pytest.raises(UnsupportedFeature, match="not supported by qpidd"):
        addresser.sources(notify("nova", "n.info"), pool="p", unique="u")
    assert len(addresser.sources(notify("nova", "n.info"), pool=None, unique="u")) == 1


@pytest.mark.parametrize(
    ("topic", "name"),
    [("a:b", "a%3Ab"), ("a/b", "a%2Fb"), ("a\\b", "a%5Cb"), ("a%b", "a%25b"), ("é .", "é .")],
)
def test_what_has_a_meaning_in_addresses_is_encoded(topic, name):
    assert PLAIN.target(rpc("x", topic)).address == f"openstack:rpc:anycast:x:{name}"


def test_virtual_host_in_front():
    addresser = BrokerJAddresser(config("v/1"))
    assert addresser.target(rpc("x", "t")).address == "openstack:vhost:v%2F1:rpc:anycast:x:t"
    assert addresser.target(notify("x", "t")).address == (
        "amq.direct/openstack:vhost:v%2F1:notify:x:t"
    )


NAMES = names("ab:/%\\")
VHOSTS = st.none() | NAMES


@given(VHOSTS, destinations(NAMES), VHOSTS, destinations(NAMES))
def test_different_destinations_and_virtual_hosts_never_share_an_address(
    vhost, one, other_vhost, other
):
    left = BrokerJAddresser(config(vhost)).target(one).address
    right = BrokerJAddresser(config(other_vhost)).target(other).address
    assert (left == right) == ((vhost, one) == (other_vhost, other))
