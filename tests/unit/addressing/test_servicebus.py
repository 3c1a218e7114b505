# SPDX-License-Identifier: Apache-2.0


"""Azure Service Bus: names of queues, topics and subscriptions."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.addressing.base import Entity, Node
from amqp1_driver.addressing.servicebus import (
    ServiceBusAddresser,
    escape,
    join_reply,
    missing,
    split_reply,
)

from .strategies import config, destinations, names, notify, rpc

PLAIN = ServiceBusAddresser(config())


def queue(name):
    return Node(name, (Entity("queue", name),))


def topic(name):
    return Node(name, (Entity("topic", name),))


def subscription(name):
    return Node(name, (Entity("subscription", name),))


def test_targets():
    assert PLAIN.target(rpc("nova", "compute")) == queue("openstack--rpc--any--nova--compute")
    assert PLAIN.target(rpc("nova", "compute", "h1.a.org")) == queue(
        "openstack--rpc--one--nova--compute--h1.a.org"
    )
    assert PLAIN.target(rpc("nova", "compute", fanout=True)) == topic(
        "openstack--rpc--all--nova--compute"
    )
    assert PLAIN.target(notify("nova", "events.info")) == topic(
        "openstack--notify--nova--events.info"
    )


def test_sources_of_a_server():
    assert PLAIN.sources(rpc("nova", "compute", "h1"), pool=None, unique="u") == (
        queue("openstack--rpc--one--nova--compute--h1"),
        queue("openstack--rpc--any--nova--compute"),
        subscription("openstack--rpc--all--nova--compute/Subscriptions/h1"),
    )


def test_sources_without_a_server():
    assert PLAIN.sources(rpc(None, "t"), pool=None, unique="u") == (
        queue("openstack--rpc--any--rpc--t"),
        subscription("openstack--rpc--all--rpc--t/Subscriptions/default"),
    )


def test_each_process_of_a_server_has_a_subscription_of_its_own():
    assert PLAIN.sources(rpc("nova", "compute", "h1"), pool="2", unique="u") == (
        queue("openstack--rpc--one--nova--compute--h1"),
        queue("openstack--rpc--any--nova--compute"),
        subscription("openstack--rpc--all--nova--compute/Subscriptions/h1--2"),
    )


@pytest.mark.parametrize(("pool", "name"), [(None, "default"), ("", "default"), ("p", "p")])
def test_sources_of_notifications(pool, name):
    assert PLAIN.sources(notify("nova", "e.info"), pool=pool, unique="u") == (
        subscription(f"openstack--notify--nova--e.info/Subscriptions/{name}"),
    )


def test_replies_are_in_sessions_of_one_queue():
    assert PLAIN.reply("u-1") == (
        Node("openstack--reply", (Entity("queue", "openstack--reply", sessions=True),)),
        "u-1",
    )


def test_a_virtual_host_comes_first():
    addresser = ServiceBusAddresser(config(vhost="prod"))
    assert addresser.target(rpc("nova", "t")).address == "openstack--vhost--prod--rpc--any--nova--t"
    assert addresser.reply("u")[0].address == "openstack--vhost--prod--reply"


def test_a_reply_address_is_split():
    assert join_reply("openstack--reply", "u-1") == "openstack--reply#u-1"
    assert split_reply("openstack--reply#u-1") == ("openstack--reply", "u-1")
    assert split_reply("queue") == ("queue", None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("l3_agent", "l3_agent"),
        ("cinder-volume", "cinder-volume"),
        ("a.b.c", "a.b.c"),
        ("h@lvm#p", "h__40lvm__23p"),
        ("Nova", "__4eova"),
        ("é", "__c3__a9"),
        ("a/b", "a__2fb"),
        ("a--b", "a__2d-b"),
        ("-a-", "__2da__2d"),
        (".a.", "__2ea__2e"),
        ("a_", "a__5f"),
        ("a__b", "a__5f_b"),
        ("a_@", "a__5f__40"),
        ("", ""),
    ],
)
def test_characters_that_names_may_not_have(name, expected):
    assert escape(name) == expected


def test_long_names_end_in_a_digest():
    name = PLAIN.target(rpc("nova", "t" * 300)).address
    assert len(name) == 260
    assert name.startswith("openstack--rpc--any--nova--ttttt")
    assert name != PLAIN.target(rpc("nova", "t" * 301)).address


def test_subscriptions_have_short_names_that_begin_with_a_letter_or_digit():
    def of(server):
        address = PLAIN.sources(rpc("e", "t", server), pool=None, unique="u")[-1].address
        return address.rpartition("/")[2]

    long = "compute-0017.rack-12.region-one.cloud.example.org.internal"
    assert of(long) == "compute-0017.rack-69a902802e7a13e8bbf433e250c4a365"
    assert of("a" * 50) == "a" * 50
    assert of("Host") == "48ost-abc205fbe6c8ea17f9d83805c611a804"
    assert of("_") == "5f-a0eff21fa3bb20785a64f8a451ab0dd9"


ENTITY = re.compile(r"[A-Za-z0-9][\w.-]*[A-Za-z0-9]", re.ASCII)
ANY_NAME = names("aA-_.@/#5f") | st.text(min_size=1, max_size=80)


@given(destinations(ANY_NAME), st.none() | ANY_NAME, st.none() | ANY_NAME)
def test_names_are_valid(dest, vhost, pool):
    addresser = ServiceBusAddresser(config(vhost=vhost))
    nodes = [addresser.target(dest), *addresser.sources(dest, pool=pool, unique="u")]
    for node in nodes:
        path, _, name = node.address.partition("/Subscriptions/")
        assert ENTITY.fullmatch(path) and len(path) <= 260
        assert not name or (
            re.fullmatch(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", name, re.ASCII) and len(name) <= 50
        )


@given(destinations(ANY_NAME), destinations(ANY_NAME))
def test_different_destinations_have_different_targets(one, other):
    if PLAIN.config.exchange_of(one) == PLAIN.config.exchange_of(other):
        same = (one.service, one.topic, one.server, one.fanout) == (
            other.service,
            other.topic,
            other.server,
            other.fanout,
        )
        assert (PLAIN.target(one) == PLAIN.target(other)) == same
    else:
        assert PLAIN.target(one) != PLAIN.target(other)


@given(ANY_NAME, ANY_NAME)
def test_different_names_stay_different_and_case_does_not_matter(one, other):
    assert (escape(one) == escape(other)) == (one == other)
    assert escape(one) == escape(one).lower()


def test_what_is_missing_in_words():
    one = Entity("queue", "q", sessions=True)
    assert missing([one, Entity("topic", "t")]) == (
        "entities are missing on Azure Service Bus: queue q (with sessions), topic t"
    )
    assert missing([one], [Entity("queue", "r")]) == (
        "entities are missing on Azure Service Bus: queue q (with sessions) (also needed: queue r)"
    )
