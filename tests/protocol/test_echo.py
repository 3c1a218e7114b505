# SPDX-License-Identifier: Apache-2.0
"""A peer that asks for an echo hears how link or session stands (AMQP 1.0, 2.7.4)."""

import gc
import weakref

import pytest

from amqp1_driver.testing import performatives as p

from .world import World

ANY = "unicast.ex.topic"


def ask(world, link, **fields):
    """The peer asks; its question says how the link stands at its end."""
    fields.setdefault("echo", True)
    link.session.core.flow(link.session, link, **fields)
    world.run()


def answers(world, before):
    """What has come since: (handle, delivery-count, link-credit, drain, echo), and the session's
    (next-incoming-id, next-outgoing-id)."""
    return [
        (
            (
                flow.handle,
                flow.delivery_count,
                flow.link_credit,
                flow.drain or False,
                flow.echo or False,
            ),
            (flow.next_incoming_id, flow.next_outgoing_id),
        )
        for entry in world.peer.frames(p.Flow)[before:]
        if (flow := entry.performative)
    ]


def said(world):
    return len(world.peer.frames(p.Flow))


def test_a_sender_says_what_it_has_sent_and_how_much_more_it_may(world):
    for _ in range(3):
        world.cast()
    link = world.link(ANY)
    before = said(world)
    ask(world, link, delivery_count=3, link_credit=50)
    ((state, (_, outgoing)),) = answers(world, before)
    assert state == (link.attach.handle, 3, 50, False, False)
    assert outgoing == link.session.next_incoming_id
    # and goes on
    op = world.cast()
    assert (op.future.done, op.future.error) == (True, None)
    ask(world, link, delivery_count=4, link_credit=50)
    assert [state for state, _ in answers(world, before + 1)] == [
        (link.attach.handle, 4, 50, False, False)
    ]


def test_what_was_given_back_counts_as_sent(world):
    world.cast()
    link = world.link(ANY)
    link.session.core.flow(link.session, link, delivery_count=1, link_credit=20, drain=True)
    world.run()
    before = said(world)
    ask(world, link, delivery_count=21, link_credit=5)
    assert [state for state, _ in answers(world, before)] == [
        (link.attach.handle, 21, 5, False, False)
    ]


def test_what_waits_for_room_does_not_count_as_sent(world):
    world.cast()
    link = world.link(ANY)
    before = said(world)
    ask(world, link, delivery_count=1, link_credit=9, incoming_window=0)
    world.cast()
    ask(world, link, delivery_count=1, link_credit=9, incoming_window=0)
    assert [state for state, _ in answers(world, before)] == [
        (link.attach.handle, 1, 9, False, False)
    ] * 2


def test_who_does_not_ask_hears_nothing(world):
    world.cast()
    before = said(world)
    ask(world, world.link(ANY), delivery_count=1, link_credit=50, echo=False)
    assert answers(world, before) == []


def test_a_receiver_says_what_has_come_and_how_much_more_may(world):
    listener = world.listen(credit=10)
    link = world.link(ANY)
    before = said(world)
    ask(world, link)
    ((state, _),) = answers(world, before)
    assert state == (link.attach.handle, link.delivery_count, link.credit, False, False)
    assert not listener.subscription.paused


def test_a_question_about_a_session_is_answered_about_the_session(world):
    world.cast()
    session = world.link(ANY).session
    before = said(world)
    session.core.flow(session, None, echo=True)
    world.run()
    found = answers(world, before)
    assert {state for state, _ in found} == {(None, None, None, False, False)}
    assert session.next_incoming_id in [outgoing for _, (_, outgoing) in found]


@pytest.mark.parametrize("end", ["detach", "end"])
def test_no_answer_follows_the_end_of_a_link_or_of_its_session(world, end):
    world.cast()
    link = world.link(ANY)
    before = said(world)
    link.session.core.flow(link.session, link, delivery_count=1, link_credit=50, echo=True)
    if end == "detach":
        link.session.core.send(p.Detach(handle=link.handle, closed=True), link.session.our_channel)
    else:
        link.session.core.send(p.End(), link.session.our_channel)
    world.run()
    assert answers(world, before) == []


def test_a_question_that_comes_byte_by_byte_is_answered_once(world):
    world.cast()
    link = world.link(ANY)
    before = said(world)
    world.piecewise = True
    ask(world, link, delivery_count=1, link_credit=50)
    assert [state for state, _ in answers(world, before)] == [
        (link.attach.handle, 1, 50, False, False)
    ]


def test_a_bounded_session_goes_on_to_give_its_window(path):
    world = World(path, session_window=3, max_frame_size=16512).start()
    listener = world.listen(credit=100)
    world.cast()
    link = world.link(ANY)
    ask(world, link, delivery_count=link.delivery_count, link_credit=50)
    flow = world.peer.frames(p.Flow)[-1].performative
    assert flow.incoming_window == 3
    assert not listener.errors


def test_who_does_not_read_gets_no_answers_without_end(world):
    world.cast()
    link = world.link(ANY)
    for _ in range(5000):
        link.session.core.flow(link.session, link, delivery_count=1, link_credit=50, echo=True)
        world.connection.data_received(world.core.take_output())
        world.connection.process()
    before = said(world)
    world.run()
    # 65,536 bytes of 39 each, and the one that was too much
    assert 1000 < len(answers(world, before)) < 1700


def test_what_the_peer_has_begun_is_no_reason_to_keep_a_connection(world):
    """The sessions of a peer that begins some are let go with the connection."""
    core = world.core
    core.send(p.Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10), 77)
    world.run()
    core.send(p.Flow(incoming_window=10, next_outgoing_id=0, outgoing_window=10, echo=True), 77)
    world.run()
    kept = weakref.ref(world.connection.engine._connection)
    world.close()
    gc.collect()
    assert kept() is None
