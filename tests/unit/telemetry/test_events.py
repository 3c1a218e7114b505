# SPDX-License-Identifier: Apache-2.0

"""Events become flat records, and those become JSON lines, with these names."""

import json

from amqp1_driver import exceptions
from amqp1_driver.telemetry import events
from amqp1_driver.telemetry.events import Message, Origin, Record
from amqp1_driver.telemetry.observer import Observer

ORIGIN = Origin("nova-1", 42)
#: 2026-11-22 00:00:00 UTC
MIDNIGHT = 1795305600.0


class Last:
    """A sink that keeps the last event."""

    def emit(self, event) -> None:
        self.event = event


def observed(method, *args, now=MIDNIGHT, **more):
    """Return the record of what an observer was told."""
    sink = Last()
    getattr(Observer(sink, ORIGIN, lambda: 0.0, lambda: now), method)("bus:5672", *args, **more)
    return sink.event.record()


def test_the_columns_are_those_that_the_pipeline_reads() -> None:
    assert events.FIELDS == (
        "time",
        "kind",
        "container",
        "pid",
        "host",
        "address",
        "operation",
        "message_id",
        "outcome",
        "error",
        "stage",
        "handover_us",
        "wait_us",
        "ack_us",
        "reply_us",
        "total_us",
        "size",
        "credit",
        "state",
        "dropped",
    )
    assert {
        "kind",
        "container",
        "host",
        "address",
        "operation",
        "message_id",
        "outcome",
        "error",
        "stage",
        "state",
    } == events.TEXTS


def test_a_call_with_its_reply() -> None:
    event = Message(
        ORIGIN,
        MIDNIGHT + 0.25,
        "send",
        "bus:5672",
        "/queues/q",
        "call",
        "a-1",
        "accepted",
        None,
        None,
        0.00002,
        0.00001,
        0.0015,
        0.002,
        0.0021,
        100,
    )
    assert event.record() == Record(
        time=1795305600250000,
        kind="send",
        container="nova-1",
        pid=42,
        host="bus:5672",
        address="/queues/q",
        operation="call",
        message_id="a-1",
        outcome="accepted",
        error=None,
        stage=None,
        handover_us=20,
        wait_us=10,
        ack_us=1500,
        reply_us=2000,
        total_us=2100,
        size=100,
        credit=None,
        state=None,
        dropped=0,
    )


def test_a_cast_that_was_never_sent() -> None:
    event = Message(
        ORIGIN,
        MIDNIGHT,
        "send",
        "bus:5672",
        "topic",
        "cast",
        "a-2",
        "timeout",
        "DeadlineExpired",
        "connection",
        0.00002,
        None,
        None,
        None,
        30.0,
        100,
    )
    assert event.record(dropped=7) == Record(
        time=1795305600000000,
        kind="send",
        container="nova-1",
        pid=42,
        host="bus:5672",
        address="topic",
        operation="cast",
        message_id="a-2",
        outcome="timeout",
        error="DeadlineExpired",
        stage="connection",
        handover_us=20,
        wait_us=None,
        ack_us=None,
        reply_us=None,
        total_us=30000000,
        size=100,
        credit=None,
        state=None,
        dropped=7,
    )


def test_stalls_of_subscriptions_have_a_credit_those_of_senders_a_stage() -> None:
    assert observed("stalled", "q", 100) == Record(
        time=1795305600000000,
        kind="stall",
        container="nova-1",
        pid=42,
        host="bus:5672",
        address="q",
        credit=100,
    )
    assert observed("stalled", "q", None) == Record(
        time=1795305600000000,
        kind="stall",
        container="nova-1",
        pid=42,
        host="bus:5672",
        address="q",
        stage="credit",
    )
    assert observed("resumed", "q", 1.5, 100, ended=False) == Record(
        time=1795305600000000,
        kind="resume",
        container="nova-1",
        pid=42,
        host="bus:5672",
        address="q",
        total_us=1500000,
        credit=100,
    )
    assert observed("resumed", None, 2.0, None, ended=True) == Record(
        time=1795305600000000,
        kind="resume",
        container="nova-1",
        pid=42,
        host="bus:5672",
        outcome="none",
        stage="credit",
        total_us=2000000,
    )


def test_changes_of_state() -> None:
    error = exceptions.ConnectionLost()
    assert observed("connection", "backoff", error) == Record(
        time=1795305600000000,
        kind="connection",
        container="nova-1",
        pid=42,
        host="bus:5672",
        error="ConnectionLost",
        state="backoff",
    )
    assert observed("link", "q", "attached").record(2) == Record(
        time=1795305600000000,
        kind="link",
        container="nova-1",
        pid=42,
        host="bus:5672",
        address="q",
        state="attached",
        dropped=2,
    )


def test_json_lines_leave_out_what_does_not_apply() -> None:
    records = [
        observed("stalled", "q\u00e9", 100, now=MIDNIGHT + 0.000001),
        observed("link", "q", "attached"),
    ]
    assert events.to_lines(records) == (
        b'{"time":"2026-11-22T00:00:00.000001Z","kind":"stall","container":"nova-1","pid":42,'
        b'"host":"bus:5672","address":"q\xc3\xa9","credit":100,"dropped":0}\n'
        b'{"time":"2026-11-22T00:00:00.000000Z","kind":"link","container":"nova-1","pid":42,'
        b'"host":"bus:5672","address":"q","state":"attached","dropped":0}\n'
    )


def test_text_that_is_no_unicode_does_not_fail_the_rest() -> None:
    line = events.to_lines([observed("stalled", "\ud800", None)])
    assert b'"address":"?"' in line


def test_json_reads_what_is_written_by_hand() -> None:
    strange = 'a "b" \\ \n \u2028 \x00 é 😀'
    record = Record(
        1795305600250000, "send", strange, 42, host=strange, handover_us=0, total_us=2100, dropped=7
    )
    (line,) = events.to_lines([record]).decode().split("\n")[:-1]
    assert json.loads(line) == {
        "time": "2026-11-22T00:00:00.250000Z",
        "kind": "send",
        "container": strange,
        "pid": 42,
        "host": strange,
        "handover_us": 0,
        "total_us": 2100,
        "dropped": 7,
    }
