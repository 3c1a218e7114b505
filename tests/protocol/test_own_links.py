# SPDX-License-Identifier: Apache-2.0

"""On RabbitMQ one link serves all addresses: unless a slow queue has used up its credit.

Links of their own lead to the anonymous terminus too: up to 4.2 a link to a queue that is missing
would end the session.
"""

import pytest

from amqp1_driver import exceptions
from amqp1_driver.connection.operation import Kind, Stage
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing import reactions

from .world import rabbitmq


def queue(topic: str) -> str:
    return f"/queues/openstack%3Arpc%3Aunicast%3Aex%3A{topic}%3As"


@pytest.fixture(params=["4.0.5", "4.3.0"])
def make(path, request):
    """A broker that holds all it gets, and grants the relay so much credit."""

    def made(credit=2):
        version = request.param
        world, _ = rabbitmq(path, version)
        world.start()
        world.cast("first", server="s")
        world.hold()
        relay = next(
            link
            for link in world.peer.links
            if link.client_sends and link.attach.target.address is None
        )
        relay.window = 0  # what is not confirmed uses it up
        reactions.grant(relay, credit)
        world.run()
        world.relay = relay
        return world

    return made


def links_to(world, topic):
    return [
        a for a in world.attaches("sender") if a.target.address is None and queue(topic) in a.name
    ]


def test_while_there_is_credit_all_go_over_one_link(make):
    world = make()
    world.cast("slow", server="s")
    world.cast("fast", server="s")
    assert [t.link for t in world.peer.transfers[-2:]] == [world.relay] * 2
    assert links_to(world, "slow") == links_to(world, "fast") == []


def test_a_slow_queue_that_uses_up_the_credit_holds_up_no_other(make):
    world = make()
    for _ in range(2):
        world.cast("slow", server="s")
    fast = world.cast("fast", server="s")
    assert len(links_to(world, "fast")) == 1
    world.outcome(p.Accepted())
    assert (fast.future.done, fast.future.error) == (True, None)


def frames(world, topic, count):
    """How many frames it takes, in both directions, to send so many messages one by one."""
    before = len(world.peer.log)
    ops = [world.cast(topic, server="s") for _ in range(count)]
    assert [op.future.error for op in ops] == [None] * count
    assert all(op.future.done for op in ops)
    return len(world.peer.log) - before


def test_with_one_of_two_targets_full_sending_to_the_other_takes_no_more(path):
    """A transfer and its outcome each, and now and then a flow: by relay or over its own link."""
    world, _ = rabbitmq(path)
    world.start()
    world.cast("fast", server="s")
    by_relay = frames(world, "fast", 200)
    full = queue("full")
    world.peer.override(None).expect_transfer(address=full).hold()
    relay = next(
        link
        for link in world.peer.links
        if link.client_sends and link.attach.target.address is None
    )
    relay.window = 0  # what is not confirmed uses it up
    reactions.grant(relay, 5)
    blocked = [world.cast("full", server="s", timeout=600) for _ in range(50)]
    world.cast("fast", server="s")  # gets a link of its own
    over_its_own = frames(world, "fast", 200)
    assert [op.future.done for op in blocked] == [False] * 50
    assert (by_relay, over_its_own) == (404, 404)


def test_a_queue_keeps_the_link_that_it_has_got(make):
    world = make()
    for _ in range(2):
        world.cast("slow", server="s")
    world.cast("slow", server="s")
    reactions.grant(world.relay, 10)
    world.run()
    world.cast("slow", server="s")
    world.cast("other", server="s")
    assert len(links_to(world, "slow")) == 1
    assert [t.link is world.relay for t in world.peer.transfers[-3:]] == [False, False, True]


def test_a_queue_that_is_not_there_is_told_for_each_message_as_ever(make):
    world = make()
    for _ in range(2):
        world.cast("slow", server="s")
    world.peer.override(None).expect_transfer(address=queue("gone")).release()
    ops = [world.cast("gone", server="s") for _ in range(3)]
    assert [type(op.future.error) for op in ops] == [exceptions.DeliveryReleased] * 3
    assert len(links_to(world, "gone")) == 1


def test_no_link_is_attached_to_a_queue(make):
    world = make()
    for number in range(5):
        world.cast(f"t{number}", server="s")
    assert {a.target.address for a in world.attaches("sender")} == {"/management", None}


def test_what_was_on_the_way_when_its_link_was_detached_is_in_doubt(make):
    world = make()
    for _ in range(2):
        world.cast("slow", server="s")
    op = world.cast("fast", server="s")
    reactions.detach(world.peer.transfers[-1].link, "amqp:internal-error")
    world.run()
    assert isinstance(op.future.error, exceptions.InDoubt)
    again = world.cast("fast", server="s")
    world.advance(1)
    assert again.stage is Stage.SENT


def test_so_does_a_message_that_asks_whether_anybody_is_there(make):
    world = make()
    for _ in range(2):
        world.cast("slow", server="s")
    op = world.request(Kind.CAST, "fast", server="s")
    op.mandatory = True
    world.send(op)
    assert len(links_to(world, "fast")) == 1
    world.outcome(p.Released())
    assert isinstance(op.future.error, exceptions.DeliveryReleased)


def test_links_of_their_own_are_not_without_bound(make):
    world = make(credit=1)
    world.cast("slow", server="s")
    for number in range(220):
        world.cast(f"t{number}", server="s")
    assert len([a for a in world.attaches("sender") if a.target.address is None]) == 200
