# SPDX-License-Identifier: Apache-2.0

"""What a router asks for: nobody stores anything, and in a mesh news takes its time."""

from __future__ import annotations

import pytest

from amqp1_driver import exceptions
from amqp1_driver.connection.operation import Kind, Stage
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.testing import performatives as p

from .world import World, rabbitmq

FANOUT = "openstack.org/om/rpc/multicast/ex/topic"
ANY = "openstack.org/om/rpc/anycast/ex/topic"
ONE = "openstack.org/om/rpc/unicast/ex/topic/server"

NOT_FOUND = p.Rejected(error=p.Error(condition="amqp:not-found"))
#: what a router says when nobody is there, alone and in a mesh
NOBODY = pytest.mark.parametrize("nobody", [p.Released(), NOT_FOUND], ids=["released", "rejected"])


@pytest.fixture
def make(path):
    """A router on which nobody reads: no credit but for the relay, and no outcome by itself."""

    def made(product="skupper-router", **peer):
        world = World(path, peer={"product": product, **peer}).start()
        world.peer.override(None).expect_attach(role="sender", address=FANOUT).respond(credit=0)
        world.hold()
        return world

    return made


def ended(op):
    return op.future.done, op.future.error


@NOBODY
@pytest.mark.parametrize("product", ["skupper-router", "qpid-dispatch-router"])
def test_a_fanout_to_nobody_is_done_once_all_routers_must_have_heard_of_readers(
    make, product, nobody
):
    world = make(product)
    op = world.cast(fanout=True)
    world.advance(0.9)
    assert (world.sent(), op.stage) == ([], Stage.QUEUED)
    world.advance(0.2)
    assert [transfer.link.attach.target.address for transfer in world.peer.transfers] == [None]
    assert world.sent() == [(FANOUT, "body")]
    world.outcome(nobody)
    assert ended(op) == (True, None)


@NOBODY
def test_the_next_fanout_to_nobody_does_not_wait(make, nobody):
    world = make()
    world.cast(fanout=True)
    world.advance(1.1).outcome(nobody)
    op = world.cast(fanout=True)
    world.advance(0)
    assert len(world.sent()) == 2
    world.outcome(nobody)
    assert ended(op) == (True, None)
    # one link for the address, one relay, and none of them anew
    assert [attach.target.address for attach in world.attaches("sender")] == [FANOUT, None]


def test_the_embedded_router_is_no_mesh_and_has_no_news_to_wait_for(make):
    world = make("amqp1-bus-router")
    op = world.cast(fanout=True)
    world.advance(0).outcome(p.Released())
    assert ended(op) == (True, None)


def test_a_reader_of_whom_the_news_comes_in_time_gets_it_over_the_link(make):
    world = make()
    op = world.cast(fanout=True)
    world.advance(0.5).grant(10, FANOUT)
    assert world.peer.transfers[0].link.attach.target.address == FANOUT
    world.advance(5)
    assert len(world.sent()) == 1
    world.outcome(p.Accepted())
    assert ended(op) == (True, None)


def test_slow_readers_are_not_nobody(make):
    """All credit used up by what they have not settled: then it is not sent past them."""
    world = make()
    world.cast(fanout=True)
    world.grant(1, FANOUT)
    op = world.cast(fanout=True, timeout=4)
    world.advance(3.9)
    assert (len(world.sent()), op.stage) == (1, Stage.QUEUED)
    world.advance(0.6)
    assert isinstance(op.future.error, exceptions.DeadlineExpired)
    assert len(world.sent()) == 1


@NOBODY
def test_readers_who_left_are_nobody(make, nobody):
    """Credit stays when the last of them goes."""
    world = make()
    op = world.cast(fanout=True)
    world.grant(5, FANOUT).outcome(nobody)
    assert ended(op) == (True, None)


@pytest.mark.parametrize(
    "state",
    [p.Modified(delivery_failed=True), p.Rejected(error=p.Error(condition="amqp:decode-error"))],
    ids=["modified", "rejected"],
)
def test_a_reader_who_may_have_got_it_or_does_not_want_it_is_a_failure(make, state):
    world = make()
    op = world.cast(fanout=True)
    world.grant(5, FANOUT).outcome(state)
    assert isinstance(op.future.error, (exceptions.DeliveryModified, exceptions.DeliveryRejected))


