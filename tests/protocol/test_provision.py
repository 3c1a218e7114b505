# SPDX-License-Identifier: Apache-2.0

"""Declaring nodes on RabbitMQ, over AMQP 1.0 management."""

import pytest

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Queue, Service
from amqp1_driver.connection.operation import Kind, Stage
from amqp1_driver.provisioning.management import ManagementProvisioner
from amqp1_driver.provisioning.rabbitmq import RabbitmqManagement
from amqp1_driver.testing import performatives as p

from .world import rabbitmq

ANYCAST = "openstack%3Arpc%3Aanycast%3Aex%3Atopic"
QUEUE = f"/queues/{ANYCAST}"
KEY = "openstack:rpc:multicast:ex:topic"
OTHER = "inequivalent arg 'x-queue-type' for queue 'openstack:rpc:anycast:ex:topic' in vhost '/'"


@pytest.fixture
def bus(path):
    world, broker = rabbitmq(path)
    world.start()
    assert world.state == "ready"
    return world, broker


def messages(world):
    return [(address, body) for address, body in world.sent() if address != "/management"]


# -- the pair of links ----------------------------------------------------------------------


def test_the_management_links_are_a_pair_of_one_name(bus):
    world, _ = bus
    receiver, sender = [a for a in world.attaches() if a.name == "management-link-pair"]
    assert (receiver.role, receiver.source.address, receiver.target.address) == (
        True,
        "/management",
        "$me",
    )
    assert (sender.role, sender.source.address, sender.target.address) == (
        False,
        "$me",
        "/management",
    )
    for attach in (receiver, sender):
        assert (attach.properties, attach.snd_settle_mode) == ({"paired": True}, 1)


def test_responses_have_credit_however_many_there_are(bus):
    world, broker = bus
    for number in range(250):
        assert world.cast(f"t{number}").future.error is None
    assert len(broker.requests) == 250


# -- what is declared -----------------------------------------------------------------------


def test_a_cast_declares_its_queue_once_and_then_goes_out(bus):
    world, broker = bus
    world.cast()
    world.cast()
    assert broker.requests == [
        (
            "PUT",
            QUEUE,
            {
                "durable": True,
                "exclusive": False,
                "auto_delete": False,
                "arguments": {"x-queue-type": "classic", "x-expires": 1800000},
            },
        )
    ]
    assert messages(world) == [(QUEUE, "body")] * 2


def test_a_call_to_one_server_declares_nothing(bus):
    world, broker = bus
    world.call(server="server")
    assert broker.requests == []
    assert messages(world) == [("/queues/openstack%3Arpc%3Aunicast%3Aex%3Atopic%3Aserver", "body")]


def test_a_fanout_declares_nothing(bus):
    world, broker = bus
    world.cast(fanout=True)
    assert broker.requests == []
    assert messages(world) == [
        ("/exchanges/amq.direct/openstack%3Arpc%3Amulticast%3Aex%3Atopic", "body")
    ]


def test_a_notification_declares_queue_and_binding_in_this_order(bus):
    world, broker = bus
    world.send(world.request(Kind.NOTIFY, "events.info"))
    assert [(method, path) for method, path, _ in broker.requests] == [
        ("PUT", "/queues/openstack%3Anotify%3Aex%3Aevents.info"),
        ("POST", "/bindings"),
    ]
    assert broker.requests[1][2] == {
        "source": "amq.direct",
        "destination_queue": "openstack:notify:ex:events.info",
        "binding_key": "openstack:notify:ex:events.info",
        "arguments": {},
    }
    assert messages(world) == [
        ("/exchanges/amq.direct/openstack%3Anotify%3Aex%3Aevents.info", "body")
    ]


def test_a_listener_declares_all_that_it_reads_and_then_attaches(bus):
    world, broker = bus
    broker.answers["/bindings"] = None
    listener = world.listen()
    assert (listener.ready, len(broker.requests), len(world.attaches("receiver"))) == (0, 4, 2)
    assert broker.requests[3][2]["source"] == "amq.direct"
    assert broker.requests[3][2]["binding_key"] == KEY
    broker.answer_late()
    assert listener.ready == 1
    assert [a.source.address.split("%3A")[2] for a in world.attaches("receiver")[2:]] == [
        "unicast",
        "anycast",
        "multicast",
    ]


def test_a_listener_of_its_own_queue_gets_a_new_one_with_each_connection(bus):
    world, _ = bus
    world.listen()
    first = world.attaches("receiver")[-1].source.address
    world.drop().advance(5)
    second = world.attaches("receiver")[-1].source.address
    assert first != second
    assert first.startswith("/queues/openstack%3Arpc%3Amulticast%3Aex%3Atopic%3A")


