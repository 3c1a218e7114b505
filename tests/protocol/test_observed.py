# SPDX-License-Identifier: Apache-2.0

"""What an observer is told of messages, credit, links and the connection; by the fake clock."""

from functools import partial

import pytest

from amqp1_driver import codec, exceptions
from amqp1_driver.client.timings import TimedReply, TimedRequest, message
from amqp1_driver.connection.operation import Kind, Payload
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.retry import Backoff, Retry
from amqp1_driver.telemetry.events import Origin, Record
from amqp1_driver.telemetry.observer import Observer
from amqp1_driver.testing import performatives as p

from .world import World

ANY = "unicast.ex.topic"
ORIGIN = Origin("container", 42)


class Sink:
    """Keeps records; forgets them when they are looked at."""

    def __init__(self):
        self.events = []

    def emit(self, event):
        self.events.append(event)

    def take(self, *kinds):
        found, self.events = [event.record() for event in self.events], []
        return [record for record in found if record.kind in kinds]


class Observed(World):
    """A world with an observer; requests and replies are those that note their times."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.sink = Sink()
        self.observer = self.port.observer = Observer(
            self.sink, ORIGIN, self.clock, lambda: self.clock() - 1000.0
        )

    def request(self, kind, topic="topic", **more):
        plain = super().request(kind, topic, **more)
        op = TimedRequest(
            self.observer,
            Payload(kind, plain.message_id, plain.body, plain.settled),
            plain.destination,
            plain.deadline,
            plain.retry,
            plain.future,
            ttl=plain.ttl,
        )
        if self.context is not None:
            op.bind(self.context, self.clock())
        return op

    def send(self, op):
        op.timings.taken = self.clock()
        return super().send(op)

    def told(self, op):
        """As the caller tells it."""
        return message(op, self.observer, lambda: "host0:5672", op.future.error).record()

    def respond(self, kind=Kind.REPLY, **more):
        op = TimedReply(
            self.observer,
            lambda: "host0:5672",
            Payload(
                kind,
                "their",
                b"" if kind is Kind.HEARTBEAT else b"answer",
                settled=kind is Kind.HEARTBEAT,
            ),
            "caller",
            codec.primitives.encode("their"),
            Deadline.after(10.0, self.clock()),
            Retry.of(0, Backoff(0.2, 2.0, 10.0)),
            **more,
        )
        op.bind(self.context, self.clock())
        self.send(op)


@pytest.fixture
def observed(path):
    """Ready; the peer settles only what it is told to."""
    world = Observed(path).start()
    world.hold()
    world.sink.events.clear()
    return world


def record(**fields):
    return Record(**{"container": "container", "pid": 42, "host": "host0:5672", **fields})


def sent(**fields):
    return record(
        **{
            "kind": "send",
            "address": ANY,
            "size": 4,
            "message_id": "m1",
            "handover_us": 0,
            "wait_us": 0,
            **fields,
        }
    )


# -- messages ------------------------------------------------------------------------------------


def test_a_call_its_acknowledgement_and_its_reply(observed):
    op = observed.request(Kind.CALL)
    observed.advance(0.25)
    observed.send(op)
    observed.advance(0.5)
    observed.outcome(p.Accepted())
    observed.advance(1.0)
    observed.answer(op)
    assert observed.told(op) == sent(
        time=1750000,
        operation="call",
        outcome="accepted",
        handover_us=250000,
        ack_us=500000,
        reply_us=1500000,
        total_us=1750000,
    )


def test_a_reply_that_overtakes_the_acknowledgement(observed):
    op = observed.call()
    observed.advance(0.5)
    observed.answer(op)
    observed.outcome(p.Accepted())
    assert observed.told(op) == sent(
        time=500000, operation="call", outcome="accepted", reply_us=500000, total_us=500000
    )


def test_a_cast(observed):
    op = observed.cast()
    observed.advance(0.5)
    observed.outcome(p.Accepted())
    assert observed.told(op) == sent(
        time=500000, operation="cast", outcome="accepted", ack_us=500000, total_us=500000
    )


def test_a_fanout_and_a_notification(observed):
    fanout = observed.cast(fanout=True)
    observed.outcome(p.Accepted())
    assert observed.told(fanout) == sent(
        time=0,
        operation="fanout",
        outcome="accepted",
        address="broadcast.ex.topic.all",
        ack_us=0,
        total_us=0,
    )
    notification = observed.send(observed.request(Kind.NOTIFY))
    observed.outcome(p.Accepted())
    assert observed.told(notification) == sent(
        time=0, operation="notification", outcome="accepted", message_id="m2", ack_us=0, total_us=0
    )


def test_what_is_sent_settled_has_no_outcome(observed):
    op = observed.cast(settled=True)
    assert observed.told(op) == sent(time=0, operation="cast", outcome="none", total_us=0)


@pytest.mark.parametrize(
    "state, outcome, error",
    [
        (p.Rejected(error=p.Error(condition="amqp:not-found")), "rejected", "amqp:not-found"),
        (p.Released(), "released", "DeliveryReleased"),
        (p.Modified(delivery_failed=True), "modified", "DeliveryModified"),
    ],
)
def test_outcomes_of_the_bus(observed, state, outcome, error):
    op = observed.cast(retry=0)
    observed.advance(0.5)
    observed.outcome(state)
    assert observed.told(op) == sent(
        time=500000,
        operation="cast",
        outcome=outcome,
        error=error,
        stage="acknowledgement",
        ack_us=500000,
        total_us=500000,
    )


def test_a_message_in_doubt(observed):
    op = observed.cast()
    observed.advance(0.5)
    observed.drop()
    assert observed.told(op) == sent(
        time=500000,
        operation="cast",
        outcome="unknown",
        error="InDoubt",
        stage="acknowledgement",
        total_us=500000,
    )


# -- where what timed out stood ----------------------------------------------------------------


def timed_out(world, op):
    """As the caller sees it: it gives up, and the I/O thread is told."""
    op.future.set_exception(exceptions.DeadlineExpired(stage="", host="host0:5672, host1:5672"))
    world.connection.cancel(op)
    world.run()
    return world.told(op)


def test_timeout_waiting_for_a_connection(path):
    world = Observed(path)
    world.modes["host0:5672"] = "silent"
    world.start()
    op = world.cast()
    world.advance(2.0)
    assert timed_out(world, op) == record(
        time=2000000,
        kind="send",
        address="topic",
        operation="cast",
        message_id="m1",
        outcome="timeout",
        error="DeadlineExpired",
        stage="connection",
        handover_us=0,
        total_us=2000000,
        size=4,
    )


def test_timeout_waiting_for_a_link(observed):
    observed.peer.override(None).expect_attach(role="sender").refuse("amqp:not-found")
    op = observed.cast()
    observed.advance(2.0)
    assert timed_out(observed, op) == sent(
        time=2000000,
        operation="cast",
        outcome="timeout",
        error="DeadlineExpired",
        stage="link",
        wait_us=None,
        total_us=2000000,
    )


def test_timeout_waiting_for_credit(observed):
    observed.no_credit()
    op = observed.cast()
    observed.advance(2.0)
    assert timed_out(observed, op) == sent(
        time=2000000,
        operation="cast",
        outcome="timeout",
        error="DeadlineExpired",
        stage="credit",
        wait_us=None,
        total_us=2000000,
    )


def test_timeout_waiting_for_the_outcome(observed):
    op = observed.cast()
    observed.advance(2.0)
    assert timed_out(observed, op) == sent(
        time=2000000,
        operation="cast",
        outcome="timeout",
        error="DeadlineExpired",
        stage="acknowledgement",
        total_us=2000000,
    )


def test_timeout_waiting_for_the_reply(observed):
    op = observed.call()
    observed.advance(0.5)
    observed.outcome(p.Accepted())
    observed.advance(1.5)
    assert timed_out(observed, op) == sent(
        time=2000000,
        operation="call",
        outcome="timeout",
        error="DeadlineExpired",
        stage="reply",
        ack_us=500000,
        total_us=2000000,
    )


def test_what_the_io_thread_never_had(observed):
    op = observed.request(Kind.CAST)
    op.fail(exceptions.Closed(host="host0:5672"))
    assert observed.told(op) == sent(
        time=0,
        operation="cast",
        outcome="none",
        error="Closed",
        stage="handover",
        handover_us=None,
        wait_us=None,
        total_us=0,
    )


# -- replies and heartbeats ----------------------------------------------------------------------


def test_a_reply_tells_of_itself_once(observed):
    observed.respond()
    assert observed.sink.take("reply") == []
    observed.advance(0.5)
    observed.outcome(p.Accepted())
    assert observed.sink.take("reply") == [
        record(
            time=500000,
            kind="reply",
            address="caller",
            operation="reply",
            message_id="their",
            outcome="accepted",
            handover_us=0,
            wait_us=0,
            ack_us=500000,
            total_us=500000,
            size=6,
        )
    ]


def test_what_fails_twice_is_told_once(observed):
    op = TimedReply(
        observed.observer,
        lambda: "host0:5672",
        Payload(Kind.REPLY, "their", b""),
        "caller",
        b"",
        Deadline.after(10.0, observed.clock()),
        Retry.of(0, Backoff(0.2, 2.0, 10.0)),
    )
    for _ in range(2):
        op.fail(exceptions.Closed())
    assert [r.error for r in observed.sink.take("reply")] == ["Closed"]


def test_a_reply_that_nobody_takes(observed):
    observed.respond()
    observed.outcome(p.Released())
    assert observed.sink.take("reply") == [
        record(
            time=0,
            kind="reply",
            address="caller",
            operation="reply",
            message_id="their",
            outcome="released",
            error="DeliveryReleased",
            stage="acknowledgement",
            handover_us=0,
            wait_us=0,
            ack_us=0,
            total_us=0,
            size=6,
        )
    ]


def test_a_heartbeat(observed):
    observed.respond(Kind.HEARTBEAT)
    assert observed.sink.take("reply") == [
        record(
            time=0,
            kind="reply",
            address="caller",
            operation="heartbeat",
            message_id="their",
            outcome="none",
            handover_us=0,
            wait_us=0,
            total_us=0,
            size=0,
        )
    ]


# -- credit --------------------------------------------------------------------------------------


def test_a_subscription_without_credit_until_it_settles(observed):
    listener = observed.listen(credit=4)
    for number in range(4):
        observed.arrive(ANY, str(number))
    observed.advance(1.5)
    for delivery in listener.deliveries[:3]:
        observed.settle(delivery)
    assert observed.sink.take("stall", "resume") == [
        record(time=0, kind="stall", address=ANY, credit=4),
        record(time=1500000, kind="resume", address=ANY, credit=4, total_us=1500000),
    ]


def test_a_larger_window_ends_a_stall(observed):
    listener = observed.listen(credit=2)
    for number in range(2):
        observed.arrive(ANY, str(number))
    observed.sink.events.clear()
    observed.advance(1.0)
    listener.subscription.resize(10)
    assert observed.sink.take("resume") == [
        record(time=1000000, kind="resume", address=ANY, credit=2, total_us=1000000)
    ]


def test_a_reader_that_is_bounded_as_a_whole_ends_a_stall(observed):
    listener = observed.listen(credit=2)
    listener.subscription.room = 6
    for number in range(2):
        observed.arrive(ANY, str(number))
    observed.sink.events.clear()
    observed.advance(1.0)
    listener.subscription.settle_all(listener.deliveries, 6)
    assert observed.sink.take("resume") == [
        record(time=1000000, kind="resume", address=ANY, credit=2, total_us=1000000)
    ]


def test_a_stall_of_the_reply_link(path):
    world = Observed(path, reply_link_credit=1).start()
    op = world.call()
    world.answer(op)
    assert world.sink.take("stall", "resume") == [
        record(time=0, kind="stall", address="peer/dynamic/1", credit=1),
        record(time=0, kind="resume", address="peer/dynamic/1", credit=1, total_us=0),
    ]


def test_a_sender_without_credit_until_it_gets_some(observed):
    observed.no_credit()
    observed.cast()
    observed.advance(1.5)
    observed.grant(1, ANY)
    assert observed.sink.take("stall", "resume") == [
        record(time=0, kind="stall", address=ANY, stage="credit"),
        record(time=1500000, kind="resume", address=ANY, stage="credit", total_us=1500000),
    ]


def test_a_stall_lasts_until_there_is_credit_also_when_nobody_waits_any_more(observed):
    observed.no_credit()
    observed.cast(timeout=1.0)
    observed.advance(5.0)
    observed.grant(1, ANY)
    assert observed.sink.take("stall", "resume") == [
        record(time=0, kind="stall", address=ANY, stage="credit"),
        record(time=5000000, kind="resume", address=ANY, stage="credit", total_us=5000000),
    ]


def test_a_stall_ends_when_nobody_waits_while_others_are_under_way(observed):
    observed.no_credit()
    observed.cast()
    observed.grant(1, ANY)
    observed.sink.events.clear()
    observed.cast(timeout=1.0)
    observed.advance(5.0)
    stall, resume = observed.sink.take("stall", "resume")
    assert stall == record(time=0, kind="stall", address=ANY, stage="credit")
    assert resume == record(
        time=resume.time,
        kind="resume",
        address=ANY,
        stage="credit",
        outcome="none",
        total_us=resume.time,
    )
    assert 1000000 < resume.time < 5000000  # the coarse timer sees it


def test_a_link_that_comes_back_without_credit_is_another_stall(observed):
    observed.no_credit()
    observed.cast()
    observed.peer.remote_detach(ANY, "amqp:link:detach-forced")
    observed.run()
    observed.advance(1.0)
    stalls = [(r.kind, r.outcome) for r in observed.sink.take("stall", "resume")]
    assert stalls == [("stall", None), ("resume", "none"), ("stall", None)]


def test_a_stall_that_ends_with_the_connection(observed):
    observed.no_credit()
    observed.cast()
    observed.advance(0.5)
    observed.drop()
    assert observed.sink.take("stall", "resume")[:2] == [
        record(time=0, kind="stall", address=ANY, stage="credit"),
        record(
            time=500000, kind="resume", address=ANY, stage="credit", outcome="none", total_us=500000
        ),
    ]


# -- states --------------------------------------------------------------------------------------


def test_the_states_of_a_connection_and_why(path):
    world = Observed(path, hosts=2).start()
    change = partial(record, kind="connection")
    assert world.sink.take("connection") == [
        change(time=0, state="connecting"),
        change(time=0, state="opening"),
        change(time=0, state="attaching"),
        change(time=0, state="ready"),
    ]
    world.drop()
    assert world.sink.take("connection")[0] == change(
        time=0, state="backoff", error="ConnectionLost"
    )


def test_the_end_of_a_connection_is_no_error(observed):
    observed.close()
    assert observed.sink.take("connection") == [
        record(time=0, kind="connection", state="closing"),
        record(time=0, kind="connection", state="closed"),
    ]


def test_the_death_of_the_loop_is_told(observed):
    observed.connection.abort(exceptions.LoopDied())
    assert observed.sink.take("connection") == [
        record(time=0, kind="connection", state="closed", error="LoopDied")
    ]


def test_the_states_of_a_link_and_why(observed):
    observed.listen(server=None)
    assert observed.sink.take("link")[:2] == [
        record(time=0, kind="link", address=ANY, state="attaching"),
        record(time=0, kind="link", address="broadcast.ex.topic.all", state="attaching"),
    ]
    observed.peer.remote_detach(ANY, "amqp:resource-deleted")
    observed.run()
    assert observed.sink.take("link") == [
        record(
            time=0, kind="link", address=ANY, state="reattach wait", error="amqp:resource-deleted"
        )
    ]


# -- nothing of this changes what the driver does -------------------------------------------------


def test_a_sink_that_raises_is_named_once_and_harms_nobody(path, caplog):
    class Broken:
        def emit(self, event):
            raise RuntimeError("no sink")

    world = Observed(path)
    world.observer._sink = Broken()
    world.start()
    op = world.call()
    world.answer(op)
    assert (world.state, op.future.error, op.future.value.body) == ("ready", None, b"answer")
    assert caplog.text.count("Telemetry sink") == 1