@NOBODY
@pytest.mark.parametrize(
    "sent", [{"fanout": True}, {}, {"server": "server"}], ids=["all", "any", "one"]
)
def test_who_must_reach_somebody_is_told_once_all_routers_must_have_heard_of_readers(
    make, sent, nobody
):
    world = make()
    world.no_credit(ANY)
    world.no_credit(ONE)
    for seconds in (1.1, 0):  # the second time there is no news to wait for
        op = world.request(Kind.CAST, **sent)
        op.mandatory = True
        world.send(op)
        world.advance(seconds).outcome(nobody)
        assert exceptions.nobody_there(op.future.error)
    assert [t.link.attach.target.address for t in world.peer.transfers] == [None, None]


def test_who_must_reach_somebody_does_so_when_the_news_of_him_comes_in_time(make):
    world = make()
    world.no_credit(ANY)
    op = world.request(Kind.CAST)
    op.mandatory = True
    world.send(op)
    world.advance(0.9)
    assert not op.future.done
    world.grant(1, ANY).outcome(p.Accepted())
    assert (ended(op), world.sent()) == ((True, None), [(ANY, "body")])


@pytest.mark.parametrize("server", [None, "server"])
def test_a_cast_to_one_waits_for_it_as_ever(make, server):
    world = make()
    world.no_credit(ONE if server else ANY)
    op = world.cast(server=server, timeout=20)
    world.advance(19)
    assert (world.sent(), op.future.done) == ([], False)
    world.grant(1, ONE if server else ANY)
    world.outcome(p.Released())
    assert isinstance(op.future.error, exceptions.DeliveryReleased)


def test_a_router_without_a_relay_cannot_say_so(make):
    world = make(offered_capabilities=())
    op = world.cast(fanout=True, timeout=4)
    world.advance(4.5)
    assert (world.sent(), type(op.future.error)) == ([], exceptions.DeadlineExpired)


def test_a_fanout_that_waits_when_the_connection_goes_waits_on_the_next_one(make):
    world = make()
    op = world.cast(fanout=True)
    world.advance(0.5).drop().advance(5)
    assert world.sent() == [(FANOUT, "body")]
    world.outcome(p.Released())
    assert ended(op) == (True, None)
    assert len(world.advance(5).sent()) == 1


def test_a_fanout_that_is_given_up_is_not_sent(make):
    world = make()
    op = world.cast(fanout=True)
    world.connection.cancel(op)
    assert world.advance(5).sent() == []


def test_a_fanout_to_nobody_is_done_on_rabbitmq_too(path):
    """Its key has no queue: RELEASED."""
    world, _ = rabbitmq(path, "4.3.0")
    world.start()
    world.peer.override(None).expect_transfer(
        address="/exchanges/amq.direct/openstack%3Arpc%3Amulticast%3Aex%3Atopic"
    ).hold()
    for _ in range(2):
        op = world.cast(fanout=True)
        world.outcome(p.Released())
        assert ended(op) == (True, None)


@pytest.mark.parametrize(
    ("product", "early"),
    [
        ("skupper-router", True),
        ("qpid-dispatch-router", True),
        ("amqp1-bus-router", True),
        ("amqp1-bus-broker", False),
        ("qpid-cpp", False),
    ],
)
def test_a_reader_of_fanouts_keeps_no_sender_waiting_where_the_outcome_is_its_own(
    path, product, early
):
    """A router tells the outcome when the last of all readers has settled."""
    world = World(path, peer={"product": product}).start()
    listener = world.listen(credit=1)
    links = [link for link in world.peer.links if "topic" in str(link.address)]
    one, group, fanout = links
    for link in links:
        world.arrive("", link=link)
    assert "multicast" in fanout.address or "broadcast" in fanout.address
    assert [sent.state is not None for sent in world.peer.sent] == [False, False, early]
    # room is made by the application only
    assert [one.credit, group.credit, fanout.credit] == [0, 0, 0]
    world.settle(listener.deliveries[2], Outcome.ACCEPTED)
    assert ([type(sent.state) for sent in world.peer.sent][2], fanout.credit) == (p.Accepted, 1)
