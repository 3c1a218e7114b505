# SPDX-License-Identifier: Apache-2.0

"""A sender that is drained (AMQP 1.0, 2.6.7) uses up its credit and says so."""

from __future__ import annotations

import pytest

from amqp1_driver.testing import performatives as p

from .world import World, rabbitmq

ANY = "unicast.ex.topic"


def drain(world, link, credit, count):
    """The peer asks for its credit back."""
    link.credit = credit
    link.session.core.flow(link.session, link, delivery_count=count, link_credit=credit, drain=True)
    return world.run()


def flows(world, link):
    """(delivery-count, link-credit) of what we have said about a link."""
    return [
        (flow.delivery_count, flow.link_credit)
        for entry in world.peer.frames(p.Flow)
        if (flow := entry.performative).handle == link.attach.handle
        and entry.channel == link.session.their_channel
    ]


def test_a_sender_without_messages_gives_all_credit_back(world):
    world.cast()
    link = world.link(ANY)
    drain(world, link, 50, 1)
    assert flows(world, link) == [(51, 0)]


def test_a_sender_is_not_drained_twice(world):
    world.cast()
    link = world.link(ANY)
    drain(world, link, 50, 1)
    drain(world, link, 0, 51)
    assert flows(world, link) == [(51, 0)]


def test_what_waits_is_sent_first(world):
    world.no_credit()
    ops = [world.cast(), world.cast()]
    link = world.link(ANY)
    drain(world, link, 5, 0)
    assert [op.future.done for op in ops] == [True, True]
    assert flows(world, link) == [(5, 0)]


def test_what_needs_all_credit_leaves_none_to_give_back(world):
    world.no_credit()
    ops = [world.cast(), world.cast(), world.cast()]
    link = world.link(ANY)
    drain(world, link, 2, 0)
    assert [op.future.done for op in ops] == [True, True, False]
    assert flows(world, link) == []


def test_the_next_message_waits_for_credit_and_goes_when_there_is_some(world):
    world.cast()
    link = world.link(ANY)
    drain(world, link, 50, 1)
    op = world.cast()
    assert not op.future.done
    link.credit = 10
    link.session.core.flow(link.session, link, delivery_count=51, link_credit=10, drain=False)
    world.run()
    assert (op.future.done, op.future.error) == (True, None)
    assert len(world.peer.transfers) == 2
    assert flows(world, link) == [(51, 0)]


def test_where_the_window_is_closed_it_is_answered_once_all_is_sent(world):
    world.cast()
    link = world.link(ANY)
    link.session.core.flow(link.session, None, incoming_window=0)
    world.run()
    op = world.cast()
    assert not op.future.done
    link.session.core.flow(
        link.session, link, delivery_count=1, link_credit=50, drain=True, incoming_window=0
    )
    world.run()
    assert flows(world, link) == []
    link.session.core.flow(link.session, None, incoming_window=2048)
    world.run()
    assert op.future.done
    assert flows(world, link) == [(51, 0)]


def test_the_link_of_the_management_is_drained_too(path):
    world, _ = rabbitmq(path)
    world.start()
    world.listen()
    link = next(
        each for each in world.peer.links if each.client_sends and each.address == "/management"
    )
    drain(world, link, 70, link.delivery_count)
    assert flows(world, link) == [(link.delivery_count + 70, 0)]


@pytest.mark.parametrize("trace", [False, True])
def test_the_backlog_is_told_with_trace_too(path, trace, capfd):
    world, _ = rabbitmq(path, trace=trace)
    world.start()
    listener = world.listen(credit=10)
    world.peer.override(None).expect_flow().call(lambda event: None)
    told = []
    listener.subscription.ask(told.append)
    world.run()
    for link in world.peer.links:
        if link.name.startswith("receive."):
            link.session.core.flow(link.session, link, available=7)
    world.run()
    assert (told, listener.subscription.backlog) == ([True], 21)
    assert ("@flow(19)" in capfd.readouterr().err) is trace


def test_the_trace_shows_each_frame_once(path, capfd):
    world = World(path, trace=True).start()
    world.cast()
    shown = capfd.readouterr().err
    assert shown.count("<- @open(16)") == 1
    assert shown.count("-> @transfer(20)") == 1
