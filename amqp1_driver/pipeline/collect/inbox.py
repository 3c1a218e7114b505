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

"""Deliveries on their way from the I/O thread to the one that makes them durable.

Bounded by the credit of the links, as a listener's queue is. When it holds too many bytes, what is
left of that is taken back.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from amqp1_driver.protocol.receiver import Delivery

#: more than there will ever be: nobody is to be woken
_NEVER = 1 << 62


class Inbox:
    """A sink of the client's; one thread takes. It is woken once per batch, not per message.

    :param on_interrupt: called when the subscription has become impossible
    :param limit: bytes
    :param on_full: called on the I/O thread when it holds more, and after each delivery that comes
        all the same
    """

    def __init__(self, on_interrupt: Callable[[], object], limit: int = _NEVER,
                 on_full: Callable[[], object] = bool) -> None:
        self._entries: deque[Delivery] = deque()
        self._times: deque[float] = deque()
        self._wake_at = _NEVER
        self._event = threading.Event()
        self._later: Callable[[Callable[[], object]], object] = lambda fn: fn()
        self._on_interrupt = on_interrupt
        self._stopped = False
        #: how many were taken that the taker is not done with, and their bytes
        self.in_hand = self.hand_bytes = 0
        #: bytes that have come, and that the taker is done with: each has one writer
        self._came = self._gone = 0
        self._limit, self._on_full = limit, on_full

    # -- I/O thread ------------------------------------------------------------------

    def use(self, later: Callable[[Callable[[], object]], object]) -> None:
        """How to wake others without waiting for them."""
        self._later = later

    def deliver(self, delivery: Delivery) -> None:
        """Never blocks."""
        self._times.append(time.time())
        self._came += len(delivery.data)
        self._entries.append(delivery)
        if self._came - self._gone > self._limit:
            self._later(self._on_full)
            self._later(self._event.set)
        if len(self._entries) >= self._wake_at:
            self._wake_at = _NEVER
            self._later(self._event.set)

    def interrupt(self) -> None:
        """The subscription has become impossible."""
        self._on_interrupt()

    # -- any thread --------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """Of the deliveries that have come and are not done with."""
        gone = self._gone  # first: the taker may be done with some between the two
        return self._came - gone

    @property
    def full(self) -> bool:
        """Nothing more is to be asked for."""
        return self.bytes > self._limit

    @property
    def under_way(self) -> int:
        """Deliveries that have come and are not done with."""
        waiting = len(self._entries)
        return waiting + self.in_hand

    def stop(self) -> None:
        """Wake the taker; what is here can still be taken, and nothing is waited for."""
        self._stopped = True
        self._event.set()

    # -- the taker ---------------------------------------------------------------------

    def take(self, enough: int, most: int, linger: float,
             patience: float) -> tuple[list[Delivery], list[float]]:
        """The oldest deliveries, and when they came (seconds since 1970).

        Waits for the first for ``patience``, and for ``enough`` of them, seconds, for ``linger``,
        or until it is full. None if none has come, or after :meth:`stop` all have been taken.

        :param most: how many at a time
        """
        self._wait(1, patience)
        if self._entries:
            self._wait(enough, linger)
        count = min(len(self._entries), most)
        self.in_hand = count  # first: nobody may find neither here nor there what is under way
        pop, pop_time = self._entries.popleft, self._times.popleft
        taken = [pop() for _ in range(count)]
        self.hand_bytes = sum([len(delivery.data) for delivery in taken])
        return taken, [pop_time() for _ in range(count)]

    def done(self) -> None:
        """The taker is done with what it took."""
        self._gone += self.hand_bytes
        self.in_hand = self.hand_bytes = 0

    def _wait(self, count: int, timeout: float) -> None:
        until = time.monotonic() + timeout
        while not self._stopped and len(self._entries) < count and not self.full:
            # what comes between this and the look finds it, and sets the event
            self._wake_at = count
            if (len(self._entries) < count
                    and not self._event.wait(max(0.0, until - time.monotonic()))):
                break
            self._event.clear()
        self._wake_at = _NEVER
