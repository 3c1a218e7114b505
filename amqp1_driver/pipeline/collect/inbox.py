# SPDX-License-Identifier: Apache-2.0

"""Queue of deliveries from the I/O thread to the thread that makes them durable (the taker).

The credit of the links bounds the inbox, like the queue of a listener. When the inbox holds too
many bytes, ``on_full`` lets its owner take back the remaining credit.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from amqp1_driver.connection.receiver import Delivery

#: more deliveries or bytes than there will ever be: no wake-up, no limit
_NEVER = 1 << 62


class Inbox:
    """A sink for the client, with one taker. It wakes the taker once per batch, not per message.

    :param on_interrupt: called on the I/O thread when the subscription has become impossible
    :param limit: bytes that the inbox should hold at most
    :param on_full: called on the I/O thread after each delivery with which the inbox holds more
        than ``limit`` bytes
    """

    def __init__(
        self,
        on_interrupt: Callable[[], object],
        limit: int = _NEVER,
        on_full: Callable[[], object] = bool,
    ) -> None:
        self._entries: deque[Delivery] = deque()
        self._times: deque[float] = deque()
        self._wake_at = _NEVER
        self._event = threading.Event()
        self._later: Callable[[Callable[[], object]], object] = lambda fn: fn()
        self._on_interrupt = on_interrupt
        self._stopped = False
        #: deliveries that the taker has taken and not finished, and their bytes
        self.in_hand = self.hand_bytes = 0
        #: bytes that have come (only the I/O thread writes this), and bytes that the taker has
        #: finished (only the taker writes this)
        self._came = self._gone = 0
        self._limit, self._on_full = limit, on_full

    # -- I/O thread ------------------------------------------------------------------

    def use(self, later: Callable[[Callable[[], object]], object]) -> None:
        """Set the loop's function that calls a callback later, to wake threads without waiting."""
        self._later = later

    def deliver(self, delivery: Delivery) -> None:
        """Add a delivery; never block."""
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
        """Report to the owner that the subscription has become impossible."""
        self._on_interrupt()

    # -- any thread --------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """Return the bytes of the deliveries that have come and are not finished."""
        gone = self._gone  # read first: the taker may finish deliveries between the reads
        return self._came - gone

    @property
    def full(self) -> bool:
        """Return whether the inbox holds too many bytes, so that its owner must grant no credit."""
        return self.bytes > self._limit

    @property
    def under_way(self) -> int:
        """Return the number of deliveries that have come and are not finished."""
        waiting = len(self._entries)
        return waiting + self.in_hand

    def stop(self) -> None:
        """Wake the taker. It can still take the deliveries that are here, but never waits again."""
        self._stopped = True
        self._event.set()

    # -- the taker ---------------------------------------------------------------------

    def take(
        self, enough: int, most: int, linger: float, patience: float
    ) -> tuple[list[Delivery], list[float]]:
        """Take the oldest deliveries, and the times at which they came (seconds since 1970).

        Wait up to ``patience`` seconds for the first delivery, then up to ``linger`` seconds for
        ``enough`` deliveries. A full inbox and :meth:`stop` end the wait.

        :param most: largest number of deliveries to take
        :returns: two lists of the same length; empty ones if no delivery is there
        """
        self._wait(1, patience)
        if self._entries:
            self._wait(enough, linger)
        count = min(len(self._entries), most)
        self.in_hand = count  # first: under_way must never miss the deliveries that move
        pop, pop_time = self._entries.popleft, self._times.popleft
        taken = [pop() for _ in range(count)]
        self.hand_bytes = sum([len(delivery.data) for delivery in taken])
        return taken, [pop_time() for _ in range(count)]

    def stored(self, size: int) -> None:
        """Subtract ``size`` bytes from those in hand, because they are in the spool."""
        self._gone += size
        self.hand_bytes -= size

    def done(self) -> None:
        """Note that the taker has finished all deliveries in hand."""
        self._gone += self.hand_bytes
        self.in_hand = self.hand_bytes = 0

    def _wait(self, count: int, timeout: float) -> None:
        until = time.monotonic() + timeout
        while not self._stopped and len(self._entries) < count and not self.full:
            # from now on, deliver() sets the event as soon as ``count`` deliveries are here
            self._wake_at = count
            if len(self._entries) < count and not self._event.wait(
                max(0.0, until - time.monotonic())
            ):
                break
            self._event.clear()
        self._wake_at = _NEVER
