# SPDX-License-Identifier: Apache-2.0
"""The slope of a series and its confidence interval."""

from __future__ import annotations

import pytest

from tests.chaos.slope import Slope, medians, theil_sen


def test_a_line() -> None:
    assert theil_sen([(float(x), 3.0 * x) for x in range(10)]).value == 3.0


def test_sens_interval() -> None:
    # slopes of the pairs 1 3 2 5: -1 1/2 1 4/3 2 3; Kendall's variance 4*3*13/18 = 8.667,
    # deviate 1.96 * 2.944 = 5.77, so all six lie within
    slope = theil_sen([(0.0, 1.0), (1.0, 3.0), (2.0, 2.0), (3.0, 5.0)])
    assert slope.value == pytest.approx(7 / 6)
    assert (slope.low, slope.high) == (-1.0, 3.0)


def test_an_outlier_does_not_move_it() -> None:
    series = [(float(x), 5.0) for x in range(20)]
    series[7] = (7.0, 500.0)
    slope = theil_sen(series)
    assert (slope.value, slope.low, slope.high) == (0.0, 0.0, 0.0)


def test_a_leak_in_noise_is_found() -> None:
    noise = (3.0, -2.0, 1.0, -3.0, 2.0, -1.0)
    slope = theil_sen([(float(x), x + noise[x % 6]) for x in range(60)])
    assert slope.low > 0.9
    assert not slope.flat(0.5)


def test_noise_alone_is_flat() -> None:
    noise = (3.0, -2.0, 1.0, -3.0, 2.0, -1.0)
    assert theil_sen([(float(x), noise[x % 6]) for x in range(60)]).flat(0.5)


def test_flat_means_not_shown_to_grow_or_growing_by_less_than_the_bound() -> None:
    assert Slope(0.1, -0.1, 9.0).flat(0.5)
    assert Slope(0.1, 0.05, 0.4).flat(0.5)
    assert not Slope(0.6, 0.5, 0.7).flat(0.5)


def test_too_few_points() -> None:
    with pytest.raises(ValueError, match="2 points are too few"):
        theil_sen([(0.0, 1.0), (1.0, 1.0)])


def test_medians_of_intervals() -> None:
    assert medians([(1.0, 5.0), (59.0, 7.0), (30.0, 6.0), (61.0, 1.0)], 60.0) == [
        (30.0, 6.0),
        (90.0, 1.0),
    ]
