# SPDX-License-Identifier: Apache-2.0

"""Links (2.6): refused, detached, attached again, purged, stopped."""

import itertools
import logging

import pytest

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Service
from amqp1_driver.connection.operation import Stage
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.testing import performatives as p

from .world import World

ANY = "unicast.ex.topic"


def names(world):
    return [attach.name for attach in world.attaches()]


def detach(world, address, condition="amqp:link:detach-forced", description=None, **kw):
    world.peer.remote_detach(address, condition, description, **kw)
    return world.run()


# -- senders ----------------------------------------------------------------------------------


def test_one_link_serves_all_messages_to_an_address(world):
    for _ in range(3):
        world.cast()
    assert [a.target.address for a in world.attaches("sender")] == [ANY]


def test_with_retry_0_a_refusal_fails_at_once(world):
    world.peer.override().expect_attach(address=ANY).refuse("amqp:not-found", "no such queue")
    op = world.cast(retry=0)
    assert isinstance(op.future.error, exceptions.LinkFailed)
    error = op.future.error
    assert (error.host, error.address, error.condition, error.description) == (
        "host0:5672",
        ANY,
        "amqp:not-found",
        "no such queue",
    )


@pytest.mark.parametrize("retry", [1, 2])
def test_with_retry_n_it_is_tried_n_times_more(world, retry):
    world.peer.override(None).expect_attach(address=ANY).refuse("amqp:not-found")
    op = world.cast(retry=retry, timeout=1000)
    world.advance(100)
    assert isinstance(op.future.error, exceptions.LinkFailed)
    assert len(world.attaches("sender")) == 1 + retry


def test_without_a_limit_it_is_tried_until_the_deadline(world):
    world.peer.override(None).expect_attach(address=ANY).refuse("amqp:not-found")
    op = world.cast(retry=None, timeout=30)
    world.advance(29)
    assert (op.future.done, op.stage) == (False, Stage.QUEUED)
    world.advance(1.3)
    assert isinstance(op.future.error, exceptions.DeadlineExpired)


def test_it_goes_out_once_the_link_is_there(world):
    world.peer.override(2).expect_attach(address=ANY).refuse("amqp:not-found")
    op = world.cast()
    world.advance(0.4)
    assert (op.future.done, op.future.error, world.sent()) == (True, None, [(ANY, "body")])


def test_an_error_that_repetition_does_not_cure_fails_at_once(world):
    world.peer.override(None).expect_attach(address=ANY).refuse("amqp:not-allowed", "read only")
    op = world.cast(retry=None)
    assert op.future.error.condition == "amqp:not-allowed"
    assert len(world.advance(30).attaches("sender")) == 1


def test_the_waits_between_attempts_grow_up_to_the_option(path):
    world = World(path, link_retry_delay=2.0).start()
    world.peer.override(None).expect_attach(address=ANY).refuse("amqp:not-found")
    world.cast(timeout=1000)
    times, count = [], 0
    while len(times) < 9:
        world.advance(0.01)
        if len(world.attaches("sender")) > count:
            count = len(world.attaches("sender"))
            times.append(world.clock())
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    bounds = [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert all(
        0.5 * bound <= gap + 0.011 and gap <= bound + 0.02
        for gap, bound in zip(gaps, bounds, strict=True)
    ), gaps


def test_they_begin_anew_after_a_success(world):
    world.peer.override(5).expect_attach(address=ANY).refuse("amqp:not-found")
    world.cast(timeout=100)
    world.advance(20)
    assert len(world.sent()) == 1
    world.hold()
    detach(world, ANY)
    op = world.cast()
    world.advance(0.11)
    assert op.stage is Stage.SENT


def test_link_names_are_never_used_again(world):
    world.listen()
    for address in (ANY, "broadcast.ex.topic.all"):
        for _ in range(3):
            detach(world, address)
            world.cast()
            world.advance(3)
    detach(world, "peer/dynamic/1")
    world.advance(3)
    seen = names(world)
    assert len(seen) == len(set(seen)) > 8


def test_a_sender_whose_link_was_detached_when_idle_serves_the_next_message(world):
    world.cast()
    detach(world, ANY)
    world.advance(60)  # nobody wants to send: it is not attached again
    assert len(world.attaches("sender")) == 1
    op = world.cast()
    assert (op.future.done, op.future.error, len(world.sent())) == (True, None, 2)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "not closed"])
def test_a_detached_link_is_attached_again_for_those_who_wait(world, closed):
    world.no_credit(ANY)
    op = world.cast()
    detach(world, ANY, closed=closed)
    world.peer.script.rules.clear()
    world.advance(0.2)
    assert (op.future.done, op.future.error) == (True, None)
    assert len(world.attaches("sender")) == 2