def test_all_is_declared_anew_on_the_next_connection(bus):
    world, broker = bus
    world.cast()
    world.drop().advance(5)
    world.cast()
    assert broker.paths == [QUEUE, QUEUE]


@pytest.mark.parametrize("status", ["200", "201", "204"])
def test_what_counts_as_success(path, status):
    world, broker = rabbitmq(path)
    broker.answers[QUEUE] = status
    world.start()
    op = world.cast()
    assert (op.future.done, op.future.error) == (True, None)


# -- waiting ---------------------------------------------------------------------------------


def test_messages_wait_in_order_until_their_node_is_there(bus):
    world, broker = bus
    broker.answers[QUEUE] = None
    ops = [world.cast(body=b"%d" % number) for number in range(3)]
    assert (messages(world), [op.stage for op in ops]) == ([], [Stage.QUEUED] * 3)
    assert len(broker.requests) == 1
    broker.answer_late()
    assert messages(world) == [(QUEUE, "0"), (QUEUE, "1"), (QUEUE, "2")]


def test_others_pass_meanwhile(bus):
    world, broker = bus
    broker.answers[QUEUE] = None
    world.cast()
    assert world.cast("other").future.done
    assert world.call(server="server").stage is Stage.ACCEPTED


def test_who_gives_up_while_waiting_is_not_sent(bus):
    world, broker = bus
    broker.answers[QUEUE] = None
    op, other = world.cast(body=b"0"), world.cast(body=b"1")
    world.connection.cancel(op)
    broker.answer_late()
    assert messages(world) == [(QUEUE, "1")]
    assert isinstance(op.future.error, exceptions.DeadlineExpired)
    assert other.future.error is None


def test_who_waits_when_the_connection_goes_is_sent_over_the_next(bus):
    world, broker = bus
    broker.answers[QUEUE] = None
    op = world.cast()
    world.drop()
    assert not op.future.done
    broker.answers.clear()
    world.advance(5)
    assert (op.future.done, op.future.error, messages(world)) == (True, None, [(QUEUE, "body")])


@pytest.mark.parametrize("status", ["400", "403", "409"])
def test_a_refusal_fails_those_who_wait_and_says_why(bus, status):
    world, broker = bus
    broker.answers[QUEUE] = status
    op = world.cast()
    assert isinstance(op.future.error, exceptions.LinkFailed)
    assert str(op.future.error).startswith(
        f"the bus does not declare {QUEUE} (PUT): {status}: None (host=host0:5672, address={QUEUE}"
    )
    broker.answers.clear()
    assert world.cast().future.error is None


def test_no_answer_within_the_deadline_is_a_refusal(path):
    world, broker = rabbitmq(path, connect_timeout=3)
    world.start()
    broker.answers[QUEUE] = None
    op = world.cast(timeout=30)
    world.advance(2.9)
    assert not op.future.done
    world.advance(0.2)
    assert "no answer within 3 s" in str(op.future.error)
    broker.answer_late()  # too late: nobody asks for it
    assert messages(world) == []
    broker.answers.clear()
    assert world.cast().future.error is None


def test_a_refused_listener_tries_again(bus, caplog):
    world, broker = bus
    broker.answers[QUEUE] = "409"
    listener = world.listen()
    assert (listener.ready, listener.errors) == (0, [])
    assert isinstance(listener.subscription.last_error, exceptions.LinkFailed)
    assert "Can't subscribe: the bus does not declare" in caplog.text
    broker.answers.clear()
    world.advance(1)
    assert (listener.ready, len(listener.subscription.receivers)) == (1, 3)


def test_but_not_once_it_is_stopped(bus):
    world, broker = bus
    broker.answers[QUEUE] = "409"
    listener = world.listen()
    world.connection.stop_subscription(listener.subscription)
    count = len(broker.requests)
    world.advance(30)
    assert len(broker.requests) == count


def test_a_listener_stopped_while_its_queues_are_declared_is_not_attached(bus):
    world, broker = bus
    broker.answers[QUEUE] = None
    listener = world.listen()
    world.connection.unsubscribe(listener.subscription)
    broker.answer_late()
    assert len(world.attaches("receiver")) == 2


def test_a_listener_is_attached_once_though_the_reply_link_is_rebuilt_meanwhile(bus):
    world, broker = bus
    broker.answers[QUEUE] = None
    listener = world.listen()
    world.peer.remote_detach("peer/dynamic/1")
    world.run().advance(0.2)
    assert world.state == "ready"
    broker.answers.clear()
    broker.answer_late()
    assert (world.state, listener.ready, len(listener.subscription.receivers)) == ("ready", 1, 3)


