# SPDX-License-Identifier: Apache-2.0

"""The retries of a failed operation: whether another is allowed, and when. Pure."""

import random
from dataclasses import dataclass, field, replace

from amqp1_driver.exceptions import recoverable
from amqp1_driver.policy.backoff import Backoff


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
