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

"""Whether a failed operation may be tried again, and when."""

import random
from dataclasses import dataclass, field, replace

from amqp1_driver.exceptions import recoverable
from amqp1_driver.policy.backoff import Backoff


@dataclass(frozen=True, slots=True)
class Retry:
    """What is left of a message's retries; immutable, any thread.

    left: further attempts allowed, None for no limit. spent_so_far: those already made.
    backoff: delays between them.
    """

    left: int | None = None
    spent_so_far: int = 0
    backoff: Backoff = field(default_factory=Backoff)

    @classmethod
    def of(cls, retry: int | None, backoff: Backoff | None = None) -> "Retry":
        """From oslo.messaging's ``retry``: None or negative for ever, 0 never, N times."""
        left = None if retry is None or retry < 0 else retry
        return cls(left=left, backoff=backoff or Backoff())

    @property
    def exhausted(self) -> bool:
        """Whether no further attempt is allowed whatever went wrong."""
        return self.left == 0

    def may_retry(self, error: BaseException, in_doubt: bool = False) -> bool:
        """Whether to try again after ``error``.

        in_doubt: the bus may have the message already. Then never: it could be duplicated.
        """
        return not in_doubt and not self.exhausted and recoverable(error)

    def spent(self) -> "Retry":
        """What is left after one more attempt. Raises ValueError when nothing was."""
        if self.exhausted:
            raise ValueError("no retries left")
        left = None if self.left is None else self.left - 1
        return replace(self, left=left, spent_so_far=self.spent_so_far + 1)

    def delay(self, rng: random.Random) -> float:
        """Seconds to wait before the next attempt, with jitter."""
        return self.backoff.delay(self.spent_so_far + 1, rng)