def test_what_another_listener_has_declared_is_not_declared_again(bus):
    world, broker = bus
    assert world.listen("events.info", None, service=Service.NOTIFY).ready == 1
    count = len(broker.requests)
    assert world.listen("events.info", None, service=Service.NOTIFY).ready == 1
    assert len(broker.requests) == count == 2


# -- nodes that go away -------------------------------------------------------------------------


@pytest.mark.parametrize("resend", [False, True])
def test_a_message_that_comes_back_is_in_doubt_and_the_next_declares_its_node(path, resend):
    """RabbitMQ releases also what was in a queue, or with its reader, when that was deleted."""
    world, broker = rabbitmq(path, resend_released=resend)
    world.start()
    world.peer.override().expect_transfer(address=QUEUE).release()
    op = world.cast(retry=-1)
    world.advance(30)
    assert isinstance(op.future.error, exceptions.DeliveryReleased)
    assert op.attempts == 1
    assert (broker.paths, messages(world)) == ([QUEUE], [(QUEUE, "body")])
    assert world.cast().future.error is None
    assert (broker.paths, messages(world)) == ([QUEUE] * 2, [(QUEUE, "body")] * 2)


def test_a_sender_declares_a_queue_again_before_it_can_have_expired(path):
    world, broker = rabbitmq(path, queue_expiry=60.0)
    world.start().cast()
    world.advance(29)
    world.cast()
    assert broker.paths == [QUEUE]
    world.advance(2)
    assert world.cast().future.error is None
    assert broker.paths == [QUEUE, QUEUE]
    world.close()
    assert world.port.timers.live == set()


def test_one_that_comes_back_shortly_before_that_is_declared_once(path):
    world, broker = rabbitmq(path, queue_expiry=60.0)
    world.start().cast()
    world.advance(20)
    world.peer.override().expect_transfer(address=QUEUE).release()
    world.cast()
    world.cast()
    world.advance(29)
    world.cast()
    assert broker.paths == [QUEUE, QUEUE]
    world.advance(2)
    world.cast()
    assert broker.paths == [QUEUE] * 3


SERVER = "/queues/openstack%3Arpc%3Aunicast%3Aex%3Atopic%3Aserver"


def test_what_declares_nothing_is_not_sent_again(bus):
    world, broker = bus
    world.peer.override().expect_transfer(address=SERVER).release()
    op = world.cast(server="server")
    assert isinstance(op.future.error, exceptions.DeliveryReleased)
    assert broker.requests == []


def test_a_call_to_a_server_that_is_not_there_waits_for_its_deadline(bus):
    """RELEASED does not prove that no server had it; and callers expect a timeout."""
    world, _ = bus
    world.peer.override(None).expect_transfer(address=SERVER).release()
    op = world.call(server="server", timeout=5)
    world.advance(4.9)
    assert (op.future.done, op.attempts) == (False, 1)
    world.connection.cancel(op)
    assert str(op.future.error).startswith(
        "timed out waiting for reply; the bus gave the message back: there is no queue of such a "
        "server, or it was deleted (host=host0:5672"
    )
    assert isinstance(op.future.error, exceptions.DeadlineExpired)


def test_its_reply_counts_if_it_comes_all_the_same(bus):
    world, _ = bus
    world.peer.override().expect_transfer(address=SERVER).release()
    op = world.call(server="server", timeout=5)
    world.answer(op)
    assert (op.future.error, op.future.value.body) == (None, b"answer")


def test_a_call_that_asks_whether_a_server_is_there_fails_at_once(bus):
    world, _ = bus
    world.peer.override().expect_transfer(address=SERVER).release()
    op = world.request(Kind.CALL, server="server")
    op.mandatory = True
    world.send(op)
    assert isinstance(op.future.error, exceptions.DeliveryReleased)


def test_a_call_that_waits_so_is_in_doubt_when_the_connection_goes(bus):
    world, _ = bus
    world.peer.override().expect_transfer(address=SERVER).release()
    op = world.call(server="server", timeout=30)
    world.drop()
    assert isinstance(op.future.error, exceptions.InDoubt)


# -- queues that exist with other arguments --------------------------------------------------


def test_a_queue_with_other_arguments_is_used_as_it_is(bus, caplog):
    world, broker = bus
    broker.answers[QUEUE] = "409"
    broker.bodies[QUEUE] = OTHER
    listener = world.listen()
    assert (listener.ready, world.cast().future.error) == (1, None)
    assert OTHER in caplog.text
    assert "used as it is" in caplog.text


