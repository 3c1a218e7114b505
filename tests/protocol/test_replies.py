# SPDX-License-Identifier: Apache-2.0

"""The reply subscription: one per connection, matched by correlation-id."""

import logging

import pytest

from amqp1_driver import exceptions
from amqp1_driver.connection.operation import Kind, Stage
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing import reactions
from amqp1_driver.testing.messages import Message, Properties

from .world import World, rabbitmq

REPLIES = "peer/dynamic/1"


def orphan(correlation_id, body="late"):
    return Message(body, properties=Properties(correlation_id=correlation_id))


# -- matching ---------------------------------------------------------------------------------


def test_the_address_is_assigned_by_the_bus_and_named_in_every_call(world):
    (attach,) = world.attaches("receiver")
    assert (attach.source.dynamic, attach.source.address) == (True, None)
    world.call()
    world.call("other")
    assert [t.message.properties.reply_to for t in world.peer.transfers] == [REPLIES, REPLIES]


def test_replies_find_their_calls_in_any_order(world):
    calls = [world.call(), world.call(), world.call()]
    for index in (2, 0, 1):
        world.answer(calls[index], f"answer {index}")
    assert [op.future.value.body for op in calls] == [b"answer 0", b"answer 1", b"answer 2"]
    assert world.connection._live.reply_link.waiting == {}


def test_a_reply_is_accepted_and_settled(world):
    world.answer(world.call())
    (reply,) = world.peer.sent
    assert (reply.state, reply.settled) == (p.Accepted(), True)


def test_a_reply_that_is_settled_already_serves_as_well(world):
    op = world.call()
    world.answer(op, settled=True)
    assert op.future.value.body == b"answer"


@pytest.mark.parametrize("correlation_id", ["unknown", None, 7, b"m1"])
def test_an_unknown_reply_is_logged_and_settled(world, caplog, correlation_id):
    op = world.call()
    world.arrive(REPLIES, message=orphan(correlation_id))
    assert (world.peer.sent[0].state, world.peer.sent[0].settled) == (p.Accepted(), True)
    assert f"correlation-id {correlation_id!s} on peer/dynamic/1 at host0:5672" in caplog.text
    assert not op.future.done


def test_a_late_reply_is_logged_and_settled(world, caplog):
    op = world.call()
    world.connection.cancel(op)
    world.answer(op)
    assert world.peer.sent[0].settled
    assert "correlation-id m1 on peer/dynamic/1 at host0:5672 dropped" in caplog.text
    assert op.future.value is None


def test_a_second_reply_to_one_call_is_a_late_one(world, caplog):
    op = world.call()
    world.answer(op, "first").answer(op, "second")
    assert op.future.value.body == b"first"
    assert [sent.settled for sent in world.peer.sent] == [True, True]
    assert "dropped: nobody waits for it any more" in caplog.text


def test_on_a_router_the_server_learns_that_its_reply_came_too_late(path):
    # as the removed driver: modified, delivery-failed and undeliverable-here (3.4.5)
    world = World(
        path, peer={"product": "qpid-dispatch-router", "offered_capabilities": ("ANONYMOUS-RELAY",)}
    ).start()
    op = world.call()
    world.connection.cancel(op)
    world.answer(op)
    (late,) = world.peer.sent
    assert (late.state, late.settled) == (
        p.Modified(delivery_failed=True, undeliverable_here=True),
        True,
    )
    for _ in range(300):  # more than the credit of the link, which is 200
        world.answer(world.call())
    assert [sent.state for sent in world.peer.sent[1:]] == [p.Accepted()] * 300


def test_a_server_does_not_send_a_reply_again_that_came_too_late(path, caplog):
    world = World(path, peer={"product": "qpid-dispatch-router"}).start()
    world.hold()
    ends = world.reply("caller")
    world.outcome(p.Modified(delivery_failed=True, undeliverable_here=True))
    world.advance(10)
    assert len(world.peer.transfers) == 1
    (error,) = ends
    assert isinstance(error, exceptions.DeliveryModified)
    # the caller's other calls still get their replies
    assert not exceptions.nobody_there(error)


def test_on_a_broker_a_late_reply_is_accepted_so_that_it_does_not_stay_there(world):
    op = world.call()
    world.connection.cancel(op)
    world.answer(op)
    assert world.peer.sent[0].state == p.Accepted()


def test_an_undecodable_reply_is_rejected(world):
    world.arrive(REPLIES, message=b"\x00\x53\x73\xc0\xff")
    assert (world.peer.sent[0].state, world.peer.sent[0].settled) == (p.Rejected(), True)