def test_every_detach_is_answered(world):
    world.cast()
    detach(world, ANY)
    assert [entry.performative.closed for entry in world.peer.frames(p.Detach)] == [True]


def test_detached_links_are_not_kept(world):
    engine = world.connection.engine._connection
    before = (len(engine.all_links), len(engine.links))
    for number in range(10):
        world.cast()
        detach(world, ANY, closed=number % 2 == 0)
        world.advance(5)
    assert (len(engine.all_links), len(engine.links)) == before
    assert [entry.performative.closed for entry in world.peer.frames(p.Detach)] == [True] * 10


def test_an_idle_sender_is_purged(path, caplog):
    caplog.set_level(logging.DEBUG)
    world = World(path, default_sender_link_timeout=600).start()
    world.cast()
    world.cast("other")
    world.advance(500)
    world.cast("other")
    assert world.peer.frames(p.Detach) == []
    world.advance(260)
    assert [link.address for link in world.peer.links if link.client_sends] == ["unicast.ex.other"]
    assert "Sender link to unicast.ex.topic on host0:5672 is idle and detached" in caplog.text
    world.advance(650)
    assert [link for link in world.peer.links if link.client_sends] == []
    assert world.connection._live.router._routes == {}
    assert world.cast().future.done
    assert len(set(names(world))) == len(names(world))


def test_a_sender_with_messages_is_not_purged(path):
    world = World(path, default_sender_link_timeout=10).start()
    world.no_credit(ANY)
    world.cast(timeout=300)
    world.advance(200)
    assert world.peer.frames(p.Detach) == []


def test_when_all_are_purged_no_timer_is_left(path):
    world = World(path, default_sender_link_timeout=10).start()
    world.cast()
    world.advance(30)
    assert world.port.timers.live == set()


def test_a_purged_link_whose_attach_was_not_answered_is_closed_cleanly(path):
    world = World(path, default_sender_link_timeout=10).start()
    world.peer.override().expect_attach(address=ANY)  # no answer
    op = world.cast()
    world.connection.cancel(op)
    world.advance(15)
    assert len(world.peer.frames(p.Detach)) == 1
    assert world.cast().future.done


# -- sessions -----------------------------------------------------------------------------------


def test_senders_receivers_and_replies_have_a_session_each(world):
    world.cast()
    world.cast("other")
    world.listen()
    assert len(world.peer.frames(p.Begin)) == 3


def test_when_the_peer_ends_a_session_all_its_links_are_told(world):
    world.hold()
    ops = [world.cast(), world.cast("other")]
    world.peer.end_session(world.link(ANY).session.their_channel, "amqp:session:errant-link", "x")
    world.run()
    for op in ops:
        assert isinstance(op.future.error, exceptions.InDoubt)
        assert "amqp:session:errant-link" in str(op.future.error)
    assert len(world.peer.frames(p.End)) == 1  # answered (2.5.5)


@pytest.mark.parametrize("condition", ["amqp:not-found", None])
def test_a_new_session_is_made_for_what_is_sent_next(world, condition):
    world.cast()
    before = world.link(ANY).session
    world.peer.end_session(before.their_channel, condition)
    world.run().advance(3)
    assert world.state == "ready"
    op = world.cast()
    assert (op.future.done, op.future.error) == (True, None)
    assert world.link(ANY).session is not before
    assert len(world.peer.script.cores) == 1


def test_subscriptions_come_back_when_their_session_is_ended(world):
    listener = world.listen()
    world.peer.end_session(world.link(ANY).session.their_channel, "amqp:internal-error")
    world.run().advance(0.2)
    assert listener.ready == 2
    world.arrive(ANY)
    assert listener.bodies == [b"hello"]
    assert world.link(ANY).session is world.link("broadcast.ex.topic.all").session


def test_the_reply_address_comes_back_when_its_session_is_ended(world):
    call = world.call()
    world.peer.end_session(world.link("peer/dynamic/1").session.their_channel)
    world.run().advance(0.2)
    assert isinstance(call.future.error, exceptions.InDoubt)
    assert (world.state, world.context.reply_address) == ("ready", "peer/dynamic/2")


def test_a_session_ended_before_its_links_were_attached(world):
    world.peer.override().expect_attach(address=ANY).end_session("amqp:not-found", "no queue")
    op = world.cast()
    world.advance(0.2)
    assert (op.future.done, op.future.error) == (True, None)


def test_sessions_can_be_ended_again_and_again(world):
    for number in range(20):
        assert world.cast().future.error is None, number
        world.peer.end_session(world.link(ANY).session.their_channel, "amqp:not-found")
        world.run().advance(20)
    assert world.state == "ready"


def test_senders_share_a_session_up_to_200_links(world):
    for number in range(450):
        assert world.cast(f"t{number}").future.done
    counts = [len(session.links) for session in world.core.sessions.values()]
    assert counts == [1, 200, 200, 50]  # the first is for replies


