# SPDX-License-Identifier: Apache-2.0

"""Link credit (2.6.7): what we grant, and what we do without."""

import logging

import pytest

from amqp1_driver.connection.operation import Stage
from amqp1_driver.testing import performatives as p

from .world import World

ANY = "unicast.ex.topic"


def grants(world, link):
    """The link-credit of each flow that we sent on a link."""
    return [
        entry.performative.link_credit
        for entry in world.peer.frames(p.Flow)
        if entry.performative.handle == link.attach.handle
        and entry.channel == link.session.their_channel
    ]


def warnings(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and "blocked" in record.getMessage()
    ]


# -- receiving -------------------------------------------------------------------------------


def test_the_reply_link_has_a_credit_of_200(world):
    link = world.link("peer/dynamic/1")
    assert link.credit == 200
    assert grants(world, link) == [200]


def test_a_server_link_has_the_credit_of_its_subscription(world):
    world.listen(credit=100)
    for address in ("exclusive.ex.topic.server", ANY, "broadcast.ex.topic.all"):
        assert world.link(address).credit == 100


def test_server_credit_is_topped_up_when_messages_are_settled_not_when_they_come(world):
    listener = world.listen(credit=100)
    link = world.link(ANY)
    for number in range(60):
        world.arrive(ANY, str(number))
    assert link.credit == 40
    for delivery in listener.deliveries[:50]:
        world.settle(delivery)
    assert link.credit == 40  # 40 with the peer, 10 unsettled: half of 100, not below
    assert grants(world, link) == [100]
    world.settle(listener.deliveries[50])
    assert link.credit == 91  # the level was 49: all up to 100 but the 9 unsettled
    assert grants(world, link) == [100, 91]


def test_credit_used_up_is_a_stall_which_is_counted_and_ends_with_the_first_settlement(
    world, caplog
):
    caplog.set_level(logging.DEBUG)
    listener = world.listen(credit=4)
    link = world.link(ANY)
    for number in range(4):
        world.arrive(ANY, str(number))
    assert (link.credit, listener.subscription.stalls) == (0, 1)
    assert "Credit stall 1 on unicast.ex.topic at host0:5672: all 4 credits" in caplog.text
    for delivery in listener.deliveries[:2]:
        world.settle(delivery)
    assert link.credit == 0
    world.settle(listener.deliveries[2])
    assert link.credit == 3


def test_stalls_are_counted_across_connections(world):
    listener = world.listen(credit=1)
    world.arrive(ANY)
    world.drop().advance(5)
    assert (world.state, listener.subscription.stalls) == ("ready", 1)
    world.arrive(ANY)
    assert listener.subscription.stalls == 2


def test_reply_credit_is_topped_up_below_half_as_replies_are_handed_over(path):
    world = World(path, reply_link_credit=4).start()
    link = world.link("peer/dynamic/1")
    for expected in (3, 2, 4, 3, 2, 4):
        world.answer(world.call())
        assert link.credit == expected
    assert grants(world, link) == [4, 4, 4]


def test_the_level_never_exceeds_the_limit(world):
    listener = world.listen(credit=10)
    link = world.link(ANY)
    for number in range(40):
        while link.credit and number % 3:
            world.arrive(ANY)
        unsettled = [d for d in listener.deliveries if d.outcome is None]
        assert link.credit + len(unsettled) <= 10
        if unsettled:
            world.settle(unsettled[0], None)
            listener.deliveries.remove(unsettled[0])


def test_a_settled_delivery_makes_room_only_when_the_application_is_done_with_it(world):
    listener = world.listen(credit=2)
    link = world.link(ANY)
    world.arrive(ANY, settled=True).arrive(ANY, settled=True)
    assert link.credit == 0
    world.settle(listener.deliveries[0])
    world.settle(listener.deliveries[1])
    assert link.credit == 2


def test_aborted_deliveries_do_not_eat_up_the_credit(world):
    listener = world.listen(credit=10)
    link = world.link(ANY)
    for _ in range(30):
        assert link.credit > 0
        _abort(world, link)
    world.arrive(ANY, "whole")
    assert listener.bodies == [b"whole"]
    assert link.credit + 1 <= 10


def _abort(world, link):
    """The first half of a delivery, then its abortion (2.7.5)."""
    session = link.session
    number, session.next_delivery_id = session.next_delivery_id, session.next_delivery_id + 1
    send = session.core.send
    send(
        p.Transfer(
            handle=link.handle,
            delivery_id=number,
            delivery_tag=b"x%d" % number,
            message_format=0,
            more=True,
        ),
        session.our_channel,
        b"\x00\x53\x77",
    )
    send(p.Transfer(handle=link.handle, aborted=True), session.our_channel)
    session.next_outgoing_id += 2
    link.credit -= 1
    link.delivery_count += 1
    world.run()


# -- sending ---------------------------------------------------------------------------------


@pytest.mark.parametrize("settled", [False, True], ids=["unsettled", "pre-settled"])
def test_without_credit_a_message_stays_with_its_caller_until_its_deadline(path, settled):
    world = World(path).start()
    world.no_credit(ANY)
    op = world.cast(timeout=3, settled=settled)
    world.advance(2.9)
    assert (op.stage, op.future.done, world.sent()) == (Stage.QUEUED, False, [])
    world.advance(0.4)  # the deadline, and a turn of the sweep
    assert str(op.future.error) == (
        "timed out waiting for connection or credit (host=host0:5672, address=unicast.ex.topic, "
        "message-id=m1)"
    )
    world.grant(10, ANY)
    assert world.sent() == []