def test_an_undecodable_reply_is_logged_and_settled_and_harms_nobody(world, caplog):
    op = world.call()
    world.arrive(REPLIES, message=b"\x00\x53\x73\xc0\xff")
    assert world.peer.sent[0].settled
    assert "Undecodable reply on peer/dynamic/1 at host0:5672 dropped" in caplog.text
    world.answer(op)
    assert op.future.value.body == b"answer"


def test_a_correlation_id_of_a_type_that_none_may_have_makes_a_reply_undecodable(world, caplog):
    # properties whose correlation-id is a map, then the body "x"
    world.arrive(
        REPLIES,
        message=(
            b"\x00\x53\x73\xc0\x0f\x06\x40\x40\x40\x40\x40\xc1\x07\x02\xa1\x01a\xa1\x01b"
            b"\x00\x53\x77\xa1\x01x"
        ),
    )
    assert world.peer.sent[0].settled
    assert "correlation_id is dict" in caplog.text


def test_a_heartbeat_is_a_sign_of_life_and_no_reply(world):
    op = world.call()
    world.clock.advance(5)
    world.answer(op, None)
    assert (op.heartbeat, op.future.done) == (1005.0, False)
    world.answer(op)
    assert op.future.value.body == b"answer"


def test_a_late_heartbeat_is_not_worth_a_warning(world, caplog):
    op = world.call()
    world.answer(op)
    caplog.clear()
    world.answer(op, None)
    assert world.peer.sent[1].settled
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_replies_never_leak_whatever_becomes_of_the_calls(path):
    world = World(path).start()
    world.hold()
    waiting = world.connection._live.reply_link.waiting
    done, cancelled, released, rejected = (world.call() for _ in range(4))
    assert len(waiting) == 4
    world.answer(done)
    world.connection.cancel(cancelled)
    world.outcome(p.Released(), 2).outcome(p.Rejected(), 3)
    assert waiting == {}
    assert released.future.error is not None
    assert rejected.future.error is not None


def test_replies_may_come_as_fast_as_credit_allows_and_the_stall_is_counted(path):
    world = World(path, reply_link_credit=2).start()
    calls = [world.call() for _ in range(4)]
    for op in calls:
        link = world.link(REPLIES)
        message = Message("answer", properties=Properties(correlation_id=op.message_id))
        reactions.transfer(link, message)  # without waiting for us
        if not link.credit:
            world.run()
    assert all(op.future.value is not None for op in calls)
    assert world.connection._live.reply_link.window.stalls == 2


# -- the reply link goes while the connection lives ---------------------------------------------


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "not closed"])
def test_the_reply_link_is_rebuilt_and_the_context_published_anew(world, closed):
    first = world.context
    world.peer.remote_detach(REPLIES, "amqp:resource-deleted", "gone", closed=closed)
    world.run()
    assert (world.state, world.contexts) == ("attaching", [first, None])
    world.advance(0.2)
    assert world.state == "ready"
    assert (world.context.reply_address, world.context.generation) == ("peer/dynamic/2", 2)
    assert len(world.peer.script.cores) == 1
    op = world.call()
    assert world.peer.transfers[-1].message.properties.reply_to == "peer/dynamic/2"
    world.answer(op)
    assert op.future.value.body == b"answer"


def test_calls_that_wait_for_a_reply_fail_when_its_link_has_gone(world):
    call = world.call()
    assert call.stage is Stage.ACCEPTED
    world.peer.remote_detach(REPLIES, "amqp:resource-deleted")
    world.run()
    assert isinstance(call.future.error, exceptions.InDoubt)
    assert "the reply address was lost" in str(call.future.error)
    assert "amqp:resource-deleted" in str(call.future.error)


def test_a_cast_on_its_way_is_not_concerned(world):
    world.hold()
    cast, call = world.cast(), world.call()
    world.peer.remote_detach(REPLIES, "amqp:resource-deleted")
    world.run()
    assert (cast.future.done, call.future.done) == (False, True)
    world.outcome(p.Accepted(), 0)
    assert (cast.future.done, cast.future.error) == (True, None)


def test_calls_that_were_not_sent_go_out_with_the_new_address(path):
    world = World(path).start()
    world.no_credit("unicast.ex.topic")
    call = world.call()
    world.peer.remote_detach(REPLIES, "amqp:resource-deleted")
    world.run()
    assert (call.future.done, call.stage) == (False, Stage.QUEUED)
    late = world.call()
    world.advance(0.2).grant(5, "unicast.ex.topic")
    assert [t.message.properties.reply_to for t in world.peer.transfers] == ["peer/dynamic/2"] * 2
    for op in (call, late):
        world.answer(op)
        assert op.future.value.body == b"answer"


