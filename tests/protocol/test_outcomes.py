# SPDX-License-Identifier: Apache-2.0

"""Outcomes of what we send (3.4), and what is in doubt."""

import pytest

from amqp1_driver import exceptions
from amqp1_driver.connection.operation import Kind, Stage
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.testing import performatives as p

from .world import World

ANY = "unicast.ex.topic"


@pytest.fixture
def holding(path):
    """Ready; the peer settles only what it is told to."""
    world = World(path).start()
    world.hold()
    return world


def resending(path, **settings):
    world = World(path, resend_released=True, **settings).start()
    world.hold()
    return world


# -- what each outcome means --------------------------------------------------------------------


def test_accepted_ends_a_cast(holding):
    op = holding.cast()
    assert (op.stage, op.future.done) == (Stage.SENT, False)
    holding.outcome(p.Accepted())
    assert (op.stage, op.future.done, op.future.error) == (Stage.DONE, True, None)


def test_accepted_makes_a_call_wait_for_its_reply(holding):
    op = holding.call()
    holding.outcome(p.Accepted())
    assert (op.stage, op.future.done) == (Stage.ACCEPTED, False)
    holding.answer(op)
    assert op.future.value.body == b"answer"


def test_rejected_fails_with_condition_and_description(holding):
    op = holding.cast()
    holding.outcome(p.Rejected(error=p.Error(condition="amqp:not-allowed", description="no")))
    assert isinstance(op.future.error, exceptions.DeliveryRejected)
    assert str(op.future.error) == (
        "message rejected (host=host0:5672, address=unicast.ex.topic, message-id=m1, "
        "condition=amqp:not-allowed, description=no)"
    )


def test_rejected_without_an_error_fails_too(holding):
    op = holding.cast()
    holding.outcome(p.Rejected())
    assert isinstance(op.future.error, exceptions.DeliveryRejected)
    assert op.future.error.condition is None


def test_released_fails_by_default(holding):
    op = holding.cast(retry=5)
    holding.outcome(p.Released())
    assert isinstance(op.future.error, exceptions.DeliveryReleased)
    assert len(holding.advance(20).sent()) == 1


@pytest.mark.parametrize(
    ("failed", "undeliverable"), [(None, None), (True, None), (False, True), (True, True)]
)
def test_modified_fails_with_its_flags(holding, failed, undeliverable):
    op = holding.cast()
    holding.outcome(p.Modified(delivery_failed=failed, undeliverable_here=undeliverable))
    error = op.future.error
    assert isinstance(error, exceptions.DeliveryModified)
    assert (error.failed, error.undeliverable) == (bool(failed), bool(undeliverable))


@pytest.mark.parametrize(
    "state", [None, p.Received(section_number=0, section_offset=0)], ids=["no state", "received"]
)
def test_settled_without_an_outcome_is_in_doubt_and_never_resent(path, state):
    world = resending(path)
    op = world.cast()
    world.outcome(state)
    assert isinstance(op.future.error, exceptions.InDoubt)
    assert len(world.advance(20).sent()) == 1


def test_a_state_that_is_no_outcome_changes_nothing(holding):
    op = holding.cast()
    holding.peer.settle(-1, p.Received(section_number=0, section_offset=5), settled=False)
    holding.run()
    assert not op.future.done
    holding.outcome(p.Accepted())
    assert op.future.done


def test_an_outcome_that_is_not_settled_by_the_peer_is_settled_by_us(holding):
    op = holding.cast()
    holding.peer.settle(-1, p.Accepted(), settled=False)
    holding.run()
    assert op.future.done
    assert holding.peer.transfers[-1].settled


def test_one_disposition_settles_a_range(holding):
    ops = [holding.cast() for _ in range(5)]
    session = holding.link(ANY).session
    holding.peer.send(
        p.Disposition(role=True, first=ops and 0, last=3, settled=True, state=p.Accepted()),
        channel=session.our_channel,
    )
    holding.run()
    assert [op.future.done for op in ops] == [True, True, True, True, False]


def test_a_disposition_that_comes_twice_counts_once(holding):
    op, other = holding.cast(), holding.cast()
    holding.outcome(p.Accepted(), 0).outcome(p.Released(), 0)
    assert (op.future.error, other.future.done) == (None, False)


