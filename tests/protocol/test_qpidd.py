# SPDX-License-Identifier: Apache-2.0

"""qpidd accepts what goes to an unknown node by the anonymous terminus, and drops it."""

from __future__ import annotations

import pytest

from amqp1_driver import exceptions
from amqp1_driver.connection.operation import Kind

from .world import World

KINDS = pytest.mark.parametrize(
    ("sent", "address"),
    [
        ({}, "unicast.ex.topic"),
        ({"server": "s"}, "exclusive.ex.topic.s"),
        ({"fanout": True}, "broadcast.ex.topic.all"),
    ],
    ids=["any", "one", "all"],
)


def refuse(world, address):
    world.peer.override(None).expect_attach(role="sender", address=address).refuse(
        "amqp:not-found", f"Node not found: {address}"
    )


@pytest.fixture
def world(path):
    return World(path, peer={"product": "qpid-cpp"}).start()


@KINDS
@pytest.mark.parametrize("mandatory", [False, True])
def test_nothing_but_replies_goes_by_the_anonymous_terminus(world, sent, address, mandatory):
    op = world.request(Kind.CAST, **sent)
    op.mandatory = mandatory
    world.send(op)
    world.reply("caller")
    assert [attach.target.address for attach in world.attaches("sender")] == [address, None]
    assert [(t.link.attach.target.address, t.address) for t in world.peer.transfers] == [
        (address, address),
        (None, "caller"),
    ]


@KINDS
def test_an_unknown_node_is_an_error_that_names_it(world, sent, address):
    refuse(world, address)
    op = world.cast(retry=0, **sent)
    world.advance(0.2)
    assert str(op.future.error) == (
        f"link failed (host=host0:5672, address={address}, message-id=m1, "
        f"condition=amqp:not-found, description=Node not found: {address})"
    )
    assert world.sent() == []


@KINDS
def test_who_wants_to_be_told_is_told_at_once(world, sent, address):
    refuse(world, address)
    op = world.request(Kind.CAST, **sent)
    op.mandatory = True
    other = world.cast(**sent)
    world.send(op)
    world.advance(0.2)
    assert exceptions.nobody_there(op.future.error)
    assert not other.future.done


def test_a_node_that_comes_in_time_is_not_too_late(world):
    refuse(world, "unicast.ex.topic")
    op = world.cast(timeout=20)
    world.advance(1)
    assert not op.future.done
    world.peer.script.rules.clear()
    world.advance(3)
    assert (op.future.done, op.future.error) == (True, None)
    assert world.sent() == [("unicast.ex.topic", "body")]
