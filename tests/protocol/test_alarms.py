# SPDX-License-Identifier: Apache-2.0

"""Listeners that start while RabbitMQ has an alarm.

It closes the window of each session (2.5.6), also of those begun later: management gets no
request, while links are attached and read as ever.
"""

import logging

import pytest

from amqp1_driver.addressing.base import Service
from amqp1_driver.connection.operation import Kind
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing import reactions

from .world import rabbitmq

UNICAST = "/queues/openstack%3Arpc%3Aunicast%3Aex%3Atopic%3Aserver"
ANYCAST = "/queues/openstack%3Arpc%3Aanycast%3Aex%3Atopic"
FANOUT = "/queues/openstack%3Arpc%3Amulticast%3Aex%3Atopic%3A"
EVENTS = "/queues/openstack%3Anotify%3Aex%3Aevents.info"
TAKES_NONE = "host0:5672 takes no declarations: it has closed its session's window, as RabbitMQ"


class Node:
    """A RabbitMQ with an alarm, and the queues that it has."""

    def __init__(self, path, version, *queues, **settings):
        self.world, self.broker = rabbitmq(path, version, **settings)
        self.queues = set(queues)
        #: tries to read what is not there
        self.missed = []
        self.ends_session = version < "4.3"
        self.alarm = True
        self.world.peer.override(None).expect_begin().call(self._begin)
        self.world.peer.override(None).expect_attach(role="receiver").call(self._attach)

    def _begin(self, event):
        reactions._begin(event, incoming_window=0 if self.alarm else 2048)

    def _attach(self, event):
        address = getattr(event.performative.source, "address", None)
        declared = {path for method, path, _ in self.broker.requests if method == "PUT"}
        if (
            address is None
            or address == "/management"
            or address in self.queues
            or address in declared
        ):
            reactions._attach(event)
            return
        self.missed.append(address)
        if self.ends_session:
            reactions.end(event.session, "amqp:not-found", "no queue")
        else:
            reactions.refuse(event, "amqp:not-found", "no queue")

    def close(self):
        """The alarm comes while the connection is in use."""
        self.alarm = True
        for session in self.world.core.sessions.values():
            session.window = 0  # which would open it again
            self.world.core.flow(session, incoming_window=0)
        self.world.run()

    def clear(self):
        self.alarm = False
        for session in self.world.core.sessions.values():
            session.window = 2048
            self.world.core.flow(session, incoming_window=2048)
        self.world.run()

    @property
    def read(self):
        """Addresses that have links which are attached."""
        return [
            link.address
            for link in self.world.peer.links
            if not link.client_sends
            and link.attached
            and not link.detached
            and link.attach.name.startswith("receive.")
            and link.session.our_channel
            in {s.our_channel for s in self.world.core.sessions.values()}
        ]


@pytest.fixture(params=["4.0.5", "4.1.0", "4.2.1", "4.3.0"])
def version(request):
    return request.param


@pytest.fixture
def make(path, version):
    def made(*queues, **settings):
        node = Node(path, version, *queues, **settings)
        node.world.start()
        return node

    return made


def said(caplog, text):
    return [record for record in caplog.records if text in record.getMessage()]


def test_a_new_listener_reads_a_queue_that_exists(make):
    node = make(EVENTS)
    listener = node.world.listen("events.info", None, service=Service.NOTIFY)
    assert (listener.ready, node.read, node.broker.requests) == (1, [EVENTS], [])
    node.world.arrive(EVENTS, "backlog")
    assert listener.bodies == [b"backlog"]
    node.world.settle(listener.deliveries[0])
    assert node.world.link(EVENTS).session.sent == {}


def test_a_new_server_is_ready_with_what_there_is_and_has_the_rest_after_the_alarm(make):
    node = make(ANYCAST)
    listener = node.world.listen()
    assert (listener.ready, node.read) == (1, [ANYCAST])
    node.world.arrive(ANYCAST, "backlog")
    assert listener.bodies == [b"backlog"]
    node.clear()
    node.world.advance(0)
    assert node.world.state == "ready"
    addresses = sorted(node.read)
    assert (addresses[:1], addresses[2:]) == ([ANYCAST], [UNICAST])
    assert addresses[1].startswith(FANOUT)
    assert [
        body["binding_key"] for method, path, body in node.broker.requests if path == "/bindings"
    ] == ["openstack:rpc:multicast:ex:topic"]


def test_a_server_of_a_topic_that_nobody_has_used_yet_starts_all_the_same(make):
    node = make()
    listener = node.world.listen()
    assert (listener.ready >= 1, node.read) == (True, [])
    node.clear()
    node.world.advance(0)
    assert len(node.read) == 3


def test_a_queue_of_its_own_is_not_asked_for_before_it_is_declared(make):
    node = make(ANYCAST)
    node.world.listen()
    node.world.advance(100)
    assert set(node.missed) == {UNICAST}


def test_a_queue_that_is_not_there_is_tried_again_and_again(make):
    """Somebody else may declare it, by another protocol."""
    node = make(ANYCAST)
    node.world.listen()
    node.world.advance(25)
    tries = len(node.missed)
    assert 3 <= tries <= 12
    node.queues.add(UNICAST)
    node.world.advance(10.1)
    assert sorted(node.read) == [ANYCAST, UNICAST]
    # what it read before was not touched
    assert len([a for a in node.world.attaches("receiver") if a.source.address == ANYCAST]) == 1


def test_one_warning_says_what_the_reason_may_be(make, caplog):
    caplog.set_level(logging.INFO)
    node = make(ANYCAST)
    node.world.listen()
    node.world.listen("other")
    node.world.advance(60)
    assert len(said(caplog, TAKES_NONE)) == 1
    assert "alarm (memory, disk)" in said(caplog, TAKES_NONE)[0].getMessage()
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == said(caplog, TAKES_NONE)
    node.clear()
    assert len(said(caplog, "host0:5672 takes declarations again, after 60.0 s")) == 1


