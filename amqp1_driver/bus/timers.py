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

"""Timers of the bus thread."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Timers:
    """Functions to be called at a time; cannot be cancelled: they look for themselves."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()

    def at(self, when: float, function: Callable[[], None]) -> None:
        """Call ``function`` once the time is ``when`` (seconds)."""
        heapq.heappush(self._heap, (when, next(self._serial), function))

    def delay(self, now: float) -> float | None:
        """Seconds until the next one is due, at most an hour (no poller takes years, and tokens
        may be good for so long); None without any."""
        return min(max(0.0, self._heap[0][0] - now), 3600.0) if self._heap else None

    def run(self, now: float) -> None:
        """Call those that are due."""
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2]()
