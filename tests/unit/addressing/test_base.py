# SPDX-License-Identifier: Apache-2.0

"""Destinations and the configuration of addresses."""

import dataclasses

import pytest

from amqp1_driver.addressing.base import (
    AddressConfig,
    Destination,
    QueueOptions,
    RabbitmqConfig,
    Service,
)

from .strategies import config, notify, rpc


def test_services():
    assert [(s.name, s.value) for s in Service] == [
        ("RPC", "rpc"),
        ("NOTIFY", "notify"),
        ("NODE", "node"),
    ]


def test_a_node_has_neither_server_nor_fanout():
    assert Destination(Service.NODE, None, "/queues/q", "s", True) == Destination(
        Service.NODE, "", "/queues/q"
    )


def test_destinations_that_mean_the_same_are_equal():
    assert rpc("x", "t", "", False) == rpc("x", "t", None, False)
    assert rpc("", "t") == rpc(None, "t")
    # fanout goes to all servers, whatever single one is named
    assert rpc("x", "t", "s", True) == rpc("x", "t", None, True)
    assert Destination(Service.NOTIFY, "x", "t", "s", True) == notify("x", "t")
    assert hash(rpc("x", "t", "s", True)) == hash(rpc("x", "t", None, True))


def test_destinations_that_differ_are_different():
    different = [
        rpc("x", "t"),
        rpc("x", "t", "s"),
        rpc("x", "t", fanout=True),
        rpc("x", "u"),
        rpc("y", "t"),
        rpc(None, "t"),
        notify("x", "t"),
    ]
    assert len(set(different)) == 7


def test_destinations_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        rpc("x", "t").topic = "u"


@pytest.mark.parametrize(
    ("dest", "key"),
    [
        (rpc("x", "t"), "t"),
        (rpc("x", "t", "s"), "t.s"),
        (rpc("x", "t", fanout=True), "t (fanout)"),
        (notify("x", "notifications.info"), "notifications.info"),
    ],
)
def test_routing_key(dest, key):
    assert dest.routing_key == key


def test_configuration_from_settings():
    assert config(
        "vh",
        "openstack",
        default_rpc_exchange="r",
        default_notification_exchange="n",
        queue_expiry=1.5,
    ) == AddressConfig(
        vhost="vh",
        default_exchange="openstack",
        default_rpc_exchange="r",
        default_notification_exchange="n",
        server_request_prefix="exclusive",
        broadcast_prefix="broadcast",
        group_request_prefix="unicast",
        rpc_address_prefix="openstack.org/om/rpc",
        notify_address_prefix="openstack.org/om/notify",
        multicast_address="multicast",
        unicast_address="unicast",
        anycast_address="anycast",
        rabbitmq=RabbitmqConfig(
            rpc=QueueOptions(temporary=True, expiry_ms=1500, overflow="reject-publish"),
            notifications=QueueOptions(overflow="reject-publish"),
            pools=QueueOptions(expiry_ms=1500, overflow="reject-publish"),
            exchange="amq.direct",
            priority=0,
        ),
    )


def test_empty_names_are_none():
    empty = config("", "", default_rpc_exchange="", default_notification_exchange="")
    assert empty == config(None, None)
    assert (empty.vhost, empty.default_exchange, empty.default_rpc_exchange) == (None, None, None)


def test_precedence_of_exchanges():
    specific = {"default_rpc_exchange": "r", "default_notification_exchange": "n"}
    assert config(None, "ctl", **specific).exchange_of(rpc("x", "t")) == "x"
    assert config(None, "ctl", **specific).exchange_of(notify("x", "t")) == "x"
    assert config(None, "ctl", **specific).exchange_of(rpc(None, "t")) == "r"
    assert config(None, "ctl", **specific).exchange_of(notify("", "t")) == "n"
    assert config(None, "ctl").exchange_of(rpc(None, "t")) == "ctl"
    assert config(None, "ctl").exchange_of(notify(None, "t")) == "ctl"
    assert config().exchange_of(rpc(None, "t")) == "rpc"
    assert config().exchange_of(notify(None, "t")) == "notify"
