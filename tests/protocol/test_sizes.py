# SPDX-License-Identifier: Apache-2.0

"""The size of messages is bounded (AMQP 1.0, 2.7.3 max-message-size, 2.8.18)."""

from __future__ import annotations

import pytest

from amqp1_driver import exceptions
from amqp1_driver.testing import performatives as p

from .world import World, rabbitmq

ANY = "unicast.ex.topic"
LIMIT = 100_000
EXCEEDED = "amqp:link:message-size-exceeded"
#: an amqp-value of a long string whose bytes never end
HEAD = b"\x00\x53\x77\xb1\x7f\xff\xff\xff"


@pytest.fixture(params=[0, 1000], ids=["no window", "session_window"])
def world(path, request):
    return World(path, max_message_size=LIMIT, session_window=request.param).start()


def begin(world, link, **fields):
    """The first piece of a message without end."""
    session = link.session
    number, session.next_delivery_id = session.next_delivery_id, session.next_delivery_id + 1
    session.core.send(
        p.Transfer(
            handle=link.handle,
            delivery_id=number,
            delivery_tag=b"t",
            message_format=0,
            more=True,
            **fields,
        ),
        session.our_channel,
        HEAD,
    )
    return world.run()


def go_on(world, link, size, more=True):
    session = link.session
    while size:
        part = min(size, 16_000)
        size -= part
        session.core.send(
            p.Transfer(handle=link.handle, more=more or bool(size)),
            session.our_channel,
            bytes(part),
        )
    return world.run()


def detaches(world):
    """(condition, closed) of all links that we have ended."""
    return [
        (entry.performative.error.condition, entry.performative.closed)
        for entry in world.peer.frames(p.Detach)
        if entry.performative.error is not None
    ]


def dispositions(world):
    """(delivery-id, state) that we have sent."""
    return [
        (entry.performative.first, entry.performative.state)
        for entry in world.peer.frames(p.Disposition)
    ]


# -- announced -----------------------------------------------------------------------------


def test_64_mib_are_announced_on_every_link(path):
    world, _ = rabbitmq(path)
    world.start()
    world.listen()
    world.cast()
    # the reply link, the two of the management, three of the server, the relay
    assert [attach.max_message_size for attach in world.attaches()] == [67_108_864] * 7


def test_the_option_says_how_much(world):
    world.listen()
    assert {attach.max_message_size for attach in world.attaches()} == {LIMIT}


def test_0_announces_no_limit(path):
    world = World(path, max_message_size=0).start()
    world.listen()
    # null or 0: none (2.7.3)
    assert {attach.max_message_size or 0 for attach in world.attaches()} == {0}


# -- received ------------------------------------------------------------------------------


def test_a_message_of_just_the_limit_comes_through(world):
    listener = world.listen()
    world.arrive(ANY, message=bytes(LIMIT), frame_size=16_000)
    assert [len(delivery.data) for delivery in listener.deliveries] == [LIMIT]
    assert detaches(world) == []


def test_a_larger_one_is_rejected_and_ends_its_link(world, caplog):
    listener = world.listen()
    world.arrive(ANY, message=bytes(LIMIT + 1), frame_size=16_000)
    assert listener.deliveries == []
    assert detaches(world) == [(EXCEEDED, True)]
    ((_, state),) = dispositions(world)
    assert (type(state), state.error.condition) == (p.Rejected, EXCEEDED)
    assert (
        "Link to unicast.ex.topic on host0:5672 was ended: link failed (host=host0:5672, "
        "address=unicast.ex.topic, condition=amqp:link:message-size-exceeded, "
        "description=a message has more than 100000 bytes (option max_message_size of this "
        "end)); again in 0."
    ) in caplog.text


def test_it_ends_before_all_has_come(world):
    world.listen()
    link = world.link(ANY)
    begin(world, link)
    go_on(world, link, 80_000)
    assert detaches(world) == []
    go_on(world, link, 32_000)
    assert detaches(world) == [(EXCEEDED, True)]


def test_what_comes_until_the_peer_has_heard_of_it_is_thrown_away(world):
    listener = world.listen()
    link = world.link(ANY)
    world.peer.override(None).expect_detach().call(lambda event: None)
    begin(world, link)
    go_on(world, link, 4_000_000)
    go_on(world, link, 16_000, more=False)
    begin(world, link)
    go_on(world, link, 4_000_000)
    links = world.connection.engine._connection.all_links
    (ended,) = [each for each in links if each.discards]
    assert (ended.pieces, ended.taken) == ([], 0)
    assert listener.deliveries == []
    assert detaches(world) == [(EXCEEDED, True)]


def test_a_peer_that_answers_no_detach_loses_its_connection_at_the_fourth(world, caplog):
    """Each of the links keeps memory until the peer answers."""
    listener = world.listen()
    world.peer.override(None).expect_detach().call(lambda event: None)
    first = world.core
    for number in range(1, 5):
        assert world.core is first
        begin(world, world.link(ANY))
        go_on(world, world.link(ANY), 200_000)
        assert detaches(world) == [(EXCEEDED, True)] * number
        world.advance(1.0)
    (close,) = world.peer.frames(p.Close)
    assert close.performative.error.condition == "amqp:resource-limit-exceeded"
    assert (
        "the peer has sent messages that are too large on 4 links to unicast.ex.topic, and does "
        "not answer when they are detached" in caplog.text
    )
    world.advance(5.0)
    assert world.core is not first
    world.arrive(ANY, "after")
    assert listener.bodies == [b"after"]


