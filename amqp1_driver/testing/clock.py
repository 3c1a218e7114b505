# SPDX-License-Identifier: Apache-2.0
"""A clock that moves only on request."""

from __future__ import annotations

import threading


class FakeClock:
    """A substitute for ``time.monotonic``: call the object for the time in seconds (float).

    Safe to use from any thread.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)
        self._lock = threading.Lock()

    def __call__(self) -> float:
        with self._lock:
            return self._now

    def advance(self, seconds: float) -> float:
        """Move the clock forward by ``seconds`` (>= 0) and return the new time.

        :raises ValueError: ``seconds`` is negative
        """
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} s")
        with self._lock:
            self._now += seconds
            return self._now

    def __repr__(self) -> str:
        return f"FakeClock({self():.6f})"
