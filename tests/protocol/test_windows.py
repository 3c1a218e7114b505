# SPDX-License-Identifier: Apache-2.0

"""The windows of sessions (2.5.6): ours has a bound by option, the peer's holds messages back."""

import logging

import pytest

from amqp1_driver.connection.operation import Kind, Stage
from amqp1_driver.engine import session_window as windows
from amqp1_driver.engine import speedups
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing import reactions
from amqp1_driver.testing.messages import Message

from .world import World, rabbitmq

ANY = "unicast.ex.topic"
MIB = 1048576


# -- ours --------------------------------------------------------------------------------------


class Sending:
    """A peer that keeps to our window: sends a message in frames of 16 KiB, as far as it may."""

    def __init__(self, world, address):
        self.world = world
        self.link = world.link(address)
        self.frames = 0
        #: transfer-id of the next frame, and of the first that is not allowed
        self.sent = self.allowed = self.link.session.next_outgoing_id
        self.largest = 0
        session = self.link.session
        begin = session.begin
        self.allowed += begin.incoming_window
        world.peer.override(None).expect_flow().call(self._flow)

    def _flow(self, event):
        flow = event.performative
        self.allowed = flow.next_incoming_id + flow.incoming_window
        self.largest = max(self.largest, flow.incoming_window)

    def send(self, payload, size=16384):
        link, session = self.link, self.link.session
        number, session.next_delivery_id = session.next_delivery_id, session.next_delivery_id + 1
        first = {"delivery_id": number, "delivery_tag": b"t%d" % number, "message_format": 0}
        for at in range(0, len(payload), size):
            if self.sent == self.allowed:
                self.world.run()
            assert self.sent < self.allowed, "the window stays closed"
            session.core.send(
                p.Transfer(
                    handle=link.handle, more=at + size < len(payload), **(first if at == 0 else {})
                ),
                session.our_channel,
                payload[at : at + size],
            )
            self.sent += 1
            self.frames += 1
        link.credit -= 1
        link.delivery_count += 1
        self.world.run()


@pytest.mark.parametrize("window", [1, 2, 5, 63, 64])
def test_a_message_that_is_larger_than_the_window_comes_whole(path, window):
    world = World(
        path, session_window=window, max_frame_size=16512, peer={"max_frame_size": 16512}
    ).start()
    listener = world.listen(credit=10)
    sending = Sending(world, ANY)
    messages = [Message("x" * MIB).encode(), Message("small").encode(), Message("y" * MIB).encode()]
    for message in messages:
        sending.send(message)
    assert [
        delivery.data == message
        for delivery, message in zip(listener.deliveries, messages, strict=True)
    ] == [True, True, True]
    assert sending.frames == 65 + 1 + 65
    assert sending.largest <= window
    for delivery in listener.deliveries:
        world.settle(delivery)


def test_without_the_option_the_window_is_as_large_as_can_be(path):
    world = World(path, peer={"max_frame_size": 16512}).start()
    listener = world.listen(credit=10)
    assert world.link(ANY).session.begin.incoming_window == 2147483647
    Sending(world, ANY).send(Message("x" * MIB).encode())
    assert len(listener.deliveries) == 1


def test_a_binding_that_lacks_the_function_counts_in_bytes(path, monkeypatch):
    monkeypatch.setattr(windows, "_set_incoming", None)
    world = World(
        path, session_window=3, max_frame_size=16512, peer={"max_frame_size": 16512}
    ).start()
    listener = world.listen(credit=10)
    assert world.link(ANY).session.begin.incoming_window == 3
    Sending(world, ANY).send(Message("x" * MIB).encode())
    assert len(listener.deliveries) == 1


def test_a_message_that_is_aborted_half_way_leaves_nothing_behind(path):
    world = World(
        path, session_window=2, max_frame_size=16512, peer={"max_frame_size": 16512}
    ).start()
    listener = world.listen(credit=10)
    link = world.link(ANY)
    session = link.session
    number, session.next_delivery_id = session.next_delivery_id, session.next_delivery_id + 1
    session.core.send(
        p.Transfer(
            handle=link.handle, delivery_id=number, delivery_tag=b"x", message_format=0, more=True
        ),
        session.our_channel,
        b"half",
    )
    world.run()
    session.core.send(p.Transfer(handle=link.handle, aborted=True), session.our_channel)
    session.next_outgoing_id += 2
    link.credit -= 1
    link.delivery_count += 1
    world.run().arrive(ANY, "whole")
    assert listener.bodies == [b"whole"]


def test_a_bus_that_does_not_keep_to_a_window_gets_none(path, caplog):
    world = World(
        path,
        session_window=2,
        max_frame_size=16512,
        peer={"product": "Apache Qpid Broker-J Core", "version": "9.2.1"},
    ).start()
    windows_given = [entry.performative.incoming_window for entry in world.peer.frames(p.Begin)]
    assert set(windows_given) == {2147483647}
    assert "session_window has no effect with host0:5672" in caplog.text


# -- the peer's --------------------------------------------------------------------------------


def close_window(world):
    """As RabbitMQ does in an alarm: credit stays, and no link is named."""
    for session in world.core.sessions.values():
        session.window = 0  # which would open it again
        world.core.flow(session, incoming_window=0)
    world.run()


def open_window(world, frames=400):
    for session in world.core.sessions.values():
        world.core.flow(session, incoming_window=frames)
    world.run()


@pytest.fixture
def alarmed(path):
    """A RabbitMQ that has raised an alarm, over a connection that was in use."""
    world, _ = rabbitmq(path, blocked_warning_interval=10.0)
    world.start()
    assert world.cast(server="s").future.done
    close_window(world)
    return world


