# SPDX-License-Identifier: Apache-2.0

"""The coarse timer of a connection: it expires messages, warns of stalls, detaches idle links.

The timer runs every :data:`SWEEP_INTERVAL` seconds while messages are under way. Otherwise it runs
only to find idle links, and not at all without links. Lives on the I/O thread.
"""

from collections.abc import Callable
from typing import Protocol

from amqp1_driver.connection.outbox import Outbox
from amqp1_driver.interfaces import Scheduler, Timer

#: seconds; enough for replies and warnings: callers themselves keep their deadlines exactly
SWEEP_INTERVAL = 0.25


class Senders(Protocol):
    """The sender links of the live connection."""

    @property
    def sender_count(self) -> int: ...
    @property
    def busy(self) -> bool: ...
    def sweep(self, now: float) -> None: ...
    def purge(self, now: float) -> None: ...


class Housekeeping:
    """The coarse timer of one logical connection.

    :param outbox: messages that are not sent yet
    :param senders: returns the sender links of the live connection, None if there is none
    :param idle: seconds after which an unused link is detached
    """

    def __init__(
        self,
        scheduler: Scheduler,
        outbox: Outbox,
        senders: Callable[[], Senders | None],
        idle: float,
    ) -> None:
        self._scheduler = scheduler
        self._outbox = outbox
        self._senders = senders
        self._purge_interval = max(SWEEP_INTERVAL, idle / 4)
        self._timer: Timer | None = None
        self._purged_at = scheduler.now()
        #: True while the timer runs at its short interval
        self.watching = False

    def watch(self) -> None:
        """Run the timer at its short interval: messages are under way."""
        self.stop()
        self.watching = True
        self._timer = self._scheduler.call_later(SWEEP_INTERVAL, self._sweep)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.watching = False

    def _sweep(self) -> None:
        self._timer = None
        self.watching = False
        now = self._scheduler.now()
        senders = self._senders()
        if senders is not None:
            senders.sweep(now)
        self._outbox.expire(now)
        busy = bool(self._outbox)
        if senders is not None:
            busy = senders.busy or busy
            if now - self._purged_at >= self._purge_interval:
                self._purged_at = now
                senders.purge(now)
        if busy:
            self.watch()
        elif senders is not None and senders.sender_count:
            self._timer = self._scheduler.call_later(self._purge_interval, self._sweep)
