# SPDX-License-Identifier: Apache-2.0

"""Nodes on ActiveMQ Artemis and Qpid Broker-J: how they come to be, and what links ask for."""

import pytest

from amqp1_driver import exceptions
from amqp1_driver.connection.operation import Kind
from amqp1_driver.testing import reactions
from amqp1_driver.testing.messages import Message, Properties

from .world import World

NOTE = "openstack.notify.ex:events.info"
ANY = "openstack:rpc:anycast:ex:topic"


def notify(world):
    return world.send(world.request(Kind.NOTIFY, "events.info"))


def bodies(world, address):
    return [body for to, body in world.sent() if to == address]


# -- Artemis ---------------------------------------------------------------------------------


@pytest.fixture
def artemis(path):
    return World(
        path,
        peer={
            "product": "apache-activemq-artemis",
            "version": "2.40.0",
            "offered_capabilities": ("ANONYMOUS-RELAY",),
        },
    )


def test_links_say_what_they_want_to_find(artemis):
    artemis.start()
    artemis.cast()
    artemis.cast(fanout=True)
    artemis.listen()
    found = {a.target.address: a.target.capabilities for a in artemis.attaches("sender")}
    assert found == {
        "openstack.rpc.anycast.ex:topic": ["queue"],
        "openstack.rpc.multicast.ex:topic": ["topic"],
    }
    found = {a.source.address: a.source.capabilities for a in artemis.attaches("receiver")[1:]}
    assert found == {
        "openstack.rpc.unicast.ex:topic:server": ["queue"],
        "openstack.rpc.anycast.ex:topic": ["queue"],
        "openstack.rpc.multicast.ex:topic": ["topic"],
    }


def test_a_notifier_has_the_queue_made_first_and_only_once(artemis):
    artemis.start()
    assert [notify(artemis).future.error, notify(artemis).future.error] == [None, None]
    assert [a.target.address for a in artemis.attaches("sender")] == [f"{NOTE}::{NOTE}", NOTE]
    assert bodies(artemis, NOTE) == ["body", "body"]
    # the link that has made it is gone
    assert [link.attach.target.address for link in artemis.peer.links if link.client_sends] == [
        NOTE
    ]


def test_a_queue_that_is_not_made_fails_the_notification(artemis):
    artemis.peer.override(None).expect_attach(address=f"{NOTE}::{NOTE}").refuse(
        "amqp:unauthorized-access", "no permission"
    )
    artemis.start()
    error = notify(artemis).future.error
    assert isinstance(error, exceptions.LinkFailed)
    assert f"the bus does not declare {NOTE}::{NOTE} (attach): amqp:unauthorized-access" in str(
        error
    )
    assert "no permission" in str(error)


def test_a_queue_that_is_made_too_late_fails_the_notification(artemis):
    artemis.peer.override(None).expect_attach(address=f"{NOTE}::{NOTE}").call(lambda event: None)
    artemis.start()
    op = notify(artemis)
    artemis.advance(artemis.settings.connection.connect_timeout + 1)
    assert "no answer within" in str(op.future.error)


def test_a_connection_lost_meanwhile_makes_the_queue_on_the_next(artemis):
    artemis.peer.override(1).expect_attach(address=f"{NOTE}::{NOTE}").call(lambda event: None)
    artemis.start()
    op = notify(artemis)
    artemis.drop().advance(5)
    assert (op.future.done, op.future.error) == (True, None)
    assert bodies(artemis, NOTE) == ["body"]


# -- Broker-J --------------------------------------------------------------------------------


class Management:
    """Its node ``$management`` on top of a scripted peer; ``codes`` by operation and name."""

    def __init__(self, world):
        self.requests = []
        self.codes = {}
        self.statistics = {}
        #: operations that are not answered yet, by name
        self.silent = set()
        self.late = []
        world.peer.override(None).expect_transfer(address="$management").call(self._serve)

    def _serve(self, event):
        message = event.transfer.message
        asked = dict(message.application_properties)
        body = event.transfer.body
        name = body["name"] if asked["operation"] == "CREATE" else asked["key"]
        self.requests.append((asked["operation"], name, body, asked))
        if asked["operation"] in self.silent:
            self.late.append(event)
        else:
            self._answer(event, asked, name)

    def answer_late(self):
        """Answer now what was left without an answer."""
        self.silent.clear()
        late, self.late = self.late, []
        for event in late:
            asked = dict(event.transfer.message.application_properties)
            self._answer(event, asked, asked["key"])

    def _answer(self, event, asked, name):
        message = event.transfer.message
        code = self.codes.get((asked["operation"], name), 201)
        back = next(
            link
            for link in event.session.links.values()
            if link.name == event.link.name and not link.client_sends
        )
        assert message.properties.reply_to == "$me"
        reactions.transfer(
            back,
            Message(
                self.statistics.get(name),
                application_properties={"statusCode": code, "statusDescription": "why"},
                properties=Properties(correlation_id=message.properties.message_id),
            ),
            settled=True,
        )

    @property
    def operations(self):
        return [request[:2] for request in self.requests]