def test_subscriptions_stay_as_they_are(world):
    listener = world.listen()
    world.arrive("unicast.ex.topic", "before")
    world.peer.remote_detach(REPLIES)
    world.run().advance(0.2)
    assert (world.state, listener.ready, len(world.attaches("receiver"))) == ("ready", 1, 5)
    world.arrive("unicast.ex.topic", "after")
    for delivery in listener.deliveries:
        world.settle(delivery)
    assert [sent.state for sent in world.peer.sent] == [p.Accepted(), p.Accepted()]


def test_a_subscription_made_meanwhile_comes_up_once(world):
    world.peer.remote_detach(REPLIES)
    world.run()
    listener = world.listen()
    assert listener.ready == 0
    world.advance(0.2)
    assert (listener.ready, len(listener.subscription.receivers)) == (1, 3)


def test_a_refused_reply_link_is_tried_again(path):
    world = World(path)
    world.peer.override(2).expect_attach(dynamic=True).refuse("amqp:resource-limit-exceeded")
    world.start()
    assert (world.state, world.contexts) == ("attaching", [])
    world.advance(0.6)
    assert world.state == "ready"
    assert [attach.name for attach in world.attaches("receiver")] == [
        "reply.1",
        "reply.2",
        "reply.3",
    ]


def test_a_bus_that_assigns_no_address_is_left_for_the_next_host(path, caplog):
    world = World(path, hosts=2)
    world.peer.override().expect_attach(dynamic=True).respond(
        source=p.Source(address=None, dynamic=True)
    )
    world.start()
    assert world.state == "attaching"
    assert "The bus at host0:5672 assigned no reply address" in caplog.text
    world.advance(10.1)
    assert (world.state, world.context.host) == ("ready", "host1:5672")


def test_a_reply_link_that_does_not_come_back_costs_the_connection(path):
    world = World(path, hosts=2).start()
    world.peer.override(None).expect_attach(dynamic=True).refuse("amqp:internal-error")
    world.peer.remote_detach(REPLIES)
    world.run().advance(9.9)
    assert (world.state, len(world.port.connects)) == ("attaching", 1)
    world.peer.script.rules.clear()
    world.advance(0.2)
    assert (world.state, world.context.host) == ("ready", "host1:5672")


# -- RabbitMQ's volatile queue ------------------------------------------------------------------


def volatile(path, **kw):
    world, broker = rabbitmq(path, "4.3.0", **kw)
    return world.start(), broker


def test_rabbitmq_is_asked_for_a_volatile_queue(path):
    world, _ = volatile(path)
    (attach,) = [a for a in world.attaches("receiver") if a.source.dynamic]
    assert (attach.source.capabilities, attach.source.expiry_policy, attach.snd_settle_mode) == (
        ["rabbitmq:volatile-queue"],
        "link-detach",
        1,
    )


def test_rabbitmq_4_1_is_asked_for_a_temporary_queue(path):
    world, _ = rabbitmq(path, "4.1.2")
    world.start()
    (attach,) = [a for a in world.attaches("receiver") if a.source.dynamic]
    assert (attach.source.capabilities, attach.snd_settle_mode) == (["temporary-queue"], 2)


def test_the_window_of_a_volatile_queue_grows_with_the_calls_that_wait(path):
    world, _ = volatile(path, reply_link_credit=10)
    link = world.link(REPLIES)
    calls = [world.call() for _ in range(5)]
    assert link.credit == 10
    calls.append(world.call())
    assert link.credit == 24  # four times the 6 that wait
    for number in range(7, 100):
        calls.append(world.call())
        assert link.credit >= 2 * number
    for op in calls:  # without a single flow in between: none may be dropped
        assert link.credit > 0
        world.answer(op, settled=True)
    assert all(op.future.value is not None for op in calls)


def test_calls_that_waited_for_the_connection_make_it_grow_too(path):
    world, _ = rabbitmq(path, "4.3.0", reply_link_credit=10)
    world.modes["host0:5672"] = "silent"
    world.start()
    for _ in range(30):
        world.call()
    world.modes.clear()
    world.run()
    assert world.link(REPLIES).credit >= 60


def test_other_reply_queues_keep_their_window(world):
    for _ in range(300):
        world.call()
    assert world.link(REPLIES).credit == 200


def test_heartbeats_of_a_volatile_queue_cost_no_credit_for_good(path):
    world, _ = volatile(path, reply_link_credit=4)
    op = world.call(timeout=1000)
    for _ in range(50):
        assert world.link(REPLIES).credit > 0
        world.answer(op, None, settled=True)
    assert op.kind is Kind.CALL
    world.answer(op, settled=True)
    assert op.future.value.body == b"answer"