def test_pre_settled_is_done_when_it_is_sent(holding):
    op = holding.cast(settled=True)
    assert (op.future.done, op.future.error, holding.peer.transfers[0].settled) == (
        True,
        None,
        True,
    )


def test_a_pre_settled_call_waits_for_its_reply_and_for_no_acknowledgement(holding):
    op = holding.call(settled=True)
    assert (op.stage, op.future.done) == (Stage.ACCEPTED, False)
    holding.answer(op)
    assert op.future.value.body == b"answer"


# -- sending again --------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [p.Released(), p.Modified()], ids=["released", "modified"])
def test_the_option_resends_what_was_not_touched(path, state):
    world = resending(path)
    op = world.cast()
    world.outcome(state)
    assert (op.stage, op.future.done, len(world.sent())) == (Stage.QUEUED, False, 1)
    world.advance(0.3)
    assert world.sent() == [(ANY, "body")] * 2
    world.outcome(p.Accepted())
    assert (op.future.done, op.future.error, op.attempts) == (True, None, 2)


@pytest.mark.parametrize(
    "state",
    [
        p.Modified(delivery_failed=True),
        p.Modified(undeliverable_here=True),
        p.Rejected(error=p.Error(condition="amqp:not-found")),
    ],
)
def test_the_option_resends_nothing_else(path, state):
    world = resending(path)
    op = world.cast()
    world.outcome(state)
    assert op.future.error is not None
    assert len(world.advance(20).sent()) == 1


def test_it_resends_as_often_as_retry_allows(path):
    world = resending(path)
    op = world.cast(retry=2, timeout=60)
    for attempt in (1, 2, 3):
        assert (len(world.sent()), op.future.done) == (attempt, False)
        world.outcome(p.Released()).advance(2)
    assert isinstance(op.future.error, exceptions.DeliveryReleased)
    assert len(world.advance(20).sent()) == 3


def test_it_resends_nothing_with_retry_0(path):
    world = resending(path)
    op = world.cast(retry=0)
    world.outcome(p.Released())
    assert isinstance(op.future.error, exceptions.DeliveryReleased)


def test_it_resends_nothing_after_the_deadline(path):
    world = resending(path)
    op = world.cast(timeout=5)
    world.advance(5.1).outcome(p.Released())
    assert isinstance(op.future.error, exceptions.DeliveryReleased)


def test_the_deadline_holds_while_it_waits_to_be_resent(path):
    world = resending(path, peer={"offered_capabilities": ()})
    ends = world.reply(timeout=0.25, retry=1)
    world.advance(0.2).outcome(p.Released())
    world.advance(0.4)
    assert len(ends) == 1
    assert len(world.advance(5).sent()) == 1


def test_the_waits_become_longer_and_others_pass(path):
    world = resending(path)
    world.cast(body=b"first", timeout=60)
    delays, before = [], world.clock()
    for attempt in range(2, 6):
        world.outcome(p.Released())
        while len(world.sent()) < attempt:
            world.advance(0.01)
        delays.append(world.clock() - before)
        before = world.clock()
    bounds = [(0.1, 0.2), (0.2, 0.4), (0.4, 0.8), (0.8, 1.6)]
    assert all(
        low <= delay + 1e-9 and delay <= high + 0.02
        for delay, (low, high) in zip(delays, bounds, strict=True)
    ), delays
    world.outcome(p.Released())
    assert world.cast(body=b"second").stage is Stage.SENT


def test_what_was_given_up_is_not_resent(path):
    world = resending(path)
    op = world.cast()
    world.outcome(p.Released())
    world.connection.cancel(op)
    assert isinstance(op.future.error, exceptions.DeadlineExpired)
    assert len(world.advance(20).sent()) == 1


def test_a_call_that_has_its_reply_is_not_resent_whatever_its_outcome(path):
    world = resending(path)
    op = world.call()
    world.answer(op)
    world.outcome(p.Released())
    assert (op.future.value.body, op.finished) == (b"answer", True)
    assert len(world.advance(20).sent()) == 1


def test_a_call_whose_reply_comes_while_it_waits_to_be_resent_is_done(path):
    world = resending(path)
    op = world.call()
    world.outcome(p.Released()).answer(op)
    assert op.future.value.body == b"answer"
    assert len(world.advance(20).sent()) == 1