# -- receivers ----------------------------------------------------------------------------------


def test_an_rpc_server_reads_three_addresses_a_notification_listener_one(world):
    listener = world.listen()
    assert [a.source.address for a in world.attaches("receiver")[1:]] == [
        "exclusive.ex.topic.server",
        ANY,
        "broadcast.ex.topic.all",
    ]
    assert listener.ready == 1
    world.listen("events.info", None, service=Service.NOTIFY)
    assert world.attaches("receiver")[-1].source.address == "unicast.ex.events.info"


def test_it_is_ready_when_all_links_are_attached(world):
    world.peer.override().expect_attach(address="broadcast.ex.topic.all").refuse("amqp:not-found")
    listener = world.listen()
    assert (listener.ready, listener.subscription.last_error.condition) == (0, "amqp:not-found")
    world.advance(0.2)
    assert (listener.ready, listener.subscription.last_error) == (1, None)


def test_a_detached_receiver_is_attached_again_with_full_credit(world):
    listener = world.listen(credit=10)
    for _ in range(3):
        world.arrive(ANY)
    assert world.link(ANY).credit == 7
    detach(world, ANY, "amqp:resource-deleted")
    world.advance(0.2)
    assert (listener.ready, world.link(ANY).credit) == (2, 10)


def test_what_an_old_link_brought_is_never_settled_over_a_new_one(world, caplog):
    caplog.set_level(logging.DEBUG)
    listener = world.listen(credit=10)
    world.arrive(ANY, "old")
    detach(world, ANY)
    world.advance(0.2)
    world.arrive(ANY, "new")
    old, new = listener.deliveries
    world.settle(old)
    assert [sent.state for sent in world.peer.sent] == [None, None]
    assert world.link(ANY).credit == 9
    assert "A message from unicast.ex.topic can't be settled accepted any more" in caplog.text
    world.settle(new)
    assert [sent.state for sent in world.peer.sent] == [None, p.Accepted()]


def test_nor_over_a_new_connection(world):
    listener = world.listen(credit=10)
    world.arrive(ANY, "old")
    world.drop().advance(5)
    world.arrive(ANY, "new")
    world.settle(listener.deliveries[0], Outcome.RELEASED)
    assert [sent.state for sent in world.peer.sent] == [None, None]
    world.settle(listener.deliveries[1])
    assert world.peer.sent[1].state == p.Accepted()


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (None, p.Accepted()),
        (Outcome.ACCEPTED, p.Accepted()),
        (Outcome.REJECTED, p.Rejected()),
        (Outcome.RELEASED, p.Released()),
        (Outcome.MODIFIED, p.Modified(delivery_failed=True)),
    ],
)
def test_each_outcome_that_an_application_may_give(world, outcome, state):
    listener = world.listen()
    world.arrive(ANY)
    world.settle(listener.deliveries[0], outcome)
    assert type(world.peer.sent[0].state) is type(state)
    assert getattr(world.peer.sent[0].state, "delivery_failed", None) == getattr(
        state, "delivery_failed", None
    )
    assert world.peer.sent[0].settled


def test_settling_twice_counts_once(world):
    listener = world.listen(credit=4)
    world.arrive(ANY).arrive(ANY)
    world.settle(listener.deliveries[0])
    world.settle(listener.deliveries[0], Outcome.RELEASED)
    assert len(world.peer.frames(p.Disposition)) == 1
    assert world.peer.sent[0].state == p.Accepted()
    unsettled = 1
    assert world.link(ANY).credit + unsettled <= 4


@pytest.mark.parametrize("settled", [False, True], ids=["unsettled", "settled"])
def test_settling_twice_gives_no_credit_for_work_that_is_not_done(world, settled):
    listener = world.listen(credit=4)
    for _ in range(3):
        world.arrive(ANY, settled=settled)
    for _ in range(3):
        world.settle(listener.deliveries[0])
    assert world.link(ANY).credit == 1
    world.settle(listener.deliveries[1])
    assert world.link(ANY).credit == 1
    world.settle(listener.deliveries[2])
    assert world.link(ANY).credit == 4


def test_stop_drains_hands_over_what_is_on_its_way_and_releases_what_comes_later(world):
    listener = world.listen(credit=10)
    world.arrive(ANY, "before")
    link = world.link(ANY)
    # no answer: the peer is still sending
    world.peer.override(None).expect_flow(drain=True).call(lambda event: None)
    told = []
    world.connection.stop_subscription(listener.subscription, told.append)
    world.run()
    assert [entry.performative.drain for entry in world.peer.frames(p.Flow)][-3:] == [True] * 3
    world.arrive(ANY, "on its way", link=link)
    assert told == []
    world.advance(2)
    assert told == [False]
    world.arrive(ANY, "late", link=link)
    assert listener.bodies == [b"before", b"on its way"]
    assert [sent.state for sent in world.peer.sent] == [None, None, p.Released()]
    world.settle(listener.deliveries[0])
    assert world.peer.sent[0].state == p.Accepted()
    assert link.credit <= 8  # nothing was granted


