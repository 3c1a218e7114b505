# SPDX-License-Identifier: Apache-2.0

"""Retries of what failed: whether another is allowed, and the delay before it. Pure.

tenacity computes the delays. The driver does not use tenacity's loops, because they sleep and the
I/O thread must not.
"""

import random
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

from tenacity import wait_exponential

from amqp1_driver.exceptions import recoverable


@dataclass(frozen=True, slots=True)
class Backoff:
    """A schedule of delays. Immutable, for any thread.

    :param interval: seconds before the first repetition.
    :param factor: factor by which each further delay is longer; a factor below 1 counts as 1,
        a constant delay.
    :param maximum: longest delay, seconds.
    """

    interval: float = 1.0
    factor: float = 2.0
    maximum: float = 30.0

    def longest(self, attempt: int) -> float:
        """Return the delay in seconds before repetition ``attempt`` (1, 2, ...), without jitter."""
        strategy = wait_exponential(
            # Floats: a large power of a float overflows, and tenacity then returns the maximum. A
            # large power of an int would cost memory.
            multiplier=float(self.interval),
            exp_base=max(1.0, float(self.factor)),
            max=self.maximum,
        )
        # This strategy uses only the number of the attempt.
        state = cast(Any, SimpleNamespace(attempt_number=attempt))
        return float(strategy(state))

    def delay(self, attempt: int, rng: random.Random) -> float:
        """Return the delay with jitter: between half and all of ``longest(attempt)`` seconds.

        One half is random, so that thousands of agents that lost the same host do not return at
        the same time. The other half is fixed, so that no agent returns at once.
        """
        longest = self.longest(attempt)
        return longest * (0.5 + 0.5 * rng.random())


@dataclass(frozen=True, slots=True)
class Retry:
    """The remaining retries of a message. Immutable, for any thread.

    :param left: further attempts allowed, None for no limit.
    :param spent_so_far: retries already made.
    :param backoff: delays between the retries.
    """

    left: int | None = None
    spent_so_far: int = 0
    backoff: Backoff = field(default_factory=Backoff)

    @classmethod
    def of(cls, retry: int | None, backoff: Backoff | None = None) -> "Retry":
        """Return the retries that oslo.messaging's ``retry`` allows: a number, or no limit.

        :param retry: retries; None or negative: no limit
        """
        left = None if retry is None or retry < 0 else retry
        return cls(left=left, backoff=backoff or Backoff())

    @property
    def exhausted(self) -> bool:
        """Return whether no further attempt is allowed, whatever the error."""
        return self.left == 0

    def may_retry(self, error: BaseException, in_doubt: bool = False) -> bool:
        """Return whether to try again after ``error``.

        :param in_doubt: the bus may have the message already, so that another attempt could
            duplicate it; the result is then False.
        """
        return not in_doubt and not self.exhausted and recoverable(error)

    def spent(self) -> "Retry":
        """Return the retries that remain after one more attempt.

        :raises ValueError: no retry was left.
        """
        if self.exhausted:
            raise ValueError("no retries left")
        left = None if self.left is None else self.left - 1
        return replace(self, left=left, spent_so_far=self.spent_so_far + 1)

    def delay(self, rng: random.Random) -> float:
        """Return the seconds to wait before the next attempt, with jitter."""
        return self.backoff.delay(self.spent_so_far + 1, rng)


class Pauses:
    """The pauses before new attempts at an activity that keeps ending. One thread at a time.

    An attempt that lasted longer than twice the longest pause resets the schedule.
    """

    def __init__(self, backoff: Backoff, rng: random.Random) -> None:
        self._backoff = backoff
        self._rng = rng
        self._attempt = 0
        self._begun = 0.0

    def next(self, now: float) -> float:
        """Return the seconds to wait from ``now`` (seconds of any monotonic clock)."""
        if now - self._begun > 2 * self._backoff.maximum:
            self._attempt = 0
        self._attempt += 1
        delay = self._backoff.delay(self._attempt, self._rng)
        self._begun = now + delay
        return delay
