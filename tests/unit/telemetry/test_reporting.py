# SPDX-License-Identifier: Apache-2.0

"""Records over the bus: bounded, best effort, and what is lost is told."""

import json
import threading

import pytest

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination, Service
from amqp1_driver.connection.operation import Kind
from amqp1_driver.driver import reporting
from amqp1_driver.driver.reporting import BusSink

from .records import record

PATIENCE = 10.0
WHERE = Destination(Service.NOTIFY, "ex", "metrics.info")


class Client:
    """Takes messages while ``works``; each waits for ``go``."""

    def __init__(self):
        self.calls = []
        self.events = []
        self.works = True
        self.busy = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self.tried = threading.Semaphore(0)

    def start(self):
        self.events.append("start")

    def close(self):
        self.events.append("close")

    def request(self, kind, destination, body, *, timeout, retry):
        self.busy.set()
        assert self.go.wait(PATIENCE)
        try:
            if not self.works:
                raise exceptions.DeadlineExpired(stage="credit", host="bus:5672")
            self.calls.append(
                (
                    kind,
                    destination,
                    timeout,
                    retry,
                    [
                        (line["address"], line["dropped"])
                        for line in map(json.loads, body.splitlines())
                    ],
                )
            )
        finally:
            self.tried.release()

    @property
    def told(self):
        return [call[-1] for call in self.calls]


@pytest.fixture
def client():
    return Client()


@pytest.fixture
def sink(client):
    made = BusSink(lambda: client, WHERE)
    yield made
    client.go.set()
    made.close(PATIENCE)


def test_records_go_as_lines_when_the_hub_pauses_and_the_connection_is_closed(sink, client):
    sink.take([record("a"), record("b", dropped=3)])
    sink.take([record("c")])
    sink.tick()
    assert client.tried.acquire(timeout=PATIENCE)
    sink.take([record("d")])
    sink.close(PATIENCE)
    assert client.calls == [
        (Kind.NOTIFY, WHERE, 5.0, 0, [("a", 0), ("b", 3), ("c", 0)]),
        (Kind.NOTIFY, WHERE, 1.0, 0, [("d", 0)]),
    ]
    assert client.events == ["start", "close"]


def test_a_message_has_500_records_at_most(sink, client):
    sink.take([record(str(number)) for number in range(1200)])
    sink.close(PATIENCE)
    assert [len(told) for told in client.told] == [500, 500, 200]
    assert client.told[2][-1] == ("1199", 0)


def test_what_could_not_be_sent_is_told_with_the_next(sink, client, caplog):
    client.works = False
    for name in "ab":
        sink.take([record(name, dropped=2), record(name)])
        sink.tick()
        assert client.tried.acquire(timeout=PATIENCE)
    client.works = True
    sink.take([record("c", dropped=1)])
    sink.close(PATIENCE)
    assert client.told == [[("c", 2 * 4 + 1)]]
    assert caplog.text.count("sending telemetry over the bus failed") == 1


def test_what_there_is_no_room_for_is_told_with_the_next(sink, client, monkeypatch):
    monkeypatch.setattr(reporting, "CAPACITY", 3)
    client.go.clear()
    sink.take([record("first")])
    sink.tick()
    assert client.busy.wait(PATIENCE)
    sink.take([record(name) for name in "abcde"])
    sink.take([record("f", dropped=4)])
    client.go.set()
    sink.tick()
    assert client.tried.acquire(timeout=PATIENCE)
    assert client.tried.acquire(timeout=PATIENCE)
    assert client.told == [[("first", 0)], [("a", 2 + 5), ("b", 0), ("c", 0)]]


def test_at_the_end_a_bus_that_takes_nothing_is_asked_once(sink, client):
    client.works = False
    sink.take([record(str(number)) for number in range(1200)])
    sink.close(PATIENCE)
    assert client.events == ["start", "close"]
    assert client.tried.acquire(blocking=False)
    assert not client.tried.acquire(blocking=False)
