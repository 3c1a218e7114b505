# SPDX-License-Identifier: Apache-2.0

"""The timers of a loop, by deadline, on the loop thread; callers pass in the time."""

import heapq
from collections.abc import Callable

# With fewer cancelled entries than this, sweeping the heap is not worth the work.
_SWEEP_MIN = 64


class Timer:
    """A pending call. Lives on the loop thread."""

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
        """Return True until the timer has fired or was cancelled."""
        return self._fn is not None

    def cancel(self) -> None:
        """Cancel the call and drop the callback at once; does nothing if the timer has fired."""
        queue = self._queue
        if self._take() is not None and queue is not None:
            queue._cancelled()

    def _take(self) -> Callable[[], object] | None:
        fn, self._fn, self._queue = self._fn, None, None
        return fn


class TimerQueue:
    """A heap of timers. Lives on the loop thread; ``heap`` is always the same list object.

    Cancelled timers stay in the heap until they come to the top, or until more than 64 of them make
    up more than half of the heap. So cancelling costs O(1) on average, and a heap with more than
    64 cancelled timers holds at most twice the pending ones.
    """

    def __init__(self) -> None:
        #: the earliest timer comes first, and may be a cancelled one
        self.heap: list[Timer] = []
        self._seq = 0
        self._dead = 0

    def __len__(self) -> int:
        """Return the number of pending timers."""
        return len(self.heap) - self._dead

    def call_at(self, when: float, fn: Callable[[], object]) -> Timer:
        """Schedule ``fn()``: the first ``run_due(now)`` with ``now >= when`` (seconds) calls it."""
        self._seq += 1
        timer = Timer(self, when, self._seq, fn)
        heapq.heappush(self.heap, timer)
        return timer

    def run_due(self, now: float) -> int:
        """Call the timers that are due at ``now``, the earliest first.

        A timer that one of these calls sets waits for the next run_due(), however short it is.

        :returns: the number of calls
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
            # The call of an earlier timer may have cancelled this one.
            if (fn := timer._take()) is not None:
                fn()
                count += 1
        return count

    def _cancelled(self) -> None:
        self._dead += 1
        if self._dead > _SWEEP_MIN and self._dead * 2 > len(self.heap):
            # in place, because Iteration.batch() keeps a reference to this list
            self.heap[:] = [timer for timer in self.heap if timer.active]
            heapq.heapify(self.heap)
            self._dead = 0
