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

"""How long to wait before trying again: exponential, bounded, with jitter."""

import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from tenacity import wait_exponential


@dataclass(frozen=True, slots=True)
class Backoff:
    """Immutable schedule of delays; any thread.

    interval: seconds before the first repetition. factor: by which each further one is
    longer; below 1 counts as 1, a constant delay. maximum: seconds, the upper bound.
    """

    interval: float = 1.0
    factor: float = 2.0
    maximum: float = 30.0

    def longest(self, attempt: int) -> float:
        """The delay in seconds before repetition ``attempt`` (1, 2, ...), without jitter."""
        strategy = wait_exponential(
            # A float: powers of a large one overflow, which tenacity takes for "maximum",
            # where powers of a large int would cost memory.
            multiplier=float(self.interval),
            exp_base=max(1.0, float(self.factor)),
            max=self.maximum,
        )
        # All that this strategy looks at is the number of the attempt.
        state = cast(Any, SimpleNamespace(attempt_number=attempt))
        return float(strategy(state))

    def delay(self, attempt: int, rng: random.Random) -> float:
        """The delay with jitter: between half and all of ``longest(attempt)`` seconds.

        Half is random so that thousands of agents which lost the same host do not come
        back in step; half is not, so that nobody comes back at once.
        """
        longest = self.longest(attempt)
        return longest * (0.5 + 0.5 * rng.random())
