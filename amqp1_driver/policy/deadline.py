# SPDX-License-Identifier: Apache-2.0

"""Deadlines as points in time, on a clock that the caller owns. Pure, for any thread."""

import math
from typing import NamedTuple

#: The longest time-to-live of a message, in milliseconds (AMQP 1.0 3.2.1: uint).
_MAX_TTL_MS = 0xFFFFFFFF


class Deadline(NamedTuple):
    """The point in time at which an operation's time is over. Immutable, for any thread.

    :param at: seconds on the clock of the methods' argument ``now``; infinity for never.
    """

    at: float

    @classmethod
    def after(cls, seconds: float | None, now: float) -> "Deadline":
        """Return the deadline ``seconds`` after ``now``; None for never."""
        return cls(math.inf if seconds is None else now + seconds)

    def remaining(self, now: float) -> float:
        """Return the seconds left: never negative, infinity for never."""
        return max(0.0, self.at - now)

    def expired(self, now: float) -> bool:
        """Return whether the deadline has passed."""
        return now >= self.at

    def ttl_ms(self, now: float) -> int:
        """Return the time left as the time-to-live of a message: milliseconds, rounded up.

        :returns: at least 1, because 0 tells a bus that the message lives for ever; 0 only for a
            deadline of infinity. At most 2**32 - 1, the largest value of the header's uint.
        """
        left = (self.at - now) * 1000
        if left <= 1:
            return 1
        if left > _MAX_TTL_MS:
            return 0 if left == math.inf else _MAX_TTL_MS
        return math.ceil(left)