@pytest.fixture
def brokerj(path):
    world = World(
        path,
        peer={
            "product": "Apache Qpid Broker-J Core",
            "version": "9.2.1",
            "offered_capabilities": ("ANONYMOUS-RELAY",),
        },
    )
    management = Management(world)
    world.start()
    assert world.state == "ready"
    return world, management


def test_the_management_links_are_no_pair_by_property(brokerj):
    world, _ = brokerj
    receiver, sender = [a for a in world.attaches() if a.name == "management-link-pair"]
    assert (receiver.source.address, receiver.target.address) == ("$management", "$me")
    assert (sender.target.address, receiver.properties, sender.properties) == (
        "$management",
        None,
        None,
    )


def test_a_cast_declares_its_queue_once(brokerj):
    world, management = brokerj
    assert [world.cast().future.error, world.cast().future.error] == [None, None]
    assert management.requests == [
        (
            "CREATE",
            ANY,
            {"name": ANY, "object-path": ANY, "durable": True},
            {"operation": "CREATE", "type": "org.apache.qpid.Queue"},
        )
    ]
    assert bodies(world, ANY) == ["body", "body"]


def test_a_notification_declares_queue_and_binding(brokerj):
    world, management = brokerj
    notify(world)
    key = "openstack:notify:ex:events.info"
    assert management.operations == [("CREATE", key), ("bind", "amq.direct")]
    assert management.requests[1][2:] == (
        None,
        {
            "operation": "bind",
            "type": "org.apache.qpid.Exchange",
            "index": "object-path",
            "key": "amq.direct",
            "destination": key,
            "bindingKey": key,
        },
    )
    assert bodies(world, f"amq.direct/{key}") == ["body"]


def test_what_a_server_declares(brokerj):
    world, management = brokerj
    assert world.listen().ready == 1
    unicast = "openstack:rpc:unicast:ex:topic:server"
    fanout = world.attaches("receiver")[-1].source.address
    attributes = {name: body for _, name, body, _ in management.requests if body}
    assert attributes == {
        unicast: {
            "name": unicast,
            "object-path": unicast,
            "durable": True,
            "lifetimePolicy": "DELETE_ON_NO_OUTBOUND_LINKS",
        },
        ANY: {"name": ANY, "object-path": ANY, "durable": True},
        fanout: {
            "name": fanout,
            "object-path": fanout,
            "durable": False,
            "exclusive": "CONNECTION",
            "lifetimePolicy": "DELETE_ON_CONNECTION_CLOSE",
        },
    }
    assert management.requests[-1][3]["bindingKey"] == "openstack:rpc:multicast:ex:topic"


def test_a_queue_that_exists_is_used(brokerj):
    world, management = brokerj
    management.codes["CREATE", ANY] = 409
    assert world.cast().future.error is None


@pytest.mark.parametrize("code", [400, 403, 500])
def test_what_is_refused_is_named(brokerj, code):
    world, management = brokerj
    management.codes["CREATE", ANY] = code
    error = world.cast().future.error
    assert f"the bus does not declare {ANY} (CREATE): {code}: why" in str(error)


def test_senders_say_which_outcomes_they_understand(brokerj):
    world, _ = brokerj
    world.cast(server="s")
    world.reply("caller")
    for attach in [a for a in world.attaches("sender") if a.name != "management-link-pair"]:
        assert attach.source.outcomes == [
            "amqp:accepted:list",
            "amqp:rejected:list",
            "amqp:released:list",
            "amqp:modified:list",
        ]


def test_a_deleted_queue_is_declared_again_for_the_next_message(brokerj):
    world, management = brokerj
    world.cast()
    world.peer.remote_detach(ANY, "amqp:resource-deleted")
    world.run().advance(5)
    assert world.cast().future.error is None
    assert management.operations == [("CREATE", ANY)] * 2
    assert bodies(world, ANY) == ["body", "body"]


def test_an_idle_sender_s_queue_may_go_without_a_warning(brokerj, caplog):
    world, _ = brokerj
    world.cast(server="s")
    world.peer.remote_detach("openstack:rpc:unicast:ex:topic:s", "amqp:resource-deleted")
    world.run()
    assert [r for r in caplog.records if r.levelname == "WARNING"] == []