def test_a_message_that_does_not_fit_is_not_sent_at_its_deadline(alarmed):
    op = alarmed.cast(server="s", timeout=3)
    alarmed.advance(2.9)
    assert (op.stage, op.future.done) == (Stage.QUEUED, False)
    alarmed.advance(0.4)
    assert type(op.future.error).__name__ == "DeadlineExpired"
    assert "timed out waiting for connection or credit" in str(op.future.error)
    open_window(alarmed)
    assert len(alarmed.peer.transfers) == 1


def test_a_lost_connection_leaves_it_in_no_doubt(alarmed):
    op = alarmed.cast(server="s")
    alarmed.drop().advance(5)
    assert (op.future.done, op.future.error) == (True, None)


def test_it_goes_out_in_order_as_soon_as_the_window_opens(alarmed):
    ops = [alarmed.cast(server="s", body=b"%d" % number) for number in range(5)]
    before = len(alarmed.peer.transfers)
    open_window(alarmed, 3)
    assert [t.body for t in alarmed.peer.transfers[before:]] == ["0", "1", "2"]
    assert [op.future.done for op in ops] == [True, True, True, False, False]
    open_window(alarmed)
    assert [t.body for t in alarmed.peer.transfers[before:]] == ["0", "1", "2", "3", "4"]


def test_no_more_is_given_to_proton_than_the_window_takes(path):
    world, _ = rabbitmq(path)
    world.start()
    world.cast(server="s")
    world.hold()
    close_window(world)
    open_window(world, 3)
    ops = [world.request(Kind.CAST, server="s") for _ in range(10)]
    for op in ops:
        world.connection.send(op)
    world.run()
    stages = [op.stage for op in ops]
    assert stages == [Stage.SENT] * 3 + [Stage.QUEUED] * 7
    assert len(world.peer.transfers) == 4


def test_a_large_message_counts_by_its_frames(path):
    world, _ = rabbitmq(path)
    world.peer.script.defaults.max_frame_size = 4096
    world.start()
    world.cast(server="s")
    close_window(world)
    open_window(world, 3)
    large = world.request(Kind.CAST, server="s", body=b"x" * 20000)
    small = world.request(Kind.CAST, server="s")
    world.connection.send(large)
    world.connection.send(small)
    world.run()
    assert (large.stage, small.stage) == (Stage.SENT, Stage.QUEUED)
    open_window(world, 100)
    assert (large.future.done, small.future.done) == (True, True)


def test_receiving_goes_on(path):
    world, _ = rabbitmq(path)
    world.start()
    listener = world.listen(credit=2)
    close_window(world)
    link = next(x for x in world.peer.links if x.name.startswith("receive."))
    for number in range(5):
        world.arrive(link.address, str(number), link=link)
        world.settle(listener.deliveries[-1])
    assert listener.bodies == [b"0", b"1", b"2", b"3", b"4"]
    assert link.credit == 1


def test_it_is_told_repeated_and_its_end_too(alarmed, caplog):
    caplog.set_level(logging.INFO)
    alarmed.cast(server="s", timeout=60)
    alarmed.advance(21)
    said = [record.getMessage() for record in caplog.records if "blocked" in record.getMessage()]
    why = "the peer has closed its session's window, as RabbitMQ does in an alarm"
    assert said == [
        f"1 message(s) to any address on host0:5672 blocked since 10.0 s: {why}",
        f"1 message(s) to any address on host0:5672 blocked since 20.0 s: {why}",
    ]
    alarmed.advance(1)
    open_window(alarmed)
    assert caplog.records[-1].getMessage() == (
        f"Sending to any address on host0:5672 goes on: blocked for 22.0 s ({why})"
    )


def test_that_all_have_given_up_is_not_told_as_going_on(alarmed, caplog):
    """Links that are held are looked at with every batch."""
    caplog.set_level(logging.INFO)
    op = alarmed.cast(server="s", timeout=60)
    alarmed.advance(11)
    assert "blocked since" in caplog.text
    queue = op.queue
    alarmed.connection.cancel(op)
    alarmed.run()
    alarmed.advance(5)
    assert "goes on" not in caplog.text
    # for the caller whose time has passed, and who asks only now
    assert queue.waits_for == "the session's window, which RabbitMQ closes in an alarm"


def test_an_alarm_makes_no_links_of_their_own(alarmed):
    before = len(alarmed.attaches())
    for number in range(5):
        alarmed.cast(f"t{number}", server="s")
    assert len(alarmed.attaches()) == before


def test_a_link_that_is_detached_while_it_is_held_is_not_asked_any_more(alarmed):
    op = alarmed.cast(server="s", timeout=60)
    relay = next(
        link
        for link in alarmed.peer.links
        if link.client_sends and link.attach.target.address is None
    )
    reactions.detach(relay, "amqp:link:detach-forced")
    alarmed.run()
    open_window(alarmed)
    alarmed.advance(2)
    assert (op.future.done, op.future.error) == (True, None)


@pytest.fixture(params=["_remote", "_outgoing"])
def untold(request):
    """A binding that does not tell the window."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, request.param, None)
        speedups.bind()
        yield
    speedups.bind()


@pytest.mark.usefixtures("untold")
def test_where_the_binding_does_not_tell_the_window_proton_holds_messages(path):
    world, _ = rabbitmq(path)
    world.start()
    assert world.cast(server="s").future.done
    close_window(world)
    op = world.cast(server="s")
    assert (op.stage, op.future.done) == (Stage.SENT, False)
    open_window(world)
    assert op.future.done
