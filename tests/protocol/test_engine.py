# SPDX-License-Identifier: Apache-2.0

"""One physical connection: deliveries as bytes, links that the peer opens, no leaks."""

import gc
import logging
import sys

import cproton
import proton
import pytest

from amqp1_driver import engine as package
from amqp1_driver.engine import connection as module
from amqp1_driver.engine.deliveries import Deliveries, ProtonDeliveries
from amqp1_driver.engine.speedups import SpeedupDeliveries
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing import reactions
from amqp1_driver.testing.messages import Message

from .conftest import PATHS
from .world import World

ANY = "unicast.ex.topic"


def frame(world, link, payload=b"", **fields):
    """One transfer frame of a delivery, as the test says."""
    session = link.session
    session.core.send(p.Transfer(handle=link.handle, **fields), session.our_channel, payload)
    session.next_outgoing_id += 1
    return world.run()


# -- receiving ----------------------------------------------------------------------------------


def test_a_message_comes_in_the_bytes_that_were_sent(world):
    listener = world.listen()
    message = Message("x" * 100).encode()
    world.arrive(ANY, message=message)
    assert listener.deliveries[0].data == message
    assert type(listener.deliveries[0].data) is bytes


@pytest.mark.parametrize("size", [0, 65535, 65536, 65537, 300000])
def test_messages_of_any_size(world, size):
    listener = world.listen()
    message = bytes(range(256)) * (size // 256 + 1)
    world.arrive(ANY, message=message[:size])
    assert listener.deliveries[0].data == message[:size]


def test_a_message_in_many_frames_comes_when_it_is_whole(world):
    listener = world.listen()
    link = world.link(ANY)
    frame(world, link, b"abc", delivery_id=1, delivery_tag=b"t", message_format=0, more=True)
    frame(world, link, b"def", more=True)
    assert listener.deliveries == []
    frame(world, link, b"ghi", more=False)
    assert [d.data for d in listener.deliveries] == [b"abcdefghi"]
    world.settle(listener.deliveries[0])
    (entry,) = world.peer.frames(p.Disposition)
    assert (entry.performative.first, entry.performative.settled) == (1, True)


def test_messages_in_many_frames_on_two_links_do_not_get_mixed_up(world):
    listener = world.listen()
    one, two = world.link(ANY), world.link("broadcast.ex.topic.all")
    frame(world, one, b"1", delivery_id=1, delivery_tag=b"t", message_format=0, more=True)
    frame(world, two, b"2", delivery_id=2, delivery_tag=b"t", message_format=0, more=True)
    frame(world, one, b"1")
    frame(world, two, b"2")
    assert [d.data for d in listener.deliveries] == [b"11", b"22"]


def test_an_aborted_message_is_never_seen(world):
    listener = world.listen()
    link = world.link(ANY)
    frame(world, link, b"abc", delivery_id=1, delivery_tag=b"t", message_format=0, more=True)
    frame(world, link, aborted=True)
    frame(world, link, b"whole", delivery_id=2, delivery_tag=b"u", message_format=0)
    assert [d.data for d in listener.deliveries] == [b"whole"]


def test_a_settled_message_is_handed_over_and_settling_it_sends_nothing(world):
    listener = world.listen()
    world.arrive(ANY, settled=True)
    assert listener.bodies == [b"hello"]
    world.settle(listener.deliveries[0])
    assert world.peer.frames(p.Disposition) == []


def test_settling_twice_settles_once(world):
    listener = world.listen()
    world.arrive(ANY)
    delivery = listener.deliveries[0]
    assert delivery.link.settle(delivery.key, Outcome.REJECTED) is True
    assert delivery.link.settle(delivery.key, Outcome.ACCEPTED) is False
    world.run()
    assert world.peer.sent[0].state == p.Rejected()


def test_deliveries_are_settled_in_any_order(world):
    listener = world.listen()
    for number in range(5):
        world.arrive(ANY, str(number))
    for index in (3, 0, 4, 1, 2):
        world.settle(
            listener.deliveries[index], Outcome.RELEASED if index == 4 else Outcome.ACCEPTED
        )
    states = [type(sent.state).__name__ for sent in world.peer.sent]
    assert states == ["Accepted"] * 4 + ["Released"]


def test_what_comes_after_our_detach_is_ignored(world):
    listener = world.listen()
    link = world.link(ANY)
    world.peer.override().expect_detach(address=ANY)  # not answered: still on its way
    world.connection.unsubscribe(listener.subscription)
    world.arrive(ANY, link=link)
    assert (listener.deliveries, world.state) == ([], "ready")


def test_the_peer_may_settle_what_we_have_not(world):
    listener = world.listen()
    world.arrive(ANY)
    link = world.link(ANY)
    link.session.core.send(
        p.Disposition(role=False, first=1, settled=True, state=p.Released()),
        link.session.our_channel,
    )
    world.run()
    world.settle(listener.deliveries[0])
    assert (len(listener.deliveries), world.state) == (1, "ready")


# -- sending ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 511, 512, 513, 65535, 65536, 100000])
def test_messages_are_cut_to_the_peer_s_frames(path, size):
    world = World(path, peer={"max_frame_size": 512}).start()
    op = world.cast(body=b"x" * size)
    assert (op.future.done, op.future.error) == (True, None)
    assert world.sent() == [(ANY, "x" * size)]
    for entry in world.peer.frames(p.Transfer):
        assert len(entry.payload) < 512


def test_the_frames_that_we_take_are_those_of_the_option(path):
    world = World(path, max_frame_size=70000).start()
    assert world.core.remote_open.max_frame_size == 70000
    listener = world.listen()
    world.arrive(ANY, message=b"x" * 69000)
    assert len(listener.deliveries[0].data) == 69000


def test_delivery_tags_differ(world):
    world.hold()
    for _ in range(40):
        world.cast()
    tags = [transfer.delivery_tag for transfer in world.peer.transfers]
    assert len(set(tags)) == 40
    assert all(1 <= len(tag) <= 32 for tag in tags)


# -- what the peer opens by itself ----------------------------------------------------------------


@pytest.mark.parametrize("role", [False, True], ids=["their sender", "their receiver"])
def test_links_that_the_peer_opens_are_refused(world, role):
    world.cast()
    session = world.link(ANY).session
    session.core.send(
        p.Attach(
            name="theirs",
            handle=99,
            role=role,
            source=p.Source(address="a"),
            target=p.Target(address="b"),
            initial_delivery_count=None if role else 0,
        ),
        session.our_channel,
    )
    # our answer comes with a handle that the scripted peer does not know as a request of ours
    seen = []
    world.peer.override(None).expect_attach(name="theirs").call(
        lambda event: seen.append(event.performative)
    )
    world.peer.override(None).expect_detach(link="theirs").call(
        lambda event: seen.append(event.performative)
    )
    world.run()
    assert [type(frame) for frame in seen] == [p.Attach, p.Detach]
    assert seen[1].closed
    assert world.cast().future.error is None


def test_a_session_that_the_peer_begins_does_no_harm(world):
    world.peer.send(p.Begin(next_outgoing_id=1, incoming_window=10, outgoing_window=10), channel=77)
    world.peer.override(None).expect_begin(remote_channel=77).call(lambda event: None)
    world.run()
    assert world.cast().future.error is None
    assert world.state == "ready"


def test_a_peer_that_attaches_again_to_close_as_the_specification_wants(world):
    """2.6.6: after a detach that did not close, the answer to a closing one."""
    world.cast()
    link = world.link(ANY)
    name, core, channel = link.name, link.session.core, link.session.our_channel
    world.peer.remote_detach(ANY, closed=False)
    world.run()
    assert world.peer.frames(p.Detach)[-1].performative.closed
    world.peer.override(None).expect_attach(name=name).call(lambda event: None)
    world.peer.override(None).expect_detach(link=name).call(lambda event: None)
    core.send(
        p.Attach(
            name=name,
            handle=7,
            role=True,
            source=p.Source(address=""),
            target=p.Target(address=ANY),
        ),
        channel,
    )
    core.send(p.Detach(handle=7, closed=True), channel)
    world.run()
    assert world.state == "ready"
    assert world.cast().future.error is None


# -- events on what is gone ------------------------------------------------------------------------


def test_credit_for_a_link_that_we_closed_is_ignored(path):
    world = World(path, default_sender_link_timeout=10).start()
    world.cast()
    link = world.link(ANY)
    world.peer.override().expect_detach(address=ANY)
    world.advance(15)
    reactions.grant(link, 50)
    assert world.run().state == "ready"


def test_the_engine_can_be_destroyed_twice(path):
    world = World(path).start()
    engine = world.connection.engine
    world.close()
    engine.destroy()


def test_an_end_of_input_without_a_close_is_a_failure(path):
    events = []

    class Handler:
        def engine_opened(self, peer): ...
        def engine_failed(self, reason):
            events.append(reason)

        def engine_closed(self, name, description):
            events.append((name, description))

    engine = module.Engine("c", {"hostname": "h", "x-sasl-mechs": "ANONYMOUS"}, Handler(), path)
    engine.open()
    engine.process(0.0)
    engine._connection.pyngus.close_input()
    engine.process(0.0)
    assert len(events) == 1
    assert engine.output() is not None
    engine.receive(b"too late")
    engine.process(1.0)
    assert len(events) == 1
    engine.destroy()


def test_the_path_in_c_is_the_default_where_it_was_built():
    assert type(module.default_path()) is SpeedupDeliveries


@pytest.fixture
def lacking(monkeypatch):
    """Have the import of a module of the package fail."""

    def lack(name):
        monkeypatch.delattr(package, name, raising=False)
        monkeypatch.setitem(sys.modules, f"amqp1_driver.engine.{name}", None)

    return lack


def test_without_a_path_there_is_the_next_best(lacking, caplog):
    caplog.set_level(logging.INFO)
    lacking("speedups")
    assert type(module._best_path()) is ProtonDeliveries
    assert "Messages take more processor time than they need to: " in caplog.text


def test_all_paths_have_the_same_functions():
    names = {
        "prepare",
        "register",
        "unregister",
        "pump",
        "push",
        "output",
        "output_written",
        "credit",
        "may_send",
        "send",
        "forget",
        "flow",
        "settle",
        "on_outcome",
        "on_delivery",
    }
    assert {name for name in vars(Deliveries) if not name.startswith("_")} == names
    for path in PATHS:
        assert names <= set(dir(path))


# -- leaks ---------------------------------------------------------------------------------------


def _cycle(path, number):
    """Connect, use everything, and go, one way or the other."""
    world = World(path).start()
    world.listen(credit=5)
    world.call()
    world.arrive(ANY)
    world.peer.remote_detach(ANY, closed=number % 2 == 0)
    world.run().advance(1)
    world.hold()
    world.cast("unsettled")
    if number % 3 == 0:
        world.peer.end_session(world.link("unicast.ex.unsettled").session.their_channel)
        world.run().advance(1)
    if number % 2:
        world.drop().advance(5)
    world.close()


def _population():
    gc.collect()
    gc.collect()
    kinds = (
        proton.Connection,
        proton.Transport,
        proton.Session,
        proton.Link,
        proton.Delivery,
        proton.Collector,
        module.EngineConnection,
        module.EngineSession,
        module.EngineSender,
        module.EngineReceiver,
        module.Engine,
    )
    return cproton.retained_count(), sum(isinstance(o, kinds) for o in gc.get_objects())


def test_nothing_is_left_of_connections_that_are_gone(path):
    for number in range(6):
        _cycle(path, number)
    before = _population()
    for number in range(24):
        _cycle(path, number)
    assert _population() == before


def test_nothing_piles_up_in_a_connection_that_loses_its_links(path):
    world = World(path).start()
    world.listen()

    def round_():
        for closed in (True, False):
            world.cast()
            for address in (ANY, "broadcast.ex.topic.all", "exclusive.ex.topic.server"):
                world.peer.remote_detach(address, closed=closed)
                world.run()
            world.advance(15)
            assert world.state == "ready"

    for _ in range(3):
        round_()
    before = _population()
    for _ in range(10):
        round_()
    assert _population() == before


def test_nothing_piles_up_with_messages(path):
    world = World(path).start()
    listener = world.listen()

    def round_():
        for _ in range(20):
            world.answer(world.call())
            world.cast(settled=True)
            world.arrive(ANY)
            world.settle(listener.deliveries.pop())
        world.peer.script.log.clear()
        world.peer.script.transfers.clear()
        world.peer.script.sent.clear()

    round_()
    before = _population()
    for _ in range(10):
        round_()
    assert _population() == before
    engine = world.connection.engine._connection
    for link in engine.all_links:
        assert link.unsettled == {}
