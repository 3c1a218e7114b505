#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The coarse timer of a connection: what nobody waits for, warnings, idle links.

It runs every :data:`SWEEP_INTERVAL` while anything is under way, otherwise only
as often as idle links have to be looked for, and not at all without links.
Lives on the I/O thread.
"""

from collections.abc import Callable
from typing import Protocol

from amqp1_driver.protocol.link import Cancellable, Scheduler
from amqp1_driver.protocol.waiting import WaitingRoom

#: deadlines that a caller waits for are exact, this is for replies and warnings; seconds
SWEEP_INTERVAL = 0.25


class Kept(Protocol):
    """What is looked after while there is a connection."""

    @property
    def sender_count(self) -> int: ...
    def sweep(self, now: float) -> bool: ...
    def purge(self, now: float) -> None: ...


class Upkeep:
    """See the module.

    :param waiting: what is not sent for want of a connection
    :param kept: the links there are now
    :param host: ``hostname:port``, for errors
    :param idle: seconds after which a link that was not used is detached
    """

    def __init__(self, scheduler: Scheduler, waiting: WaitingRoom,
                 kept: Callable[[], Kept | None], host: Callable[[], str], idle: float) -> None:
        self._scheduler = scheduler
        self._waiting = waiting
        self._kept = kept
        self._host = host
        self._pause = max(SWEEP_INTERVAL, idle / 4)
        self._timer: Cancellable | None = None
        self._purged_at = scheduler.now()
        #: whether the timer runs at its short interval
        self.watching = False

    def watch(self) -> None:
        """Something is under way: look it over soon, not when links may be purged."""
        self.stop()
        self.watching = True
        self._timer = self._scheduler.call_later(SWEEP_INTERVAL, self._sweep)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.watching = False

    def _sweep(self) -> None:
        self._timer = None
        self.watching = False
        now = self._scheduler.now()
        self._waiting.expire(now, self._host())
        kept = self._kept()
        busy = bool(self._waiting)
        if kept is not None:
            busy = kept.sweep(now) or busy
            if now - self._purged_at >= self._pause:
                self._purged_at = now
                kept.purge(now)
        if busy:
            self.watch()
        elif kept is not None and kept.sender_count:
            self._timer = self._scheduler.call_later(self._pause, self._sweep)
