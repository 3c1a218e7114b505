# SPDX-License-Identifier: Apache-2.0

"""Which bus is at the other end, and how it is treated.

What the peers announce is as observed on running ones.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.addressing.base import Destination, Entity, Node, Service
from amqp1_driver.addressing.factory import make_addresser, raw_node, reply_source, reply_target
from amqp1_driver.addressing.peer import Peer, forced_profile, profile_for
from amqp1_driver.addressing.profiles import (
    BusProfile,
    Provision,
    ReceivePolicy,
    Relay,
    ReleasePolicy,
    ReplyKind,
    SessionPlan,
    Settlement,
)
from amqp1_driver.exceptions import UnsupportedFeature
from amqp1_driver.policy.outcome import Outcome

from .strategies import config

RELAY = ["ANONYMOUS-RELAY"]


def peer(product, version="", capabilities=RELAY):
    return Peer.from_open({"product": product, "version": version}, capabilities)


@pytest.mark.parametrize(
    ("properties", "offered", "expected"),
    [
        (
            {"product": "skupper-router", "version": "3.4.2", "conn-id": 1},
            ["ANONYMOUS-RELAY", "qd.streaming-links"],
            Peer("skupper-router", (3, 4, 2), frozenset({"ANONYMOUS-RELAY", "qd.streaming-links"})),
        ),
        (
            {"product": "RabbitMQ", "version": "4.0.5"},
            ["LINK_PAIR_V1_0", "ANONYMOUS-RELAY"],
            Peer("RabbitMQ", (4, 0, 5), frozenset({"LINK_PAIR_V1_0", "ANONYMOUS-RELAY"})),
        ),
        (None, None, Peer("", (), frozenset())),
        ({}, "ANONYMOUS-RELAY", Peer("", (), frozenset({"ANONYMOUS-RELAY"}))),
        ({"product": b"x", "version": 4, 7: "odd"}, [], Peer("", (), frozenset())),
    ],
)
def test_from_open(properties, offered, expected):
    assert Peer.from_open(properties, offered) == expected


def test_from_open_with_frame_size_and_container():
    found = Peer.from_open({"product": "p"}, (), container="c")
    assert found.container == "c"
    assert peer("p").container == ""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4.3.6", (4, 3, 6)),
        ("4.3.0-rc.1", (4, 3, 0)),
        ("4.2.1+3.gabc", (4, 2, 1)),
        ("v1.19", (1, 19)),
        ("UNKNOWN", ()),
        ("", ()),
        ("٤.٣", ()),
    ],
)
def test_version(text, version):
    assert peer("p", text).version == version


def test_text():
    assert str(peer("RabbitMQ", "4.0.5")) == "RabbitMQ 4.0.5"
    assert str(peer("RabbitMQ")) == "RabbitMQ"
    assert str(peer("")) == "unknown AMQP peer"


values = st.none() | st.text() | st.binary() | st.integers() | st.lists(st.text())


@given(
    st.none() | st.dictionaries(st.text() | st.sampled_from(["product", "version"]), values),
    st.none() | st.text() | st.lists(values),
    st.sampled_from(["dynamic", "legacy", "routable", "rabbitmq"]),
)
def test_any_open_leads_to_an_addresser(properties, offered, mode):
    profile = profile_for(Peer.from_open(properties, offered), mode)
    addresser = make_addresser(profile, config())
    assert addresser.target(Destination(Service.RPC, "x", "t")).address


@pytest.mark.parametrize(
    "product", ["qpid-dispatch-router", "skupper-router", "amqp1-bus-router", "Skupper-Router"]
)
def test_routers(product):
    profile = profile_for(peer(product, "1.19.0"))
    assert profile.addressing == "routable"
    assert profile.reply is ReplyKind.DYNAMIC
    assert profile.relay is Relay.REPLIES
    assert profile.provision is Provision.NOTHING
    assert (profile.pools, profile.durable) == (False, False)
    assert profile.sessions.per_receiver is False


# Observed on 4.0.5 and 4.3.6; reply addresses as documented for 4.1 and 4.2.
@pytest.mark.parametrize(
    ("version", "reply", "session_per_receiver"),
    [
        ("", ReplyKind.EXCLUSIVE, True),
        ("3.13.7", ReplyKind.EXCLUSIVE, True),
        ("4.0.5", ReplyKind.EXCLUSIVE, True),
        ("4.1.0", ReplyKind.TEMPORARY, True),
        ("4.1.8", ReplyKind.TEMPORARY, True),
        ("4.2.0", ReplyKind.VOLATILE, True),
        ("4.3.0", ReplyKind.VOLATILE, False),
        ("4.3.6", ReplyKind.VOLATILE, False),
        ("4.10.0", ReplyKind.VOLATILE, False),
        ("5.0.0", ReplyKind.VOLATILE, False),
    ],
)
def test_rabbitmq(version, reply, session_per_receiver):
    assert profile_for(peer("RabbitMQ", version)) == BusProfile(
        name="RabbitMQ",
        addressing="rabbitmq",
        relay=Relay.EVERYTHING,
        reply=reply,
        provision=Provision.RABBITMQ,
        settlement=Settlement(by_receiver=False, propagation_seconds=0.0),
        releases=ReleasePolicy(may_resend=False, calls_wait=True),
        receiving=ReceivePolicy(answers_echo=True),
        sessions=SessionPlan(per_receiver=session_per_receiver, limit=64),
        pools=True,
        durable=True,
        vhost_prefix="vhost:",
    )


@pytest.mark.parametrize("product", ["qpid-dispatch-router", "skupper-router", "amqp1-bus-router"])
def test_a_router_never_owns_a_message(product):
    settlement = profile_for(peer(product, "1.0")).settlement
    assert (settlement.by_receiver, settlement.late_reply) == (True, Outcome.UNDELIVERABLE)


def test_qpidd():
    profile = profile_for(peer("qpid-cpp", "1.40.0"))
    assert profile.addressing == "legacy"
    # it accepts, and drops, what is sent to unknown nodes without a link of their own
    assert profile.relay is Relay.REPLIES
    assert profile.provision is Provision.NOTHING
    assert (profile.pools, profile.durable) == (False, True)
    assert profile.reply is ReplyKind.DYNAMIC


# Observed on Artemis 2.40.0 and Broker-J 9.2.1.
def test_artemis():
    assert profile_for(peer("apache-activemq-artemis", "2.40.0")) == BusProfile(
        name="ActiveMQ Artemis",
        addressing="artemis",
        relay=Relay.REPLIES,
        reply=ReplyKind.DYNAMIC,
        provision=Provision.ATTACHING,
        pools=True,
        durable=True,
    )


def test_broker_j():
    assert profile_for(peer("Apache Qpid Broker-J Core", "9.2.1")) == BusProfile(
        name="Qpid Broker-J",
        addressing="brokerj",
        relay=Relay.REPLIES,
        reply=ReplyKind.DYNAMIC,
        provision=Provision.QPID,
        needs_outcomes=True,
        window_per_frame=False,
        sessions=SessionPlan(per_receiver=False, limit=256, one=False),
        pools=True,
        durable=True,
    )


@pytest.mark.parametrize(
    ("product", "address"),
    [
        ("apache-activemq-artemis", "openstack.rpc.anycast.x:t"),
        ("Apache Qpid Broker-J Core", "openstack:rpc:anycast:x:t"),
    ],
)
def test_addressers_of_java_brokers(product, address):
    addresser = make_addresser(profile_for(peer(product)), config())
    assert addresser.target(Destination(Service.RPC, "x", "t")).address == address
    notes = Destination(Service.NOTIFY, "x", "t")
    assert len(addresser.sources(notes, pool="p", unique="u")) == 1


def test_embedded_broker():
    profile = profile_for(peer("amqp1-bus-broker", "1.0"))
    assert (profile.addressing, profile.pools) == ("legacy", True)
    assert profile.relay is Relay.REPLIES


@pytest.mark.parametrize("product", ["", "something-else"])
def test_unknown_bus(product):
    profile = profile_for(peer(product, "2.0", []))
    assert (profile.addressing, profile.reply) == ("routable", ReplyKind.DYNAMIC)
    assert profile.relay is Relay.NOTHING
    assert (profile.provision, profile.pools) == (Provision.NOTHING, False)
    assert profile_for(peer(product, "2.0")).relay is Relay.REPLIES


def test_without_anonymous_relay_nothing_is_sent_that_way():
    profile = profile_for(peer("RabbitMQ", "4.3.6", ["LINK_PAIR_V1_0"]))
    assert profile.relay is Relay.NOTHING


@pytest.mark.parametrize("mode", ["legacy", "routable", "rabbitmq"])
def test_a_forced_mode_changes_the_syntax_only(mode):
    natural = profile_for(peer("RabbitMQ", "4.1.0"))
    forced = profile_for(peer("RabbitMQ", "4.1.0"), mode)
    assert forced.addressing == mode
    assert forced.pools is (mode == "rabbitmq")
    assert (forced.reply, forced.provision, forced.relay) == (
        natural.reply,
        natural.provision,
        natural.relay,
    )


@pytest.mark.parametrize(
    ("mode", "address"),
    [
        ("dynamic", "openstack.org/om/rpc/anycast/x/t"),
        ("routable", "openstack.org/om/rpc/anycast/x/t"),
        ("legacy", "unicast.x.t"),
        ("rabbitmq", "/queues/openstack%3Arpc%3Aanycast%3Ax%3At"),
        ("servicebus", "openstack--rpc--any--x--t"),
    ],
)
def test_addresser(mode, address):
    addresser = make_addresser(profile_for(peer("skupper-router"), mode), config())
    assert addresser.target(Destination(Service.RPC, "x", "t")).address == address


@pytest.mark.parametrize("mode", ["dynamic", "legacy", "rabbitmq"])
def test_unsupported_pools_name_the_bus(mode):
    addresser = make_addresser(profile_for(peer("skupper-router", "3.4.2"), mode), config())
    with pytest.raises(UnsupportedFeature, match="skupper-router"):
        addresser.sources(Destination(Service.NOTIFY, "x", "t"), pool="p", unique="u")


def test_unknown_syntax():
    with pytest.raises(ValueError, match="nonsense"):
        make_addresser(BusProfile(name="n", addressing="nonsense"), config())


def test_service_bus_is_chosen_by_mode_alone():
    profile = profile_for(peer("RabbitMQ", "4.3.6"), "servicebus")
    assert profile is forced_profile("servicebus")
    assert (profile.addressing, profile.reply) == ("servicebus", ReplyKind.SESSION)
    assert (profile.relay, profile.provision) == (Relay.NOTHING, Provision.TOKENS)
    assert (profile.needs_tokens, profile.sessions.one, profile.pools) == (True, True, True)
    assert profile.receiving == ReceivePolicy(
        answers_echo=False, returned=Outcome.MODIFIED, locks=True, expires=True
    )
    assert (profile.settlement.by_receiver, profile.settlement.late_reply) == (
        False,
        Outcome.ACCEPTED,
    )
    assert forced_profile("dynamic") is None


def test_messages_expire_on_service_bus_only():
    assert forced_profile("servicebus").receiving.expires is True
    others = ("RabbitMQ", "qpid-cpp", "skupper-router", "apache-activemq-artemis", "no such bus")
    assert [profile_for(peer(product)).receiving.expires for product in others] == [False] * 5


def test_where_replies_are_read():
    def source(mode, product="", version="1.0"):
        profile = profile_for(peer(product, version), mode)
        return reply_source(profile, make_addresser(profile, config()), "u-1", 2)

    assert source("dynamic", "skupper-router") == (None, None)
    node, session = source("dynamic", "RabbitMQ", "4.0.5")
    assert (node.address, session) == ("/queues/openstack%3Areply%3Au-1", None)
    node, session = source("servicebus")
    assert (node.address, session) == ("openstack--reply", "u-1-2")


def test_where_replies_go():
    assert reply_target(profile_for(peer("qpid-cpp")), "a#b").address == "a#b"
    node = reply_target(profile_for(peer(""), "servicebus"), "openstack--reply#u-1")
    assert node.address == "openstack--reply"
    assert [str(entity) for entity in node.declare] == ["queue openstack--reply (with sessions)"]
    assert [str(e) for e in reply_target(profile_for(peer(""), "servicebus"), "q").declare] == [
        "queue q"
    ]


def test_a_node_by_its_own_address_is_not_touched():
    assert raw_node(profile_for(peer("RabbitMQ", "4.3.0")), "/queues/a%2Fb") == Node(
        "/queues/a%2Fb"
    )
    assert raw_node(profile_for(peer("skupper-router")), "x/y") == Node("x/y")


def test_a_node_on_service_bus_wants_a_token():
    assert raw_node(forced_profile("servicebus"), "q") == Node("q", (Entity("queue", "q"),))


@pytest.mark.parametrize(
    ("kind", "capability", "volatile", "in_session"),
    [
        (ReplyKind.DYNAMIC, None, False, False),
        (ReplyKind.VOLATILE, "rabbitmq:volatile-queue", True, False),
        (ReplyKind.TEMPORARY, "temporary-queue", False, False),
        (ReplyKind.EXCLUSIVE, None, False, False),
        (ReplyKind.SESSION, None, False, True),
    ],
)
def test_what_a_reply_link_asks_for(kind, capability, volatile, in_session):
    assert (kind.capability, kind.volatile, kind.in_session) == (capability, volatile, in_session)
