# SPDX-License-Identifier: Apache-2.0

"""The arithmetic of growth, fairness and trends. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple


def exponent(before: tuple[float, float | None], after: tuple[float, float | None]) -> float | None:
    """Return the power of n by which a total has grown from one (n, total) to the next.

    1: in proportion to n; 2: with the square of n; 0: not at all.

    :returns: None if a total is missing or not positive, or if both n are equal
    """
    (small, low), (large, high) = before, after
    if low is None or high is None or low <= 0 or high <= 0 or small == large:
        return None
    return math.log(high / low) / math.log(large / small)


def jain(shares: Sequence[float]) -> float | None:
    """Return Jain's index of fairness: 1 if all shares are equal, 1/n if one has everything.

    :returns: None if all shares are 0
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the value that ``percent`` % of the values do not exceed (nearest rank)."""
    if not values:
        return None
    rank = max(1, math.ceil(len(values) * percent / 100))
    return sorted(values)[rank - 1]


def peak(times: Sequence[float], window: float) -> int:
    """Return the largest number of times within any window of this length."""
    ordered = sorted(times)
    most = first = 0
    for index, at in enumerate(ordered):
        while at - ordered[first] >= window:
            first += 1
        most = max(most, index - first + 1)
    return most


class Trend(NamedTuple):
    """The trend of a figure from step to step.

    :param slope: growth per step: the median of the slopes between all pairs of steps (Theil and
        Sen). It shows lasting growth, also in chunks, but no jump at the beginning or the end
    :param tau: Kendall's tau: 1 if the figure only rises, 0 if rises and falls are in balance
    """

    slope: float
    tau: float

    @property
    def steady(self) -> bool:
        """Return whether the figure rises steadily; noise has a tau near 0."""
        return self.slope > 0 and self.tau >= 0.6


def trend(values: Sequence[float]) -> Trend:
    """Return the trend of at least two values, in the order of their measurement."""
    pairs = [(i, j) for i, j in itertools.combinations(range(len(values)), 2)]
    slopes = [(values[j] - values[i]) / (j - i) for i, j in pairs]
    signs = sum((slope > 0) - (slope < 0) for slope in slopes)
    return Trend(statistics.median(slopes), signs / len(pairs))