def test_links_to_several_nodes_that_are_overrun_at_once_cost_only_themselves(world):
    """Else whoever may send to four queues of a server could end its connection."""
    world.listen()
    world.listen("other")
    world.peer.override(None).expect_detach().call(lambda event: None)  # it will be slow
    links = [link for link in world.peer.links if link.credit and "topic" in (link.address or "")]
    links += [link for link in world.peer.links if link.credit and "other" in (link.address or "")]
    assert len({link.address for link in links}) == 6
    for link in links:
        begin(world, link)
        go_on(world, link, 200_000)
    assert detaches(world) == [(EXCEEDED, True)] * 6
    assert world.peer.frames(p.Close) == []


def test_the_link_is_attached_again_and_all_else_goes_on_meanwhile(world):
    listener = world.listen()
    link = world.link(ANY)
    call = world.call("other")
    begin(world, link)
    go_on(world, link, 200_000)
    world.answer(call)
    assert call.future.value.body == b"answer"
    world.advance(0.1)
    assert world.link(ANY).name != link.name
    world.arrive(ANY, "after")
    assert listener.bodies == [b"after"]


def test_a_message_that_comes_again_and_again_costs_longer_and_longer_pauses(world):
    """A bus that does not heed the rejection: the pauses end at link_retry_delay, 10 s."""
    world.listen()
    count = 0
    for _ in range(600):
        if any(link.address == ANY and link.credit for link in world.peer.links):
            count += 1
            world.arrive(ANY, message=bytes(LIMIT + 1), frame_size=16_000)
        world.advance(1.0)
    assert 60 <= count <= 130
    world.advance(310)  # it has been well for five minutes
    world.arrive(ANY, message=bytes(LIMIT + 1), frame_size=16_000)
    world.advance(0.11)
    assert world.link(ANY).credit == 100


def test_of_a_bounded_window_nothing_is_lost_by_messages_that_were_too_large(path):
    world = World(path, max_message_size=LIMIT, max_frame_size=16_384, session_window=10).start()
    listener = world.listen()
    for _ in range(10):
        world.arrive(ANY, message=bytes(LIMIT + 1), frame_size=16_000)
        world.advance(11)
    for _ in range(10):
        world.arrive(ANY, message=bytes(LIMIT), frame_size=16_000)
        world.settle(listener.deliveries[-1])
    assert len(listener.deliveries) == 10
    flow = world.peer.frames(p.Flow)[-1].performative
    assert flow.incoming_window == 10


def test_the_reply_link_is_rebuilt_and_calls_that_wait_are_in_doubt(world):
    op = world.call()
    link = world.link(world.context.reply_address)
    begin(world, link)
    go_on(world, link, 200_000)
    assert isinstance(op.future.error, exceptions.InDoubt)
    assert EXCEEDED in str(op.future.error)
    world.advance(0.2)
    again = world.call()
    world.answer(again)
    assert again.future.value.body == b"answer"


# -- sent ----------------------------------------------------------------------------------


def limit(world, size):
    world.peer.override(None).expect_attach(role="sender").respond(max_message_size=size)


def test_what_the_peer_does_not_take_fails_before_it_is_sent(path):
    world = World(path)
    limit(world, 5000)
    world.start()
    op = world.cast(body=bytes(5000))
    assert isinstance(op.future.error, exceptions.MessageTooLarge)
    text = str(op.future.error)
    assert text.startswith("message of 50")
    assert "is larger than the 5000 bytes that may be sent" in text
    assert "host=host0:5672, address=unicast.ex.topic, message-id=m1" in text
    assert world.peer.transfers == []
    assert not exceptions.recoverable(op.future.error)
    assert world.cast(body=bytes(4800)).future.error is None
    assert len(world.peer.transfers) == 1


def test_a_large_body_counts_with_what_goes_before_it(path):
    world = World(path)
    limit(world, 100_000)
    world.start()
    assert isinstance(world.cast(body=bytes(100_000)).future.error, exceptions.MessageTooLarge)
    assert world.cast(body=bytes(99_000)).future.error is None


def test_a_call_that_is_too_large_is_not_waited_for(path):
    world = World(path)
    limit(world, 5000)
    world.start()
    op = world.call(body=bytes(5000))
    assert isinstance(op.future.error, exceptions.MessageTooLarge)
    assert world.connection._live.reply_link.waiting == {}


def test_one_that_waits_for_credit_fails_when_its_turn_comes_and_the_others_go(path):
    world = World(path)
    world.peer.override(None).expect_attach(role="sender").respond(max_message_size=5000, credit=0)
    world.start()
    large, small = world.cast(body=bytes(5000)), world.cast()
    world.grant(10, ANY)
    assert isinstance(large.future.error, exceptions.MessageTooLarge)
    assert (small.future.done, small.future.error) == (True, None)
    assert len(world.peer.transfers) == 1


def test_without_a_limit_of_the_peer_the_option_holds(world):
    assert isinstance(world.cast(body=bytes(LIMIT)).future.error, exceptions.MessageTooLarge)
    assert world.cast(body=bytes(LIMIT - 1000)).future.error is None


def test_a_limit_of_0_is_none(path):
    world = World(path, max_message_size=0)
    limit(world, 0)
    world.start()
    assert world.cast(body=bytes(10_000_000)).future.error is None
    (sent,) = world.peer.transfers
    assert len(sent.body) == 10_000_000
