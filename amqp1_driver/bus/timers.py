# SPDX-License-Identifier: Apache-2.0

"""Timers of the bus thread."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

Schedule = Callable[[float, Callable[[], None]], Any]


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


class Alarm:
    """A timer for the earliest of the times set; it calls ``ring`` once at that time.

    :param call_at: schedules a function for a time (seconds)
    """

    def __init__(self, call_at: Schedule, ring: Callable[[], None]) -> None:
        self._call_at = call_at
        self._ring = ring
        self._due: float | None = None

    def set(self, when: float) -> None:
        """Ring at ``when`` (seconds) unless the alarm rings earlier."""
        if self._due is None or when < self._due:
            self._due = when
            self._call_at(when, lambda: self._run(when))

    def _run(self, when: float) -> None:
        if self._due == when:
            self._due = None
            self._ring()
