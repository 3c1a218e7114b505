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

"""Timers of a loop, by deadline. No clock in here: the time is passed in."""

import heapq
from collections.abc import Callable

# Below this many dead entries sweeping the heap is not worth it.
_SWEEP_MIN = 64


class Timer:
    """One pending call. Lives on the loop thread."""

    __slots__ = ("_fn", "_queue", "_seq", "when")

    def __init__(
        self, queue: "TimerQueue", when: float, seq: int, fn: Callable[[], object]
    ) -> None:
        self.when = when
        self._seq = seq
        self._fn: Callable[[], object] | None = fn
        self._queue: TimerQueue | None = queue

    def __lt__(self, other: "Timer") -> bool:
        return (self.when, self._seq) < (other.when, other._seq)

    @property
    def active(self) -> bool:
        """True until the timer has fired or was cancelled."""
        return self._fn is not None

    def cancel(self) -> None:
        """Do not call; harmless if it has fired. What it held is let go at once."""
        queue = self._queue
        if self._take() is not None and queue is not None:
            queue._cancelled()

    def _take(self) -> Callable[[], object] | None:
        fn, self._fn, self._queue = self._fn, None, None
        return fn


class TimerQueue:
    """A heap of timers. Lives on the loop thread.

    Cancelled timers stay in the heap until they come to the top or are more than half of it:
    cancelling costs O(1), and the heap never holds more than twice what is pending.
    """

    def __init__(self) -> None:
        #: the earliest first; may be one that was cancelled
        self.heap: list[Timer] = []
        self._seq = 0
        self._dead = 0

    def __len__(self) -> int:
        """How many timers are pending."""
        return len(self.heap) - self._dead

    @property
    def heap_size(self) -> int:
        """How many entries are held, cancelled ones included."""
        return len(self.heap)

    def call_at(self, when: float, fn: Callable[[], object]) -> Timer:
        """Have run_due() call ``fn()`` once its time is ``when`` (seconds) or later."""
        self._seq += 1
        timer = Timer(self, when, self._seq, fn)
        heapq.heappush(self.heap, timer)
        return timer

    def run_due(self, now: float) -> int:
        """Call what is due at ``now``, earliest first; the number of calls.

        Timers that these calls set are left for the next time, however short they are.
        """
        due: list[Timer] = []
        while self.heap and self.heap[0].when <= now:
            timer = heapq.heappop(self.heap)
            if timer.active:
                timer._queue = None  # no longer in the heap
                due.append(timer)
            else:
                self._dead -= 1
        count = 0
        for timer in due:
            # An earlier one of these calls may have cancelled it.
            if (fn := timer._take()) is not None:
                fn()
                count += 1
        return count

    def _cancelled(self) -> None:
        self._dead += 1
        if self._dead > _SWEEP_MIN and self._dead * 2 > len(self.heap):
            self.heap = [timer for timer in self.heap if timer.active]
            heapq.heapify(self.heap)
            self._dead = 0
