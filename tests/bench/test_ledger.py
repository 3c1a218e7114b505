# SPDX-License-Identifier: Apache-2.0

"""What was sent and received, and how long it took, in little memory."""

from __future__ import annotations

import pytest

from amqp1_driver.bench.workers.ledger import Histogram, Ledger, pack, unpack


def histogram(*values: int) -> Histogram:
    result = Histogram()
    for value in values:
        result.add(value)
    return result


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (1, 1), (50, 50), (90, 90), (99, 99), (99.5, 100), (100, 100)]
)
def test_percentiles_of_small_values_are_exact_by_nearest_rank(
    percent: float, expected: int
) -> None:
    assert histogram(*range(1, 101)).percentile(percent) == expected


@pytest.mark.parametrize("value", [256, 1_000, 123_456, 5_000_000, 7_777_777_777])
def test_percentiles_are_never_below_and_at_most_a_128th_above(value: int) -> None:
    found = histogram(value, value, 60_000_000_000).percentile(50)
    assert value <= found <= value + value / 128


def test_no_percentile_exceeds_the_largest_value() -> None:
    assert histogram(1_000_003).percentile(99) == 1_000_003
    assert histogram(1_000_003).max == 1_000_003


def test_without_values_everything_is_zero() -> None:
    assert (Histogram().percentile(50), Histogram().max, Histogram().count) == (0, 0, 0)


def test_a_negative_duration_counts_as_zero() -> None:
    assert histogram(-5).percentile(50) == 0


def test_merged_histograms_are_as_one() -> None:
    merged = Histogram.merged([histogram(1, 2).dump(), histogram(2, 200).dump()])
    assert merged.dump() == {"max": 200, "buckets": [(1, 1), (2, 2), (200, 1)]}


def test_packed_marks_come_back_and_take_next_to_nothing() -> None:
    marks = b"\1" * 1_000_000
    assert unpack(pack(marks)) == marks
    assert len(pack(marks)) < 10_000


def test_copies_are_counted_for_each_message() -> None:
    ledger = Ledger()
    for sender, number in [(0, 0), (0, 2), (0, 2), (7, 1)]:
        ledger.note(sender, number, 100, 150)
    found = ledger.dump()
    assert found["received"] == 4
    assert found["last"] == 150
    assert {sender: unpack(marks) for sender, marks in found["marks"].items()} == {
        "0": b"\1\0\2",
        "7": b"\0\1",
    }
    assert found["delivery"] == {"max": 50, "buckets": [(50, 4)]}


def test_numbers_far_apart_are_told_apart() -> None:
    ledger = Ledger()
    ledger.note(0, 100_000, 0, 1)
    assert unpack(ledger.dump()["marks"]["0"]) == b"\0" * 100_000 + b"\1"


def test_the_warm_up_is_only_counted() -> None:
    ledger = Ledger()
    ledger.note(-1, 5, 0, 1)
    assert (ledger.warm, ledger.received, ledger.dump()["marks"]) == (1, 0, {})
