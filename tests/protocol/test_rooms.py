# SPDX-License-Identifier: Apache-2.0

"""Nodes by their own address, and readers that are bounded as a whole."""

import random

import pytest

from amqp1_driver.addressing.base import Destination, Service
from amqp1_driver.connection.operation import Kind, Payload, Properties, RawMessage
from amqp1_driver.connection.subscription import Subscription
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.retry import Retry

from .world import Listener, Waiter, World, rabbitmq


def read(world, *addresses, room, credit=100):
    """A reader of nodes that can take ``room`` messages."""
    listener = Listener()
    listener.subscription = Subscription(
        tuple(Destination(Service.NODE, None, address) for address in addresses),
        None,
        "u",
        credit,
        False,
        listener,
        listener,
    )
    listener.subscription.room = room
    world.connection.subscribe(listener.subscription)
    world.run()
    return listener


def settle(world, listener, count, room):
    """The oldest ``count`` are done with, and there is room for so many more."""
    done, listener.deliveries[:] = listener.deliveries[:count], listener.deliveries[count:]
    world.connection.settle_all(listener.subscription, done, room)
    world.run()


@pytest.mark.parametrize("address", ["/queues/a%2Fb", "multicast/x", "a::b"])
def test_a_node_is_read_by_its_own_address_on_any_bus(world, address):
    listener = read(world, address, room=5)
    world.arrive(address, "hello")
    assert listener.bodies == [b"hello"]


def test_nothing_is_declared_for_a_node():
    world, broker = rabbitmq()
    world.start()
    asked = len(broker.requests)
    read(world, "/queues/q", room=5)
    assert world.link("/queues/q").credit == 5
    assert broker.requests[asked:] == []


def test_a_parcel_goes_out_as_it_is(world):
    op = RawMessage(
        Payload(Kind.NOTIFY, "id-1", b"\x00\xff"),
        Destination(Service.NODE, None, "/queues/q"),
        Deadline.after(30.0, world.clock()),
        Retry.of(0),
        Waiter(),
        Properties("application/octet-stream", {"a": "1"}),
    )
    world.send(op)
    message = world.peer.transfers[-1].message
    assert op.future.done and op.future.error is None
    assert (message.kind, message.body) == ("data", b"\x00\xff")
    assert (message.properties.message_id, message.properties.to) == ("id-1", "/queues/q")
    assert message.properties.content_type == "application/octet-stream"
    assert message.application_properties == {"a": "1"}


@pytest.mark.parametrize("size", [0, 255, 256, 70000])
def test_a_parcel_of_any_size(world, size):
    op = RawMessage(
        Payload(Kind.NOTIFY, "i" * 300, b"x" * size),
        Destination(Service.NODE, None, "q"),
        Deadline.after(30.0, world.clock()),
        Retry.of(0),
        Waiter(),
        Properties(),
    )
    world.send(op)
    message = world.peer.transfers[-1].message
    assert (message.body, message.properties.message_id) == (b"x" * size, "i" * 300)


def test_links_share_the_room_and_the_emptiest_gets_the_most(world):
    listener = read(world, "a", "b", room=5)
    assert (world.link("a").credit, world.link("b").credit) == (3, 2)
    for _ in range(2):
        world.arrive("b")
    settle(world, listener, 2, 3)
    assert (world.link("a").credit, world.link("b").credit) == (3, 0)
    settle(world, listener, 0, 7)
    assert (world.link("a").credit, world.link("b").credit) == (3, 2)


def test_nothing_is_granted_until_there_is_room_again(world):
    listener = read(world, "a", room=2)
    world.arrive("a").arrive("a")
    settle(world, listener, 2, 0)
    assert world.link("a").credit == 0
    settle(world, listener, 0, 1)
    assert world.link("a").credit == 1


def test_credit_is_taken_back_until_something_was_settled(world):
    listener = read(world, "a", "b", room=10)
    world.arrive("a")
    assert listener.subscription.brake() == 8
    world.run()
    assert (world.link("a").credit, world.link("b").credit) == (0, 1)
    assert listener.subscription.brake() == 0
    settle(world, listener, 1, 10)
    assert (world.link("a").credit, world.link("b").credit) == (5, 5)


def test_what_an_earlier_connection_delivered_wants_its_room_too(world):
    listener = read(world, "a", room=10)
    for _ in range(4):
        world.arrive("a")
    world.drop().advance(5)
    assert world.state == "ready"
    assert world.link("a").credit == 6
    settle(world, listener, 4, 6)
    assert world.link("a").credit == 6
    settle(world, listener, 0, 20)
    assert world.link("a").credit == 20


def test_a_link_that_comes_back_alone_gets_what_is_left(world):
    listener = read(world, "a", room=10)
    for _ in range(4):
        world.arrive("a")
    world.peer.remote_detach("a", "amqp:link:detach-forced", None)
    world.run().advance(5)
    assert world.link("a").credit == 6
    settle(world, listener, 4, 8)
    assert world.link("a").credit == 6  # less than half is missing


def test_the_cap_is_never_exceeded_whatever_comes_when():
    rng = random.Random(1)
    world = World().start()
    stored, cap = 0, 12
    listener = read(world, "a", "b", "c", room=cap, credit=5)
    for _ in range(600):
        what = rng.random()
        if what < 0.55:
            name = rng.choice("abc")
            if world.link(name).credit:
                world.arrive(name)
        elif what < 0.8 and listener.deliveries:
            count = rng.randint(1, len(listener.deliveries))
            stored += count
            settle(world, listener, count, cap - stored)
        elif what < 0.98:
            stored = rng.randint(0, stored)
            settle(world, listener, 0, cap - stored)
        else:
            world.drop().advance(12)
            assert world.state == "ready"
        credit = sum(world.link(name).credit for name in "abc")
        assert stored + len(listener.deliveries) + credit <= cap
    assert listener.subscription.counters()["received"] > 200
