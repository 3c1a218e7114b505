# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The arithmetic of growth, fairness and trends. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple


def exponent(before: tuple[float, float | None], after: tuple[float, float | None]) -> float | None:
    """The power of n by which a total has grown from one (n, total) to the next.

    1: as n does; 2: as its square; 0: not at all. None where a total is missing or not positive.
    """
    (small, low), (large, high) = before, after
    if low is None or high is None or low <= 0 or high <= 0 or small == large:
        return None
    return math.log(high / low) / math.log(large / small)


def jain(shares: Sequence[float]) -> float | None:
    """Jain's index of fairness: 1 when all have the same, 1/n when one has it all."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The value that so many percent do not exceed (nearest rank)."""
    if not values:
        return None
    rank = max(1, math.ceil(len(values) * percent / 100))
    return sorted(values)[rank - 1]


def peak(times: Sequence[float], window: float) -> int:
    """The most that fall into any window of this length."""
    ordered = sorted(times)
    most = first = 0
    for index, at in enumerate(ordered):
        while at - ordered[first] >= window:
            first += 1
        most = max(most, index - first + 1)
    return most


class Trend(NamedTuple):
    """What becomes of a figure from step to step.

    :param slope: per step, the median of all pairs' slopes (Theil and Sen): a jump at the
        beginning or the end does not count, lasting growth does, also in chunks
    :param tau: Kendall's: 1 if it only rises, 0 if rises and falls keep the balance
    """

    slope: float
    tau: float

    @property
    def steady(self) -> bool:
        """Whether it rises steadily; noise has a tau near 0."""
        return self.slope > 0 and self.tau >= 0.6


def trend(values: Sequence[float]) -> Trend:
    """The trend of values in the order in which they were measured; needs two."""
    pairs = [(i, j) for i, j in itertools.combinations(range(len(values)), 2)]
    slopes = [(values[j] - values[i]) / (j - i) for i, j in pairs]
    signs = sum((slope > 0) - (slope < 0) for slope in slopes)
    return Trend(statistics.median(slopes), signs / len(pairs))
