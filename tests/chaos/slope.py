# SPDX-License-Identifier: Apache-2.0
"""Whether a series of measurements grows: Theil-Sen slope with its confidence interval. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: normal deviate of a two-sided confidence of 95 %
_Z = 1.959964


@dataclass(frozen=True)
class Slope:
    """Change per unit of time, and the 95 % interval that it lies in."""

    value: float
    low: float
    high: float

    def flat(self, bound: float) -> bool:
        """Whether it is not shown to grow, or grows by less than the bound."""
        return self.low <= 0.0 or self.high < bound


def medians(series: Sequence[tuple[float, float]], width: float) -> list[tuple[float, float]]:
    """The median of each interval of that width: neighbours depend on each other less."""
    bins: dict[int, list[float]] = {}
    for at, value in series:
        bins.setdefault(math.floor(at / width), []).append(value)
    return [
        ((number + 0.5) * width, statistics.median(values))
        for number, values in sorted(bins.items())
    ]


def theil_sen(series: Sequence[tuple[float, float]]) -> Slope:
    """The median of the slopes between all pairs of points (Theil 1950).

    The interval is Sen's (1968): the slopes whose ranks lie within the deviation of Kendall's
    statistic, ties among the values taken into account.

    :param series: (time, value), at least three times that differ
    """
    slopes = sorted(
        (y - v) / (x - u) for n, (x, y) in enumerate(series) for u, v in series[:n] if x != u
    )
    if len(slopes) < 3:
        raise ValueError(f"{len(series)} points are too few")
    deviate = _Z * math.sqrt(_variance([value for _, value in series]))
    low = max(0, math.floor((len(slopes) - deviate) / 2))
    high = min(len(slopes) - 1, math.ceil((len(slopes) + deviate) / 2))
    return Slope(statistics.median(slopes), slopes[low], slopes[high])


def _variance(values: Sequence[float]) -> float:
    """Of Kendall's statistic (Sen 1968, eq. 2.6)."""
    count = len(values)
    ties: dict[float, int] = {}
    for value in values:
        ties[value] = ties.get(value, 0) + 1
    tied = sum(n * (n - 1) * (2 * n + 5) for n in ties.values())
    return max(0.0, (count * (count - 1) * (2 * count + 5) - tied) / 18)