def test_an_alarm_in_the_midst_of_things_is_the_same(make):
    node = make(ANYCAST)
    node.clear()
    assert node.world.state == "ready"
    node.close()
    listener = node.world.listen()
    assert (listener.ready, node.read) == (1, [ANYCAST])
    node.clear()
    assert len(node.read) == 3


def test_a_call_waits_for_its_deadline_and_goes_out_if_the_alarm_ends_before(make):
    node = make(ANYCAST, UNICAST)
    early = node.world.call(timeout=3)
    late = node.world.call(timeout=60)
    direct = node.world.call(server="server", timeout=60)
    node.world.advance(3.5)
    assert type(early.future.error).__name__ == "DeadlineExpired"
    node.world.advance(40)
    assert not late.future.done
    node.clear()
    node.world.advance(0)
    assert node.world.state == "ready"
    assert sorted(address for address, _ in node.world.sent() if address != "/management") == [
        ANYCAST,
        UNICAST,
    ]
    node.world.answer(late)
    node.world.answer(direct)
    assert (late.future.value.body, direct.future.value.body) == (b"answer", b"answer")


def test_a_long_alarm_costs_no_connection(make):
    node = make(ANYCAST, connect_timeout=10)
    node.world.listen()
    node.world.advance(100)
    assert len(list(node.world.peer.frames(p.Open))) == 1
    assert node.read == [ANYCAST]


def test_a_listener_is_there_again_when_the_connection_is_lost_in_the_alarm(make):
    node = make(ANYCAST, UNICAST)
    listener = node.world.listen()
    node.world.drop().advance(5)
    assert sorted(node.read) == [ANYCAST, UNICAST]
    assert listener.ready >= 2


def test_a_listener_that_is_stopped_in_the_alarm_is_not_attached_afterwards(make):
    node = make(ANYCAST)
    listener = node.world.listen()
    node.world.connection.stop_subscription(listener.subscription)
    node.world.advance(2)
    node.world.connection.unsubscribe(listener.subscription)
    node.world.advance(2)
    node.clear()
    node.world.advance(5)
    assert node.read == []


def test_servers_are_stopped_and_started_in_the_alarm_as_often_as_one_likes(make):
    """What a server asks when it stops must not use up the credit for declarations."""
    node = make(ANYCAST, UNICAST)
    node.clear()
    listener = node.world.listen()
    node.close()
    for _ in range(40):
        node.world.connection.stop_subscription(listener.subscription)
        node.world.advance(2)
        node.world.connection.unsubscribe(listener.subscription)
        node.world.advance(2)
        listener = node.world.listen()
        assert (listener.ready >= 1, sorted(node.read)) == (True, [ANYCAST, UNICAST])
    node.clear()
    node.world.advance(1)
    assert len(node.read) == 3


def test_a_link_that_is_detached_in_the_alarm_is_attached_again(make):
    node = make(ANYCAST, UNICAST)
    listener = node.world.listen()
    node.world.peer.remote_detach(ANYCAST, "amqp:internal-error")
    node.world.run().advance(0.3)
    assert sorted(node.read) == [ANYCAST, UNICAST]
    node.world.arrive(ANYCAST, "again")
    assert listener.bodies == [b"again"]


def test_a_refused_declaration_after_the_alarm_is_tried_again(make):
    node = make(ANYCAST)
    node.world.listen()
    node.broker.answers[UNICAST] = "403"
    node.clear()
    assert node.read == [ANYCAST]
    node.broker.answers.clear()
    node.world.advance(1)
    assert len(node.read) == 3


def test_the_reply_link_that_is_lost_in_the_alarm_comes_back_after_it(path):
    """4.0: its queue has to be declared."""
    node = Node(path, "4.0.5", ANYCAST, UNICAST)
    node.alarm = False
    node.world.start()
    listener = node.world.listen()
    node.close()
    reply = next(link for link in node.world.peer.links if "reply" in link.attach.name)
    reactions.detach(reply, "amqp:resource-deleted")
    node.world.run().advance(60)
    assert node.world.state == "attaching"
    node.world.arrive(ANYCAST, "meanwhile")
    assert listener.bodies == [b"meanwhile"]
    other = node.world.listen("events.info", None, service=Service.NOTIFY)
    node.queues.add(EVENTS)
    node.world.advance(10.1)
    assert other.ready >= 1
    assert EVENTS in node.read
    node.clear()
    node.world.advance(1)
    assert node.world.state == "ready"
    assert node.world.call(server="server").stage.value != "queued"


def test_where_a_refused_link_ends_the_session_of_others_it_waits(path):
    node = Node(path, "4.0.5", *(f"/queues/openstack%3Anotify%3Aex%3At{n}.info" for n in range(70)))
    node.world.start()
    for number in range(70):
        assert node.world.listen(f"t{number}.info", None, service=Service.NOTIFY).ready >= 1
    read = len(node.read)
    assert 55 <= read <= 62
    listener = node.world.listen("gone.info", None, service=Service.NOTIFY)
    node.world.advance(60)
    assert (listener.ready, len(node.read), node.missed) == (1, read, [])
    node.clear()
    node.world.advance(1)
    assert len(node.read) == 71


def test_a_notification_waits_for_its_queue_no_longer_than_its_deadline(make):
    node = make()
    op = node.world.request(Kind.NOTIFY, "events.info", timeout=5)
    node.world.send(op)
    node.world.advance(5.5)
    assert type(op.future.error).__name__ == "DeadlineExpired"
    node.clear()
    assert [body for address, body in node.world.sent() if address != "/management"] == []