def test_a_queue_that_is_deleted_under_waiting_messages_is_declared_again(brokerj):
    world, management = brokerj
    world.cast()
    world.peer.override(1).expect_attach(address=ANY).refuse("amqp:not-found", "gone")
    world.peer.remote_detach(ANY, "amqp:resource-deleted")
    world.run()
    op = world.cast(retry=2)
    world.advance(5)
    assert (op.future.done, op.future.error) == (True, None)
    assert bodies(world, ANY) == ["body", "body"]
    assert management.operations[0:2] == [("CREATE", ANY)] * 2


def test_the_last_reader_deletes_an_empty_queue(brokerj):
    world, management = brokerj
    listener = world.listen()
    management.requests.clear()
    management.codes["getStatistics", ANY] = 200
    management.statistics[ANY] = {"queueDepthMessages": 0, "consumerCount": 1}
    world.connection.stop_subscription(listener.subscription, lambda in_time: None)
    world.run()
    assert management.operations == [("getStatistics", ANY), ("DELETE", ANY)]
    assert management.requests[0][3]["statistics"] == '["queueDepthMessages","consumerCount"]'


@pytest.mark.parametrize(
    "statistics",
    [
        {"queueDepthMessages": 1, "consumerCount": 1},
        {"queueDepthMessages": 0, "consumerCount": 2},
        {"queueDepthMessages": 0},
        None,
    ],
)
def test_a_queue_in_use_stays(brokerj, statistics):
    world, management = brokerj
    listener = world.listen()
    management.requests.clear()
    management.statistics[ANY] = statistics
    world.connection.stop_subscription(listener.subscription, lambda in_time: None)
    world.run()
    assert management.operations == [("getStatistics", ANY)]


@pytest.fixture
def leaving(brokerj):
    """A listener that is the only reader of an empty queue."""
    world, management = brokerj
    listener = world.listen()
    management.requests.clear()
    management.statistics[ANY] = {"queueDepthMessages": 0, "consumerCount": 1}
    return world, management, listener


def stopped(world, listener):
    told = []
    world.connection.stop_subscription(listener.subscription, told.append)
    world.run()
    return told


def closed(world, listener):
    told = []
    world.connection.unsubscribe(listener.subscription, told.append)
    world.run()
    return told


def fanout(world):
    return world.attaches("receiver")[-1].source.address


def test_a_server_deletes_its_queue_of_fanouts_when_it_has_detached(leaving):
    world, management, listener = leaving
    stopped(world, listener)
    management.requests.clear()
    assert closed(world, listener) == [True]
    assert management.operations == [("DELETE", fanout(world))]


def test_who_was_not_the_last_when_it_stopped_may_be_when_it_has_detached(leaving):
    world, management, listener = leaving
    management.statistics[ANY] = {"queueDepthMessages": 0, "consumerCount": 2}
    stopped(world, listener)
    management.requests.clear()
    management.statistics[ANY] = {"queueDepthMessages": 0, "consumerCount": 1}
    told = closed(world, listener)
    assert (told, management.operations) == (
        [],
        [("getStatistics", ANY), ("DELETE", fanout(world))],
    )
    management.statistics[ANY] = {"queueDepthMessages": 0, "consumerCount": 0}
    world.advance(0.1)
    assert told == [True]
    assert management.operations[2:] == [("getStatistics", ANY), ("DELETE", ANY)]


def test_messages_that_come_before_the_deletion_are_not_lost(leaving):
    world, management, listener = leaving
    management.silent.add("DELETE")
    told = stopped(world, listener)
    world.arrive(ANY, "late")
    assert (told, listener.bodies) == ([], [b"late"])
    management.answer_late()
    world.run()
    assert told == [True]


def test_stopping_does_not_wait_long_for_a_bus_that_does_not_answer(leaving):
    world, management, listener = leaving
    management.silent.add("getStatistics")
    told = stopped(world, listener)
    assert told == []
    world.advance(1.6)
    assert told == [True]
    management.answer_late()
    world.run()
    assert management.operations == [("getStatistics", ANY)]


def test_a_connection_that_is_lost_ends_the_leaving(leaving):
    world, management, listener = leaving
    management.silent.add("getStatistics")
    told = stopped(world, listener)
    world.drop()
    assert told == [True]


def test_what_was_deleted_is_declared_again_for_the_next_message(leaving):
    world, management, listener = leaving
    stopped(world, listener)
    assert world.cast().future.error is None
    assert management.operations[-1] == ("CREATE", ANY)
