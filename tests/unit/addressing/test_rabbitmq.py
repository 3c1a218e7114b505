# SPDX-License-Identifier: Apache-2.0

"""RabbitMQ: names of queues and exchanges, their declarations, addresses v2."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.addressing.base import Binding, Node, Queue, Service
from amqp1_driver.addressing.rabbitmq import RabbitmqAddresser, reply_node
from amqp1_driver.exceptions import UnsupportedFeature

from .strategies import config, destinations, names, notify, rpc

PLAIN = RabbitmqAddresser(config(queue_expiry=60))
CLASSIC = ("x-queue-type", "classic")


def expiring(name):
    return Queue(name, True, False, False, (CLASSIC, ("x-expires", 60000)))


def lasting(name):
    return Queue(name, True, False, False, (CLASSIC,))


def test_target_any_one():
    assert PLAIN.target(rpc("nova", "compute")) == Node(
        "/queues/openstack%3Arpc%3Aanycast%3Anova%3Acompute",
        (expiring("openstack:rpc:anycast:nova:compute"),),
    )


def test_target_one_server_is_not_declared_by_the_sender():
    assert PLAIN.target(rpc("nova", "compute", "h1.a.org")) == Node(
        "/queues/openstack%3Arpc%3Aunicast%3Anova%3Acompute%3Ah1.a.org", ()
    )


def test_target_all():
    assert PLAIN.target(rpc("nova", "compute", fanout=True)) == Node(
        "/exchanges/amq.direct/openstack%3Arpc%3Amulticast%3Anova%3Acompute", ()
    )


def test_target_of_notifications_declares_the_queue_of_listeners_yet_to_come():
    assert PLAIN.target(notify("nova", "notifications.info")) == Node(
        "/exchanges/amq.direct/openstack%3Anotify%3Anova%3Anotifications.info",
        (
            lasting("openstack:notify:nova:notifications.info"),
            Binding(
                "amq.direct",
                "openstack:notify:nova:notifications.info",
                "openstack:notify:nova:notifications.info",
            ),
        ),
    )


def test_sources_of_a_server():
    assert PLAIN.sources(rpc("nova", "compute", "h1"), pool=None, unique="u-1") == (
        Node(
            "/queues/openstack%3Arpc%3Aunicast%3Anova%3Acompute%3Ah1",
            (expiring("openstack:rpc:unicast:nova:compute:h1"),),
        ),
        Node(
            "/queues/openstack%3Arpc%3Aanycast%3Anova%3Acompute",
            (expiring("openstack:rpc:anycast:nova:compute"),),
        ),
        Node(
            "/queues/openstack%3Arpc%3Amulticast%3Anova%3Acompute%3Au-1",
            (
                Queue(
                    "openstack:rpc:multicast:nova:compute:u-1",
                    False,
                    True,
                    True,
                    (CLASSIC,),
                ),
                Binding(
                    "amq.direct",
                    "openstack:rpc:multicast:nova:compute:u-1",
                    "openstack:rpc:multicast:nova:compute",
                ),
            ),
        ),
    )


def test_sources_without_a_server():
    nodes = PLAIN.sources(rpc(None, "t"), pool=None, unique="u")
    assert [node.address for node in nodes] == [
        "/queues/openstack%3Arpc%3Aanycast%3Arpc%3At",
        "/queues/openstack%3Arpc%3Amulticast%3Arpc%3At%3Au",
    ]


def test_source_of_notifications():
    for pool in (None, ""):
        assert PLAIN.sources(notify("nova", "n.info"), pool=pool, unique="u") == (
            Node(
                "/queues/openstack%3Anotify%3Anova%3An.info",
                (
                    lasting("openstack:notify:nova:n.info"),
                    Binding(
                        "amq.direct",
                        "openstack:notify:nova:n.info",
                        "openstack:notify:nova:n.info",
                    ),
                ),
            ),
        )


def test_source_of_a_pool():
    assert PLAIN.sources(notify("nova", "n.info"), pool="p", unique="u") == (
        Node(
            "/queues/openstack%3Anotify%3Anova%3An.info%3Ap",
            (
                expiring("openstack:notify:nova:n.info:p"),
                Binding(
                    "amq.direct",
                    "openstack:notify:nova:n.info:p",
                    "openstack:notify:nova:n.info",
                ),
            ),
        ),
    )


def test_pools_are_refused_when_the_syntax_is_forced_upon_another_bus():
    addresser = RabbitmqAddresser(config(), "qpidd", pools=False)
    with pytest.raises(UnsupportedFeature, match="not supported by qpidd"):
        addresser.sources(notify("nova", "n.info"), pool="p", unique="u")
    assert len(addresser.sources(notify("nova", "n.info"), pool=None, unique="u")) == 1


# Colons and percent signs are encoded inside a name; then the address encodes the whole.
@pytest.mark.parametrize(
    ("exchange", "topic", "name", "address"),
    [
        ("a:b", "c", "openstack:rpc:anycast:a%3Ab:c", "a%253Ab%3Ac"),
        ("a", "b:c", "openstack:rpc:anycast:a:b%3Ac", "a%3Ab%253Ac"),
        ("a%", "b", "openstack:rpc:anycast:a%25:b", "a%2525%3Ab"),
        ("a/b", "c d", "openstack:rpc:anycast:a/b:c d", "a%2Fb%3Ac%20d"),
        ("é", "~_-.", "openstack:rpc:anycast:é:~_-.", "%C3%A9%3A~_-."),
    ],
)
def test_percent_encoding(exchange, topic, name, address):
    node = PLAIN.target(rpc(exchange, topic))
    assert node.address == f"/queues/openstack%3Arpc%3Aanycast%3A{address}"
    assert [declared.name for declared in node.declare] == [name]


def test_percent_encoding_of_routing_keys():
    node = PLAIN.target(notify("a:b", "t/1:%.info"))
    assert node.address == (
        "/exchanges/amq.direct/openstack%3Anotify%3Aa%253Ab%3At%2F1%253A%2525.info"
    )
    assert node.declare[1].key == "openstack:notify:a%3Ab:t/1%3A%25.info"
    assert node.declare[0].name == "openstack:notify:a%3Ab:t/1%3A%25.info"


def test_virtual_host_in_front():
    addresser = RabbitmqAddresser(config("v:1"))
    names_of = [node.address for node in addresser.sources(rpc("x", "t"), pool=None, unique="u")]
    assert names_of == [
        "/queues/openstack%3Avhost%3Av%253A1%3Arpc%3Aanycast%3Ax%3At",
        "/queues/openstack%3Avhost%3Av%253A1%3Arpc%3Amulticast%3Ax%3At%3Au",
    ]
    assert addresser.target(notify("x", "t")).address == (
        "/exchanges/amq.direct/openstack%3Avhost%3Av%253A1%3Anotify%3Ax%3At"
    )


def test_queue_for_replies():
    assert reply_node("host:12:a") == Node(
        "/queues/openstack%3Areply%3Ahost%253A12%253Aa",
        (Queue("openstack:reply:host%3A12%3Aa", False, True, False, (CLASSIC,)),),
    )


def declared(dest, pool=None, **changes):
    """Durability and arguments of the first queue that a listener reads; properties of its link."""
    node = RabbitmqAddresser(config(**changes)).sources(dest, pool=pool, unique="u")[0]
    return node.declare[0].durable, dict(node.declare[0].arguments), dict(node.properties)


def test_options_of_queues_for_rpc():
    assert declared(
        rpc("nova", "t"),
        rpc_queue_type="quorum",
        queue_expiry=60,
        rpc_message_ttl=1.5,
        rpc_queue_max_length=7,
        queue_delivery_limit=3,
        queue_replicas=5,
        durable_queues=False,
        consumer_priority=-2,
        notification_single_active_consumer=True,
        notification_queue_max_bytes=1,
    ) == (
        True,
        {
            "x-queue-type": "quorum",
            "x-expires": 60000,
            "x-message-ttl": 1500,
            "x-max-length": 7,
            "x-overflow": "reject-publish",
            "x-delivery-limit": 3,
            "x-quorum-initial-group-size": 5,
        },
        {"rabbitmq:priority": -2},
    )


def test_options_of_queues_for_notifications():
    changes = {
        "notification_queue_expiry": 2,
        "notification_message_ttl": 3,
        "notification_queue_max_length": 4,
        "notification_queue_max_bytes": 5,
        "queue_overflow": "drop-head",
        "notification_single_active_consumer": True,
        "queue_delivery_limit": 9,
        "queue_replicas": 9,
        "durable_queues": False,
    }
    arguments = {
        "x-queue-type": "classic",
        "x-expires": 2000,
        "x-message-ttl": 3000,
        "x-max-length": 4,
        "x-max-length-bytes": 5,
        "x-overflow": "drop-head",
        "x-single-active-consumer": True,
    }
    assert declared(notify("nova", "n"), **changes) == (False, arguments, {})
    pool = arguments | {"x-expires": 60000}
    assert declared(notify("nova", "n"), pool="p", queue_expiry=60, **changes) == (False, pool, {})


def test_options_of_streams():
    assert declared(
        notify("nova", "n"),
        notification_queue_type="stream",
        notification_queue_expiry=2,
        notification_message_ttl=1.2,
        notification_queue_max_length=4,
        notification_queue_max_bytes=5,
        notification_single_active_consumer=True,
        queue_replicas=3,
        durable_queues=False,
    ) == (
        True,
        {
            "x-queue-type": "stream",
            "x-max-age": "2s",
            "x-max-length-bytes": 5,
            "x-initial-cluster-size": 3,
        },
        {},
    )
    assert declared(notify("nova", "n"), notification_queue_type="stream")[1] == {
        "x-queue-type": "stream"
    }


def test_there_are_no_pools_on_streams():
    with pytest.raises(UnsupportedFeature, match="must be classic or quorum"):
        declared(notify("nova", "n"), pool="p", notification_queue_type="stream")


def test_only_queues_that_several_read_have_a_priority():
    addresser = RabbitmqAddresser(config(consumer_priority=5))
    nodes = addresser.sources(rpc("x", "t", "s"), pool=None, unique="u")
    assert [node.properties for node in nodes] == [(), (("rabbitmq:priority", 5),), ()]


@pytest.mark.parametrize("delete", [True, False])
def test_no_queue_is_deleted_by_a_server_that_stops(delete):
    addresser = RabbitmqAddresser(config(delete_unused_queues=delete))
    nodes = addresser.sources(rpc("x", "t", "s"), pool=None, unique="u")
    assert [node.declare[0].temporary for node in nodes] == [False, False, False]


def test_another_exchange():
    addresser = RabbitmqAddresser(config(binding_exchange="my own"))
    assert addresser.target(rpc("x", "t", fanout=True)).address == (
        "/exchanges/my%20own/openstack%3Arpc%3Amulticast%3Ax%3At"
    )
    assert addresser.target(notify("x", "t")).declare[1].exchange == "my own"


VHOSTS = st.none() | names()


@given(VHOSTS, destinations(names()), VHOSTS, destinations(names()))
def test_different_destinations_and_virtual_hosts_never_share_an_address(
    vhost, one, other_vhost, other
):
    left = RabbitmqAddresser(config(vhost)).target(one).address
    right = RabbitmqAddresser(config(other_vhost)).target(other).address
    assert (left == right) == ((vhost, one) == (other_vhost, other))


def queue_keys(vhost, dest, pool, unique):
    """What each queue of a subscription stands for, in the order of its sources."""
    if dest.service is Service.NOTIFY:
        return [(vhost, "notify", dest.exchange, dest.topic, pool)]
    keys = [
        (vhost, "any", dest.exchange, dest.topic),
        (vhost, "all", dest.exchange, dest.topic, unique),
    ]
    if dest.server:
        keys.insert(0, (vhost, "one", dest.exchange, dest.topic, dest.server))
    return keys


SUBSCRIPTIONS = st.tuples(VHOSTS, destinations(names()), st.none() | names(), names())


@given(st.lists(SUBSCRIPTIONS, min_size=2, max_size=4))
def test_different_subscriptions_never_share_a_queue(subscriptions):
    seen = {}
    for vhost, dest, pool, unique in subscriptions:
        nodes = RabbitmqAddresser(config(vhost)).sources(dest, pool=pool, unique=unique)
        keys = queue_keys(vhost, dest, pool, unique)
        assert len(nodes) == len(keys)
        for node, key in zip(nodes, keys, strict=True):
            assert seen.setdefault(node.address, key) == key
    assert len(set(seen.values())) == len(seen)


@given(destinations(names()))
def test_a_server_listens_where_its_clients_send(dest):
    sources = PLAIN.sources(dest, pool=None, unique="u")
    target = PLAIN.target(dest)
    if dest.service is Service.NOTIFY or dest.fanout:
        bound = [d for node in sources for d in node.declare if isinstance(d, Binding)]
        assert [f"/exchanges/{b.exchange}/{quote(b.key, safe='')}" for b in bound] == [
            target.address
        ]
    else:
        assert target.address in [node.address for node in sources]
