# SPDX-License-Identifier: Apache-2.0

"""The hub: bounded, never in the way, and every consumer gets what there is."""

import threading

from amqp1_driver.telemetry.events import Message, Origin
from amqp1_driver.telemetry.hub import Complaints, Hub

from .records import Clock, record

PATIENCE = 10.0


class Keeper:
    """Keeps records; waits for ``go`` before each batch."""

    def __init__(self):
        self.records = []
        self.ticks = 0
        self.closed = None
        self.busy = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def take(self, records):
        self.busy.set()
        assert self.go.wait(PATIENCE)
        self.records += records

    def tick(self):
        self.ticks += 1

    def close(self, timeout):
        self.closed = timeout


class Broken:
    def take(self, records):
        raise OSError(28, "No space left on device")

    tick = close = lambda *_: 1 / 0


def started(capacity=1000, **consumers):
    hub = Hub(consumers, capacity, interval=60.0)
    hub.start()
    return hub


def test_all_consumers_get_all_in_order():
    first, second = Keeper(), Keeper()
    hub = started(first=first, second=second)
    for number in range(250):
        hub.emit(record(str(number)))
    assert hub.flush(PATIENCE)
    assert [r.address for r in first.records] == [str(number) for number in range(250)]
    assert second.records == first.records
    assert hub.close(PATIENCE)


def test_what_is_too_much_is_dropped_counted_and_told_with_the_next_record():
    keeper = Keeper()
    hub = started(capacity=10, keeper=keeper)
    keeper.go.clear()
    hub.emit(record("first"))
    for number in range(3):  # a quarter of the capacity wakes the thread
        hub.emit(record(str(number)))
    assert keeper.busy.wait(PATIENCE)
    for number in range(17):
        hub.emit(record(f"late {number}"))
    assert hub.dropped == 7
    keeper.go.set()
    assert hub.flush(PATIENCE)
    hub.emit(record("last"))
    assert hub.close(PATIENCE)
    assert [(r.address, r.dropped) for r in keeper.records if r.dropped] == [("late 0", 7)]
    assert len(keeper.records) == 4 + 10 + 1
    assert hub.dropped == 7


def test_a_consumer_that_fails_is_kept_and_harms_no_other(caplog):
    keeper = Keeper()
    hub = started(broken=Broken(), keeper=keeper)
    for _ in range(2):
        hub.emit(record())
        assert hub.flush(PATIENCE)
    assert hub.close(PATIENCE)
    assert keeper.records == [record(), record()]
    assert caplog.text.count("No space left on device") == 1


def test_an_event_of_which_no_record_can_be_made_costs_no_more_than_its_batch(caplog):
    keeper = Keeper()
    hub = started(keeper=keeper)
    hub.emit(Message(Origin("c", 42), float("nan"), *[None] * 14))
    assert hub.flush(PATIENCE)
    hub.emit(record())
    assert hub.close(PATIENCE)
    assert keeper.records == [record()]
    assert "Telemetry: making records failed" in caplog.text


def test_closing_gives_what_is_left_and_then_closes():
    keeper = Keeper()
    hub = started(keeper=keeper)
    hub.emit(record())
    assert hub.close(7.0)
    assert (keeper.records, keeper.closed) == ([record()], 7.0)


def test_closing_does_not_wait_for_ever():
    keeper = Keeper()
    hub = started(keeper=keeper)
    keeper.go.clear()
    hub.emit(record())
    assert not hub.close(0.01)
    keeper.go.set()
    hub._thread.join(PATIENCE)
    assert keeper.closed is not None


def test_in_the_child_of_a_fork_a_green_thread_ends():
    keeper = Keeper()
    hub = started(keeper=keeper)
    hub.emit(record())
    hub.abandon()
    hub._wake.set()
    hub._thread.join(PATIENCE)
    assert not hub._thread.is_alive()
    assert (keeper.records, keeper.closed) == ([], None)


def test_complaints_are_rate_limited_and_counted(caplog):
    clock = Clock(100.0)
    complaints = Complaints("writing", clock)
    for _ in range(3):
        complaints.failed(OSError("disc full"))
    clock.now = 159.0
    complaints.failed(OSError("disc full"))
    clock.now = 160.0
    complaints.failed(OSError("disc full"))
    assert [record.getMessage() for record in caplog.records] == [
        "Telemetry: writing failed, and is tried further: disc full",
        "Telemetry: writing failed, and is tried further: disc full "
        "(3 times more since the last time)",
    ]
