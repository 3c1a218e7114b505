# SPDX-License-Identifier: Apache-2.0

"""Interfaces to the outside that the sans-I/O folders need: clock, timers and tokens.

The module has only Protocols, and imports only from policy and telemetry. All methods are for the
I/O thread.
"""

import random
from collections.abc import Callable
from typing import Protocol

from amqp1_driver.policy.tokens import Token
from amqp1_driver.telemetry.observer import Observer


class Timer(Protocol):
    """A call that is scheduled for a later time."""

    def cancel(self) -> None:
        """Drop the call, unless it has been made."""
        ...


class Scheduler(Protocol):
    """The clock and the timers of the loop, and a source of jitter.

    :ivar rng: random numbers, for jitter
    :ivar observer: gets the events of links and messages; None: there is no observer. The value
        does not change once there is a link
    """

    rng: random.Random
    observer: Observer | None

    def now(self) -> float:
        """Return the time of the monotonic clock, seconds."""
        ...

    def call_later(self, delay: float, fn: Callable[[], None]) -> Timer:
        """Call ``fn()`` after a delay.

        :param delay: seconds
        """
        ...

    def linger(self) -> None:
        """Have the connection's ``process`` called once more within a few milliseconds."""
        ...


class WallClockScheduler(Scheduler, Protocol):
    """A scheduler that also knows the time of day."""

    def wall_clock(self) -> float:
        """Return the time of day, seconds since 1970."""
        ...


class TokenSource(Protocol):
    """A source of tokens, and the clock by which they expire."""

    def wall_clock(self) -> float:
        """Return the time of day, seconds since 1970."""
        ...

    def fetch(self, resource: str, done: Callable[[Token | Exception], None]) -> None:
        """Make a token for ``resource`` and pass it, or the error, to ``done``.

        :param done: called on the I/O thread, before this method returns or within a deadline
        """
        ...
