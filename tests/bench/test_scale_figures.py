# SPDX-License-Identifier: Apache-2.0

"""Growth, fairness, peaks and trends, against literals."""

from __future__ import annotations

import pytest

from amqp1_driver.bench.figures import exponent, jain, peak, percentile, trend


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((10, 5.0), (100, 50.0), 1.0),
        ((10, 5.0), (100, 500.0), 2.0),
        ((10, 5.0), (1000, 50.0), 0.5),
        ((10, 5.0), (100, 5.0), 0.0),
        ((10, 5.0), (100, 0.5), -1.0),
    ],
)
def test_growth_is_a_power_of_n(
    before: tuple[int, float], after: tuple[int, float], expected: float
) -> None:
    assert exponent(before, after) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((10, None), (100, 1.0)),
        ((10, 1.0), (100, None)),
        ((10, 0.0), (100, 1.0)),
        ((10, 1.0), (100, -1.0)),
        ((10, 1.0), (10, 2.0)),
    ],
)
def test_growth_of_nothing_is_none(
    before: tuple[int, float | None], after: tuple[int, float | None]
) -> None:
    assert exponent(before, after) is None


@pytest.mark.parametrize(
    ("shares", "expected"),
    [([3, 3, 3], 1.0), ([7, 0, 0, 0], 0.25), ([1, 2, 3], 36 / 42), ([], None), ([0, 0], None)],
)
def test_jains_index(shares: list[float], expected: float | None) -> None:
    assert jain(shares) == (None if expected is None else pytest.approx(expected))


def test_percentiles_are_values_that_were_measured() -> None:
    values = [30, 10, 20, 40]
    assert [percentile(values, percent) for percent in (1, 25, 50, 51, 99, 100)] == [
        10,
        10,
        20,
        30,
        40,
        40,
    ]
    assert percentile([], 50) is None


def test_a_peak_is_the_most_in_any_window() -> None:
    assert peak([5.0, 0.0, 0.5, 0.9, 1.0, 3.0], 1.0) == 3  # 1.0 is the next window's
    assert peak([2.0], 1.0) == 1
    assert peak([], 1.0) == 0


def test_steady_growth_is_told_from_noise_and_from_one_jump() -> None:
    steady = trend([100, 104, 108, 112, 116, 120, 124, 128])
    assert (steady.slope, steady.tau, steady.steady) == (4.0, 1.0, True)
    noise = trend([100, 108, 96, 104, 100, 92, 104, 100])
    assert not noise.steady and abs(noise.slope) < 1
    jump = trend([100, 160, 160, 160, 160, 160, 160, 160])
    assert (jump.slope, jump.tau, jump.steady) == (0.0, 0.25, False)
    later = trend([100, 100, 100, 160, 160, 160, 160, 160])
    assert not later.steady
    falling = trend([9, 8, 7, 6])
    assert (falling.slope, falling.tau, falling.steady) == (-1.0, -1.0, False)


def test_growth_in_chunks_is_growth() -> None:
    # as an allocator takes memory: 32 every other step
    chunks = trend([100, 100, 132, 132, 164, 164, 196, 196])
    assert chunks.slope == pytest.approx(16, abs=1)
    assert chunks.steady
