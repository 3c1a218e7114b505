# SPDX-License-Identifier: Apache-2.0

"""Threads that send as fast as it goes, or at a rate."""

from __future__ import annotations

import threading
import time

import pytest

from amqp1_driver.bench.workers.ledger import Histogram, unpack
from amqp1_driver.bench.workers.load import Load, drive, share


@pytest.mark.parametrize(
    ("count", "shares", "expected"), [(10, 3, [4, 3, 3]), (2, 3, [1, 1, 0]), (6, 2, [3, 3])]
)
def test_shares_add_up(count: int, shares: int, expected: list[int]) -> None:
    assert [share(count, shares, index) for index in range(shares)] == expected


def test_each_thread_numbers_its_messages_from_zero() -> None:
    seen = []
    done = drive(
        Load(time.monotonic_ns(), 60.0, 5, threads=2, sender=10),
        lambda sender, number, at: seen.append((sender, number)),
    )
    assert sorted(seen) == [(10, 0), (10, 1), (10, 2), (11, 0), (11, 1)]
    assert (done["sent"], done["failed"], done["errors"]) == (5, 0, {})
    assert {sender: unpack(states) for sender, states in done["states"].items()} == {
        "10": b"\1\1\1",
        "11": b"\1\1",
    }


def test_errors_are_counted_by_kind_with_the_words_of_the_first() -> None:
    def send(sender: int, number: int, at: int) -> None:
        if number == 1:
            raise KeyError("first")
        if number > 1:
            raise ValueError(f"at {number}")

    done = drive(Load(time.monotonic_ns(), 60.0, 4, threads=1, sender=0), send)
    assert done["errors"] == {"KeyError": (1, "'first'"), "ValueError": (2, "at 2")}
    assert (done["sent"], done["failed"]) == (1, 3)
    assert unpack(done["states"]["0"]) == b"\1\2\2\2"


def test_the_time_ends_it() -> None:
    past = time.monotonic_ns() - 2_000_000_000
    done = drive(Load(past, 1.0, 0, threads=3, sender=0), lambda *_: None)
    assert done["sent"] == 0


def test_the_warm_up_has_no_number_and_no_states() -> None:
    seen = []
    done = drive(
        Load(time.monotonic_ns(), 60.0, 1, threads=1, sender=-1),
        lambda sender, number, at: seen.append(sender),
    )
    assert (seen, done["states"]) == ([-1], {})


def test_at_a_rate_messages_are_due_evenly_whatever_became_of_those_before() -> None:
    start = time.monotonic_ns() - 10_000_000_000  # long ago: nothing has to be waited for
    due = []
    lock = threading.Lock()

    def send(sender: int, number: int, at: int) -> None:
        with lock:
            due.append((sender, at - start))

    drive(Load(start, 1.0, 0, threads=2, sender=2, rate=4, senders=4), send)
    # 4 senders at 4/s: one message a second each, a quarter of a second apart
    assert sorted(due) == [(2, 500_000_000), (3, 750_000_000)]


def test_at_a_rate_latency_counts_from_when_the_message_was_due() -> None:
    start = time.monotonic_ns() - 5_000_000_000
    done = drive(Load(start, 60.0, 3, threads=1, sender=0, rate=1), lambda *_: None)
    latency = Histogram.load(done["latency"])
    assert latency.count == 3
    assert latency.max >= 5_000_000_000
    assert latency.percentile(0) >= 3_000_000_000
