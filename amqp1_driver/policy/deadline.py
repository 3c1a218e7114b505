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

"""Deadlines as points in time, on a clock that the caller owns."""

import math
from typing import NamedTuple

#: The longest time-to-live of a message, in milliseconds (AMQP 1.0 3.2.1: uint).
_MAX_TTL_MS = 0xFFFFFFFF


class Deadline(NamedTuple):
    """Until when something must be done; immutable, any thread.

    at: seconds on the monotonic clock that ``now`` is read from as well; infinity for never.
    """

    at: float

    @classmethod
    def after(cls, seconds: float | None, now: float) -> "Deadline":
        """The deadline in ``seconds`` from ``now``; None for never."""
        return cls(math.inf if seconds is None else now + seconds)

    def remaining(self, now: float) -> float:
        """Seconds left, never negative, infinity for never."""
        return max(0.0, self.at - now)

    def expired(self, now: float) -> bool:
        """Whether the time is up."""
        return now >= self.at

    def ttl_ms(self, now: float) -> int:
        """What is left as the time-to-live of a message: milliseconds, rounded up.

        At least 1, because 0 means to a bus that the message lives for ever; so it is
        returned only for a deadline that never comes.
        """
        left = (self.at - now) * 1000
        if left <= 1:
            return 1
        if left > _MAX_TTL_MS:
            return 0 if left == math.inf else _MAX_TTL_MS
        return math.ceil(left)
