# SPDX-License-Identifier: Apache-2.0

"""What application threads encode with."""

import pytest

from amqp1_driver.addressing import context as module
from amqp1_driver.addressing.base import AddressConfig, Destination, Service
from amqp1_driver.addressing.context import BusContext
from amqp1_driver.addressing.factory import make_addresser
from amqp1_driver.addressing.peer import Peer, profile_for
from amqp1_driver.options import default_settings
from amqp1_driver.testing import messages


def context(product="qpid-cpp", **changes):
    peer = Peer(product, (1,), frozenset({"ANONYMOUS-RELAY"}))
    profile = profile_for(peer)
    config = AddressConfig.from_settings(default_settings(), None, "ex")
    return BusContext(
        1,
        "bus:5672",
        peer,
        profile,
        make_addresser(profile, config),
        "reply-to-me",
        default_settings(**changes).delivery.durable,
    )


def encoded(context, destination, wants_reply):
    _, template, _ = context.template(destination, wants_reply)
    return messages.decode(template.request("id", b"body", 0, False))


RPC = Destination(Service.RPC, None, "t")
FANOUT = Destination(Service.RPC, None, "t", fanout=True)
NOTIFY = Destination(Service.NOTIFY, None, "t.info")


def test_a_message_that_wants_a_reply_names_the_reply_address():
    message = encoded(context(), RPC, True)
    assert (message.properties.to, message.properties.reply_to) == ("unicast.ex.t", "reply-to-me")


def test_a_message_that_wants_none_names_none():
    assert encoded(context(), RPC, False).properties.reply_to is None


@pytest.mark.parametrize(
    ("destination", "wants_reply", "durable"),
    [
        (RPC, False, True),
        (RPC, True, None),  # worth nothing once its caller is gone
        (FANOUT, False, None),
        (NOTIFY, False, True),
    ],
)
def test_what_is_durable_on_a_bus_that_stores(destination, wants_reply, durable):
    assert encoded(context(), destination, wants_reply).header.durable is durable


@pytest.mark.parametrize(
    ("kinds", "cast", "notify"),
    [([""], None, None), (["notify"], None, True), (["rpc-cast"], True, None)],
)
def test_the_option_says_what_is_durable(kinds, cast, notify):
    bus = context(durable=kinds)
    assert encoded(bus, RPC, False).header.durable is cast
    assert encoded(bus, NOTIFY, False).header.durable is notify


def test_nothing_is_durable_on_a_bus_that_does_not_store():
    assert encoded(context("skupper-router"), RPC, False).header.durable is None


def test_nodes_and_templates_are_made_once():
    bus = context()
    assert bus.node(RPC) is bus.node(Destination(Service.RPC, None, "t"))
    assert bus.template(RPC, True)[1] is bus.template(RPC, True)[1]
    assert bus.template(RPC, True)[1] is not bus.template(RPC, False)[1]


def test_where_messages_come_from():
    bus = context()
    (node,) = bus.sources(Destination(Service.NODE, None, "a/b"), pool=None, unique="u")
    assert node.address == "a/b"
    found = bus.sources(Destination(Service.RPC, None, "t", "s"), pool=None, unique="u")
    assert [node.address for node in found] == [
        "exclusive.ex.t.s",
        "unicast.ex.t",
        "broadcast.ex.t.all",
    ]


def test_the_caches_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "CACHE_LIMIT", 10)
    bus = context()
    for number in range(35):
        bus.template(Destination(Service.RPC, None, f"t{number}"), False)
        assert len(bus._templates) <= 10
        assert len(bus._nodes) <= 10
    assert bus.template(Destination(Service.RPC, None, "t3"), False)[0] == "unicast.ex.t3"