@pytest.mark.parametrize("settled", [False, True], ids=["unsettled", "pre-settled"])
def test_it_goes_out_in_order_when_credit_comes(path, settled):
    world = World(path).start()
    world.no_credit(ANY)
    ops = [world.cast(body=b"%d" % number, settled=settled) for number in range(5)]
    world.advance(20)
    world.grant(2, ANY)
    assert world.sent() == [(ANY, "0"), (ANY, "1")]
    assert [op.future.done for op in ops] == [True, True, False, False, False]
    last = world.cast(body=b"5", settled=settled)
    assert len(world.sent()) == 2  # not before those that wait
    world.grant(10, ANY)
    assert [body for _, body in world.sent()] == ["0", "1", "2", "3", "4", "5"]
    assert last.future.done


def test_another_address_is_not_held_up(path):
    world = World(path).start()
    world.no_credit(ANY)
    blocked = world.cast()
    other = world.cast("other")
    assert (blocked.future.done, other.future.done) == (False, True)
    assert world.sent() == [("unicast.ex.other", "body")]


def test_the_warning_names_address_and_time_and_is_repeated(path, caplog):
    world = World(path, blocked_warning_interval=10).start()
    world.no_credit(ANY)
    world.cast(timeout=60)
    world.advance(9)
    assert warnings(caplog) == []
    world.cast(timeout=60)
    world.advance(1.5)
    assert warnings(caplog) == [
        "2 message(s) to unicast.ex.topic on host0:5672 blocked since 10.0 s: "
        "the peer grants no credit"
    ]
    world.advance(10)
    assert [text.split(" s:")[0].split("since ")[1] for text in warnings(caplog)] == [
        "10.0",
        "20.0",
    ]


def test_the_warning_comes_in_time_after_a_quiet_time_too(path, caplog):
    world = World(path, blocked_warning_interval=10).start()
    assert world.cast().future.done
    world.advance(5)  # nothing is under way: the sweep has slowed down
    world.grant(0, ANY)
    op = world.cast(timeout=60)
    assert not op.future.done
    world.advance(10.5)
    assert len(warnings(caplog)) == 1


def test_a_reply_that_nobody_waits_for_ends_at_its_deadline_after_a_quiet_time_too(path):
    world = World(path, peer={"offered_capabilities": ()}).start()
    assert world.reply("caller") == [None]
    world.advance(5)
    world.grant(0, "caller")
    ends = world.reply("caller", timeout=3)
    world.advance(2.9)
    assert ends == []
    world.advance(0.4)
    assert [type(error).__name__ for error in ends] == ["DeadlineExpired"]


def test_that_sending_goes_on_is_told_once_if_it_was_warned_of(path, caplog):
    caplog.set_level(logging.INFO)
    world = World(path, blocked_warning_interval=10).start()
    world.no_credit(ANY)
    world.cast(timeout=60)
    world.advance(12)
    world.grant(100, ANY)
    assert "Sending to unicast.ex.topic on host0:5672 goes on: blocked for 12.0 s" in caplog.text
    caplog.clear()
    world.grant(0, ANY)
    world.cast(timeout=60)
    world.advance(1)
    world.grant(1, ANY)
    assert "goes on" not in caplog.text


def block(world, seconds):
    """No credit for so long, while one message waits."""
    world.grant(0, ANY)
    op = world.cast(timeout=60)
    assert not op.future.done
    world.advance(seconds)
    world.grant(1, ANY)
    assert op.future.done


def test_a_short_blockade_is_told_as_it_begins_and_ends_and_at_most_once_in_an_interval(
    path, caplog
):
    caplog.set_level(logging.INFO)
    world = World(path, blocked_warning_interval=10).start()
    assert world.cast().future.done
    block(world, 0.9)
    assert "waits since" not in caplog.text
    block(world, 3)
    said = [r.getMessage() for r in caplog.records if "Sending to" in r.getMessage()]
    assert [r.levelno for r in caplog.records if "Sending to" in r.getMessage()] == [
        logging.INFO
    ] * 2
    assert said[0].startswith("Sending to unicast.ex.topic on host0:5672 waits since 1.")
    assert said[0].endswith(" s: the peer grants no credit")
    assert said[1].startswith("Sending to unicast.ex.topic on host0:5672 goes on: blocked for 3.0")
    for _ in range(3):
        block(world, 2)
    assert len([r for r in caplog.records if "Sending to" in r.getMessage()]) == 2
    world.advance(10)
    block(world, 2)
    assert len([r for r in caplog.records if "Sending to" in r.getMessage()]) == 4


def test_that_all_have_given_up_is_not_told_as_going_on(path, caplog):
    caplog.set_level(logging.INFO)
    world = World(path, blocked_warning_interval=1).start()
    world.no_credit(ANY)
    op = world.cast(timeout=3)
    world.advance(2)
    assert "blocked since" in caplog.text
    world.connection.cancel(op)
    world.advance(5)
    assert "goes on" not in caplog.text


def test_the_blockade_is_over_when_those_who_waited_have_given_up(path, caplog):
    world = World(path, blocked_warning_interval=10).start()
    world.no_credit(ANY)
    op = world.cast(timeout=60)
    world.advance(4)
    world.connection.cancel(op)
    world.advance(1)
    world.cast(timeout=60)
    world.advance(9)
    assert warnings(caplog) == []
    world.advance(1.5)
    assert len(warnings(caplog)) == 1


def test_the_session_s_window_holds_messages_back_too(world):
    world.peer.override().expect_attach(role="sender").call(
        lambda event: event.session.core.flow(event.session, incoming_window=0)
    ).respond(credit=10)
    op = world.cast()
    assert (world.sent(), op.future.done) == ([], False)
    world.peer.flow(ANY, incoming_window=100)
    world.run()
    assert (world.sent(), op.future.done) == ([(ANY, "body")], True)
