# SPDX-License-Identifier: Apache-2.0


"""What has to exist on Azure Service Bus, from a list of topics."""

import pytest

from amqp1_driver.addressing.base import Entity, Service
from amqp1_driver.addressing.servicebus import ServiceBusAddresser
from amqp1_driver.cli.entities import Use, az_commands, needed, parse

from .addressing.strategies import config

PLAIN = ServiceBusAddresser(config())
PLACE = '--resource-group "$GROUP" --namespace-name "$NAMESPACE"'


def names(*uses):
    return [str(entity) for entity in needed(PLAIN, uses)]


def test_rpc_needs_a_queue_for_replies_and_for_any_and_each_server_and_a_topic_for_all():
    assert names(Use(Service.RPC, "nova", "compute", ("h1", "h2"))) == [
        "queue openstack--reply (with sessions)",
        "topic openstack--rpc--all--nova--compute",
        "queue openstack--rpc--one--nova--compute--h1",
        "queue openstack--rpc--any--nova--compute",
        "queue openstack--rpc--one--nova--compute--h2",
        "subscription openstack--rpc--all--nova--compute/Subscriptions/h1",
        "subscription openstack--rpc--all--nova--compute/Subscriptions/h2",
    ]


def test_rpc_without_servers_and_twice():
    use = Use(Service.RPC, "x", "t")
    assert names(use, use) == [
        "queue openstack--reply (with sessions)",
        "topic openstack--rpc--all--x--t",
        "queue openstack--rpc--any--x--t",
        "subscription openstack--rpc--all--x--t/Subscriptions/default",
    ]


def test_each_process_of_a_server_needs_a_subscription():
    assert names(Use(Service.RPC, "x", "t", ("h1",), workers=3))[-3:] == [
        "subscription openstack--rpc--all--x--t/Subscriptions/h1",
        "subscription openstack--rpc--all--x--t/Subscriptions/h1--2",
        "subscription openstack--rpc--all--x--t/Subscriptions/h1--3",
    ]


def test_notifications_need_a_topic_and_a_subscription_for_each_pool_and_for_none():
    assert names(Use(Service.NOTIFY, "nova", "n.info", ("audit",))) == [
        "topic openstack--notify--nova--n.info",
        "subscription openstack--notify--nova--n.info/Subscriptions/default",
        "subscription openstack--notify--nova--n.info/Subscriptions/audit",
    ]


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("nova/compute", Use(Service.RPC, "nova", "compute")),
        ("nova/compute/", Use(Service.RPC, "nova", "compute")),
        ("nova/compute/h1,h2", Use(Service.RPC, "nova", "compute", ("h1", "h2"))),
        ("nova/compute/h1/x", Use(Service.RPC, "nova", "compute", ("h1/x",))),
    ],
)
def test_uses_are_written_as_paths(text, use):
    assert parse(Service.RPC, text) == use


@pytest.mark.parametrize("text", ["", "nova", "/compute", "nova/", "nova//h1"])
def test_what_is_no_use(text):
    with pytest.raises(ValueError, match="EXCHANGE/TOPIC"):
        parse(Service.NOTIFY, text)


def test_commands_of_azures_cli():
    assert az_commands(
        [
            Entity("queue", "r", sessions=True),
            Entity("queue", "q"),
            Entity("topic", "t"),
            Entity("subscription", "t/Subscriptions/s"),
        ]
    ) == [
        f"az servicebus queue create {PLACE} --name r --enable-session true "
        "--lock-duration PT5M --default-message-time-to-live PT10M",
        f"az servicebus queue create {PLACE} --name q --lock-duration PT1M",
        f"az servicebus topic create {PLACE} --name t",
        f"az servicebus topic subscription create {PLACE} --topic-name t --name s "
        "--lock-duration PT1M",
    ]