def test_a_stopped_subscription_is_not_attached_again(world):
    listener = world.listen()
    world.connection.stop_subscription(listener.subscription)
    world.run()
    detach(world, ANY)
    world.advance(30)
    assert len(world.attaches("receiver")) == 4
    world.drop().advance(5)
    assert (world.state, len(world.attaches("receiver"))) == ("ready", 5)


def test_stopped_while_it_is_being_attached_gets_no_credit(world):
    world.peer.override().expect_attach(address=ANY)
    listener = world.listen()
    world.connection.stop_subscription(listener.subscription)
    attach = next(
        e.performative for e in world.peer.frames(p.Attach) if e.performative.source.address == ANY
    )
    session = world.link("broadcast.ex.topic.all").session
    link = session.links[attach.handle]
    link.attached = True
    session.core.send(
        p.Attach(
            name=attach.name,
            handle=link.handle,
            role=False,
            source=attach.source,
            target=attach.target,
            initial_delivery_count=0,
        ),
        session.our_channel,
    )
    world.run()
    assert link.credit == 0


def test_unsubscribing_detaches_and_is_for_good(world):
    listener = world.listen()
    world.connection.unsubscribe(listener.subscription)
    world.run()
    assert len(world.peer.frames(p.Detach)) == 3
    world.connection.unsubscribe(listener.subscription)
    world.run()
    world.drop().advance(5)
    assert len(world.attaches("receiver")) == 5
    assert len(world.peer.frames(p.Detach)) == 3


def test_unsubscribing_during_the_wait_for_the_next_attempt(world):
    world.peer.override(None).expect_attach(address=ANY).refuse("amqp:not-found")
    listener = world.listen()
    world.connection.unsubscribe(listener.subscription)
    world.run()
    assert world.port.timers.live == set()


def test_subscriptions_come_back_with_every_connection(world):
    listener = world.listen()
    for count in (2, 3, 4):
        world.drop().advance(10)
        assert (world.state, listener.ready) == ("ready", count)
        world.arrive(ANY, str(count))
    assert listener.bodies == [b"2", b"3", b"4"]


def test_two_listeners_on_one_topic_both_come_back(world):
    first, second = world.listen(), world.listen()
    world.drop().advance(10)
    assert (first.ready, second.ready) == (2, 2)
    addresses = [link.address for link in world.peer.links if not link.client_sends]
    assert addresses.count(ANY) == 2


def test_a_pool_on_a_bus_without_pools_is_refused_and_names_the_bus(world, caplog):
    listener = world.listen("events.info", None, service=Service.NOTIFY, pool="p")
    (error,) = listener.errors
    assert isinstance(error, exceptions.UnsupportedFeature)
    assert "scripted-peer 1.0" in str(error)
    assert "Can't listen on ['events.info']" in caplog.text


def test_a_listener_that_is_there_before_the_connection(path):
    world = World(path)
    world.modes["host0:5672"] = "silent"
    world.start()
    listener = world.listen()
    assert listener.ready == 0
    world.modes.clear()
    world.run()
    assert listener.ready == 1


@pytest.mark.parametrize(
    ("product", "early"), [("qpid-dispatch-router", True), ("qpid-cpp", False)]
)
def test_a_batch_is_accepted_early_only_where_the_bus_stores_nothing(path, product, early):
    """Else each sender would wait until the batch of its receiver is full."""
    world = World(path, peer={"product": product}).start()
    listener = world.listen("events.info", None, service=Service.NOTIFY, credit=4, batched=True)
    (link,) = [link for link in world.peer.links if "events" in str(link.address)]
    for _ in range(3):
        world.arrive("", link=link)
    assert [sent.state is not None for sent in world.peer.sent] == [early] * 3
    assert [delivery.settled for delivery in listener.deliveries] == [early] * 3
    assert link.credit == 1  # room is made by the application only
    for delivery in listener.deliveries:
        world.settle(delivery, Outcome.RELEASED)
    assert [type(sent.state) for sent in world.peer.sent] == [
        p.Accepted if early else p.Released
    ] * 3
    assert link.credit == 4


def test_each_listener_is_told_apart_by_the_links_that_the_bus_serves(world):
    """Two of the same names in one process: each has links of its own."""
    first, second = world.listen(), world.listen()
    links = [link for link in world.peer.links if link.address == ANY]
    world.arrive("", "1", link=links[0]).arrive("", "2", link=links[1])
    assert sorted(first.bodies + second.bodies) == [b"1", b"2"]
    assert len(first.deliveries) == len(second.deliveries) == 1
