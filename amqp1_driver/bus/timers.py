# SPDX-License-Identifier: Apache-2.0

"""Timers of the bus thread."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Timers:
    """A schedule of functions.

    No entry can be cancelled: each function checks itself whether it still applies.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()

    def at(self, when: float, function: Callable[[], None]) -> None:
        """Schedule ``function`` for the time ``when`` (seconds)."""
        heapq.heappush(self._heap, (when, next(self._serial), function))

    def delay(self, now: float) -> float | None:
        """Return the seconds until the next function is due, None without any.

        The result is at most an hour: no poller accepts a time-out of years, and a token may be
        valid that long.
        """
        return min(max(0.0, self._heap[0][0] - now), 3600.0) if self._heap else None

    def run(self, now: float) -> None:
        """Call the functions that are due."""
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2]()