def test_a_queue_that_can_not_have_such_arguments_is_refused(bus):
    world, broker = bus
    broker.answers[QUEUE] = "409"
    broker.bodies[QUEUE] = "invalid arg 'x-delivery-limit' for queue 'q'"
    error = world.cast().future.error
    assert isinstance(error, exceptions.LinkFailed)
    assert "invalid arg 'x-delivery-limit'" in str(error)


# -- leaving ---------------------------------------------------------------------------------


def stop(world, listener):
    told = []
    world.connection.stop_subscription(listener.subscription, told.append)
    world.run()
    return told


def test_a_server_that_stops_deletes_nothing(bus):
    """Others may send to its queues, and what RabbitMQ deletes with a queue is in doubt."""
    world, broker = bus
    listener = world.listen()
    declared = len(broker.requests)
    assert stop(world, listener) == [True]
    told = []
    world.connection.unsubscribe(listener.subscription, told.append)
    world.advance(5)
    assert told == [True]
    assert broker.requests[declared:] == []


def test_a_queue_that_was_deleted_is_not_attached_again(bus, caplog):
    world, broker = bus
    listener = world.listen()
    stop(world, listener)
    declared = len(broker.requests)
    attached = len(world.attaches("receiver"))
    world.peer.remote_detach(QUEUE, "amqp:resource-deleted")
    world.run().advance(20)
    assert len(world.attaches("receiver")) == attached
    assert broker.requests[declared:] == []
    assert "by the peer" not in "".join(
        record.getMessage() for record in caplog.records if record.levelname == "WARNING"
    )


def test_a_receiver_declares_its_queue_again_before_it_is_attached_again(bus):
    world, broker = bus
    world.listen()
    before = len(broker.requests)
    world.peer.remote_detach(QUEUE, "amqp:resource-deleted")
    world.run().advance(0.2)
    assert broker.paths[before:] == [QUEUE]
    assert world.link(QUEUE).credit == 100


def test_a_receiver_is_attached_even_if_its_queue_can_not_be_declared_again(bus):
    world, broker = bus
    world.listen()
    broker.answers[QUEUE] = "409"
    world.peer.remote_detach(QUEUE, "amqp:resource-deleted")
    world.run().advance(0.2)
    assert world.link(QUEUE).credit == 100


def test_a_connection_lost_while_a_queue_is_declared_again(bus):
    world, broker = bus
    listener = world.listen()
    broker.answers[QUEUE] = None
    world.peer.remote_detach(QUEUE, "amqp:resource-deleted")
    world.run().advance(0.2)
    broker.answers.clear()
    world.drop().advance(5)
    assert (world.state, listener.ready) == ("ready", 2)
    world.close()
    assert world.port.timers.live == set()


def test_when_the_management_links_go_the_connection_is_made_anew(path, caplog):
    world, _ = rabbitmq(path, hosts=2)
    world.start()
    world.peer.remote_detach("management-link-pair", "amqp:internal-error")
    world.run()
    assert "Nodes can't be declared" in caplog.text
    world.advance(2)
    assert (world.state, world.context.host) == ("ready", "host1:5672")
    assert world.cast().future.error is None


def test_an_undecodable_response_is_logged_and_costs_the_request_its_time(path, caplog):
    world, broker = rabbitmq(path, connect_timeout=3)
    world.start()
    broker.answers[QUEUE] = None
    op = world.cast()
    back = next(
        link
        for link in world.peer.links
        if link.name == "management-link-pair" and not link.client_sends
    )
    world.arrive("", message=b"\x00\x53\x73\xff", link=back, settled=True)
    assert "Undecodable management response from host0:5672" in caplog.text
    world.advance(3.1)
    assert op.future.error is not None


def test_a_response_to_no_request_is_ignored(bus):
    world, _ = bus
    back = next(
        link
        for link in world.peer.links
        if link.name == "management-link-pair" and not link.client_sends
    )
    world.arrive("", "what?", link=back, settled=True)
    assert world.cast().future.error is None
    assert back.credit == 100


# -- RabbitMQ 4.0 --------------------------------------------------------------------------------


def old(path, **kw):
    world, broker = rabbitmq(path, "4.0.5", **kw)
    return world, broker


REPLY_QUEUE = "/queues/openstack%3Areply%3Aunique"