def test_also_when_it_waits_for_credit_to_be_resent(path):
    world = World(path, resend_released=True).start()
    world.peer.override().expect_attach(role="sender").respond().grant(1)
    world.hold()
    op = world.call()
    world.outcome(p.Released()).advance(1)
    assert op.stage is Stage.QUEUED
    world.answer(op).grant(5, ANY)
    assert (op.future.value.body, len(world.advance(20).sent())) == (b"answer", 1)


def test_the_acknowledgement_may_come_after_the_reply(holding):
    op = holding.call()
    holding.answer(op)
    holding.outcome(p.Accepted())
    assert (op.stage, op.future.error, op.future.value.body) == (Stage.DONE, None, b"answer")


def test_resent_over_the_next_connection_if_this_one_goes_meanwhile(path):
    world = resending(path)
    op = world.cast()
    world.outcome(p.Released())
    world.drop().advance(5)
    assert world.sent() == [(ANY, "body")] * 2
    world.outcome(p.Accepted())
    assert op.future.done
    assert len(world.advance(5).sent()) == 2


# -- replies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [p.Released(), p.Modified(), p.Rejected(error=p.Error(condition="amqp:not-found"))],
    ids=["released", "modified", "not-found"],
)
def test_a_reply_that_finds_nobody_is_tried_once_more(holding, state):
    ends = holding.reply("caller")
    assert holding.sent() == [("caller", "answer")]
    holding.outcome(state).advance(0.3)
    assert (holding.sent(), ends) == ([("caller", "answer")] * 2, [])
    holding.outcome(state).advance(20)
    assert (len(holding.sent()), len(ends)) == (2, 1)
    assert isinstance(
        ends[0],
        (exceptions.DeliveryReleased, exceptions.DeliveryModified, exceptions.DeliveryRejected),
    )


def test_the_second_try_of_a_reply_may_succeed(holding):
    ends = holding.reply("caller")
    holding.outcome(p.Released()).advance(0.3).outcome(p.Accepted())
    assert ends == [None]


@pytest.mark.parametrize(
    "state",
    [p.Modified(delivery_failed=True), p.Rejected(error=p.Error(condition="amqp:not-allowed"))],
)
def test_a_reply_that_may_have_arrived_or_is_refused_is_not_tried_again(holding, state):
    ends = holding.reply("caller")
    holding.outcome(state).advance(20)
    assert (len(holding.sent()), len(ends)) == (1, 1)


def test_a_reply_without_outcome_ends_at_its_deadline(holding):
    ends = holding.reply("caller", timeout=4)
    holding.advance(3.9)
    assert ends == []
    holding.advance(0.4)
    assert [str(error) for error in ends] == [
        "timed out waiting for acknowledgement (host=host0:5672, address=caller, "
        "message-id=their-id)"
    ]
    holding.outcome(p.Released())
    assert len(holding.advance(10).sent()) == 1


def test_a_heartbeat_is_sent_settled_and_forgotten(holding):
    assert holding.reply("caller", kind=Kind.HEARTBEAT) == [None]
    transfer = holding.peer.transfers[0]
    assert (transfer.settled, transfer.address, transfer.body) == (True, "caller", None)


def test_replies_share_the_anonymous_link_where_the_bus_has_one(holding):
    for number in range(3):
        holding.reply(f"caller{number}")
    assert [attach.target.address for attach in holding.attaches("sender")] == [None]
    assert [address for address, _ in holding.sent()] == ["caller0", "caller1", "caller2"]


def test_replies_have_a_link_each_where_it_has_none(path):
    world = World(path, peer={"offered_capabilities": ()}).start()
    for number in (0, 1, 0):
        world.reply(f"caller{number}")
    assert [a.target.address for a in world.attaches("sender")] == ["caller0", "caller1"]


# -- in doubt -------------------------------------------------------------------------------------


@pytest.mark.parametrize("retry", [None, 0, 3])
def test_what_was_sent_when_the_connection_went_is_in_doubt_and_is_never_resent(holding, retry):
    op = holding.cast(retry=retry)
    holding.drop()
    assert isinstance(op.future.error, exceptions.InDoubt)
    assert str(op.future.error) == (
        "delivery in doubt: connection or link lost before the outcome (reset by peer) "
        "(host=host0:5672, address=unicast.ex.topic, message-id=m1)"
    )
    assert holding.advance(30).state == "ready"
    assert len(holding.sent()) == 1