def test_replies_go_to_an_exclusive_queue_that_is_declared(path):
    world, broker = old(path)
    world.start()
    assert broker.requests == [
        (
            "PUT",
            REPLY_QUEUE,
            {
                "durable": False,
                "exclusive": True,
                "auto_delete": False,
                "arguments": {"x-queue-type": "classic"},
            },
        )
    ]
    assert (world.state, world.context.reply_address) == ("ready", REPLY_QUEUE)
    op = world.call(server="s")
    assert world.peer.transfers[-1].message.properties.reply_to == REPLY_QUEUE
    world.answer(op)
    assert op.future.value.body == b"answer"


def test_it_is_declared_again_when_it_was_deleted(path):
    world, broker = old(path)
    world.start()
    world.peer.remote_detach(REPLY_QUEUE, "amqp:resource-deleted")
    world.run().advance(0.2)
    assert broker.paths == [REPLY_QUEUE, REPLY_QUEUE]
    assert world.state == "ready"


@pytest.mark.parametrize("status", ["400", None])
def test_a_bus_that_does_not_declare_it_is_left_for_the_next_host(path, status):
    world, broker = old(path, hosts=2, connect_timeout=3)
    broker.answers[REPLY_QUEUE] = status
    world.start().advance(0 if status else 3.1)
    assert len(world.port.connects) == 2 or world.state == "backoff"
    broker.answers.clear()
    world.advance(4)
    assert world.state == "ready"
    assert any(str(host) == "host1:5672" for host in world.port.connects)


def test_each_receiver_has_a_session_of_its_own(path):
    world, _ = old(path)
    world.start()
    listener = world.listen()
    assert listener.ready == 1
    sessions = {id(world.link(a.source.address).session) for a in world.attaches("receiver")[2:]}
    assert len(sessions) == 3


def test_a_receiver_that_takes_its_session_with_it_harms_no_other(path):
    world, _ = old(path)
    world.start()
    listener = world.listen()
    world.peer.end_session(world.link(QUEUE).session.their_channel, "amqp:resource-deleted")
    world.run().advance(0.2)
    assert (world.state, listener.ready) == ("ready", 2)
    assert [receiver._attempt for receiver in listener.subscription.receivers] == [1, 2, 1]


def test_there_are_never_more_sessions_than_the_bus_allows(path):
    world, _ = old(path)
    world.start()
    for number in range(30):  # three receivers each
        listener = world.listen(f"t{number}")
        assert listener.ready == 1
    world.cast()
    assert len(world.peer.frames(p.Begin)) == 64


def test_sessions_are_used_again_when_their_receivers_have_gone(path):
    world, _ = old(path)
    world.start()
    for number in range(40):
        listener = world.listen(f"t{number}")
        assert listener.ready == 1
        world.connection.unsubscribe(listener.subscription)
        world.run()
    assert len(world.peer.frames(p.Begin)) <= 6


def test_on_4_3_receivers_share_a_session_up_to_200_links(bus):
    world, _ = bus
    for number in range(70):
        assert world.listen(f"t{number}", "s", service=Service.RPC).ready == 1
    counts = sorted(len(session.links) for session in world.core.sessions.values())
    assert counts == [3, 10, 200]


# -- many at once -------------------------------------------------------------------------------


class Counted:
    """A declaration that counts how often it is looked up."""

    lookups = 0

    def __hash__(self):
        Counted.lookups += 1
        return id(self)


def test_what_thousands_of_subscriptions_cost_is_in_proportion():
    lookups = {}
    for number in (50, 200):
        Counted.lookups = 0
        provisioner = ManagementProvisioner(
            RabbitmqManagement(), None, "host", 1.0, lambda error: None
        )
        done = []
        nodes = [tuple(Counted() for _ in range(3)) for _ in range(number)]
        for declare in nodes:
            provisioner.ensure(declare, done.append)
        for declare in nodes:
            for declaration in declare:
                provisioner._declared(declaration)
        assert done == [None] * number
        lookups[number] = Counted.lookups
    assert lookups[200] == 4 * lookups[50]


def test_a_subscription_is_told_of_one_refusal_only():
    provisioner = ManagementProvisioner(RabbitmqManagement(), None, "host", 1.0, lambda error: None)
    queue, other = (Queue(name, False, False, False) for name in ("q", "other"))
    mine, theirs = [], []
    provisioner.ensure((queue, other), mine.append)
    provisioner.ensure((other,), theirs.append)
    provisioner._refused(queue, "400: no")
    provisioner._declared(other)
    provisioner.connection_lost(exceptions.ConnectionLost("gone", host="host"))
    assert [str(error) for error in mine] == [
        "the bus does not declare /queues/q (PUT): 400: no (host=host, address=/queues/q)"
    ]
    assert theirs == [None]