def test_a_reply_in_doubt_is_not_resent_either(holding):
    ends = holding.reply("caller")
    holding.drop().advance(30)
    assert [type(error) for error in ends] == [exceptions.InDoubt]
    assert len(holding.sent()) == 1


def test_calls_that_wait_for_their_reply_are_in_doubt_when_its_address_is_gone(holding):
    accepted, sent = holding.call(), holding.call()
    holding.outcome(p.Accepted(), 0)
    assert (accepted.stage, sent.stage) == (Stage.ACCEPTED, Stage.SENT)
    holding.drop()
    for op in (accepted, sent):
        assert isinstance(op.future.error, exceptions.InDoubt)
    assert str(accepted.future.error).startswith(
        "the reply address was lost while the call was waiting for its reply (reset by peer)"
    )


def test_what_was_not_sent_stays_and_is_encoded_for_the_next_connection(path):
    world = World(path).start()
    world.peer.override(2).expect_attach(role="sender").respond(credit=0)
    call, cast = world.call(), world.cast("other")
    assert (call.generation, world.context.reply_address) == (1, "peer/dynamic/1")
    world.drop().advance(5)
    assert world.context.reply_address == "peer/dynamic/2"
    assert [(t.address, t.message.properties.reply_to) for t in world.peer.transfers] == [
        (ANY, "peer/dynamic/2"),
        ("unicast.ex.other", None),
    ]
    assert (call.generation, cast.future.done) == (2, True)
    world.answer(call)
    assert call.future.value.body == b"answer"


def test_it_goes_to_the_addresses_of_the_next_bus(path):
    world = World(path, peer={"product": "qpid-cpp"}).start()
    world.no_credit()
    op = world.call()
    assert op.address == ANY
    world.peer.script.rules.clear()
    world.peer.script.defaults.product = "qpid-dispatch-router"
    world.drop().advance(5)
    assert world.sent() == [("openstack.org/om/rpc/anycast/ex/topic", "body")]
    assert op.address == "openstack.org/om/rpc/anycast/ex/topic"


def test_what_was_asked_for_without_a_connection_goes_out_when_there_is_one(path):
    world = World(path)
    world.modes["host0:5672"] = "silent"
    world.start()
    call, cast = world.call(), world.cast()
    assert (call.generation, call.stage) == (-1, Stage.QUEUED)
    world.modes.clear()
    world.run()
    assert [body for _, body in world.sent()] == ["body", "body"]
    assert (call.stage, cast.future.done) == (Stage.ACCEPTED, True)


def test_the_outcomes_that_came_before_the_connection_went_count(path):
    world = World(path, abrupt=True).start()
    world.peer.override().expect_transfer().accept().finish()
    op = world.cast()
    assert (op.future.done, op.future.error) == (True, None)


def test_a_link_detached_with_messages_unsettled_leaves_them_in_doubt(holding):
    op, other = holding.cast(), holding.cast("other")
    holding.peer.remote_detach(ANY, "amqp:resource-deleted", "gone")
    holding.run()
    assert isinstance(op.future.error, exceptions.InDoubt)
    assert "amqp:resource-deleted" in str(op.future.error)
    assert not other.future.done
    holding.advance(20)
    assert len(holding.sent()) == 2


def test_a_cancelled_message_is_settled_and_its_late_outcome_ignored(holding):
    op, other = holding.cast(), holding.cast()
    holding.connection.cancel(op)
    holding.run()
    assert isinstance(op.future.error, exceptions.DeadlineExpired)
    assert holding.peer.transfers[0].settled
    holding.outcome(p.Released(), 0).outcome(p.Accepted(), 1)
    assert (other.future.done, other.future.error) == (True, None)


def test_a_call_can_be_cancelled_while_it_waits_for_its_reply(holding):
    op = holding.call()
    holding.outcome(p.Accepted())
    holding.connection.cancel(op)
    assert str(op.future.error).startswith("timed out waiting for reply (")
    holding.answer(op)
    assert op.future.value is None


def test_cancelling_what_has_ended_changes_nothing(holding):
    op = holding.cast()
    holding.outcome(p.Accepted())
    holding.connection.cancel(op)
    holding.connection.send(op)
    holding.run()
    assert (op.future.error, len(holding.sent())) == (None, 1)


def test_outcome_has_no_other_members():
    assert {outcome.value for outcome in Outcome} == {
        "accepted",
        "rejected",
        "released",
        "modified",
        "undeliverable",
        "in-doubt",
    }
