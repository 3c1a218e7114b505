# SPDX-License-Identifier: Apache-2.0

"""The queue of deliveries from the I/O thread to the application's threads.

The credit of the subscription's links bounds the queue: queued deliveries are not settled, and the
peer sends no more messages than it has credit for.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from amqp1_driver import exceptions
from amqp1_driver.connection.receiver import Delivery

LOG = exceptions.logger(__name__)

#: most deliveries in one call of the consumer, which prepares all before it passes on the first
MAX_BATCH = 16


def _call_now(fn: Callable[[], object]) -> None:
    fn()


class DeliveryQueue:
    """A queue that hands deliveries, in order, to polling threads or to a consumer.

    A poller that finds the queue empty waits at a gate: a locked lock, which the I/O thread
    releases. A gate costs a tenth of a condition variable, and nothing while no poller waits.
    """

    def __init__(self) -> None:
        self._entries: deque[Delivery] = deque()
        self._gates: deque[Any] = deque()
        self._stopped = False
        self._interrupted = False
        self._later: Callable[[Callable[[], object]], object] = _call_now
        self._consumer: Callable[[list[Delivery]], object] | None = None
        self._on_interrupt: Callable[[], object] | None = None
        self._handing_over = False

    def use(self, later: Callable[[Callable[[], object]], object]) -> None:
        """Set the function that wakes other threads later, see :meth:`Iteration.later`."""
        self._later = later

    def set_consumer(
        self, consumer: Callable[[list[Delivery]], object], on_interrupt: Callable[[], object]
    ) -> None:
        """Hand deliveries to ``consumer`` instead of to pollers, which saves a thread switch.

        The I/O thread calls ``consumer`` after each batch of input; :meth:`put_back` and this
        method call it on their own thread. Neither function may block or raise.

        :param consumer: gets up to :data:`MAX_BATCH` deliveries
        :param on_interrupt: called by :meth:`interrupt`
        """
        self._on_interrupt = on_interrupt
        self._consumer = consumer
        self._hand_over()

    def deliver(self, delivery: Delivery) -> None:
        """Queue a delivery, and wake a poller or the consumer.  I/O thread; never blocks."""
        self._entries.append(delivery)
        if self._consumer is None:
            self._open_gate()
        elif not self._handing_over:
            self._handing_over = True
            self._later(self._hand_over)

    def _hand_over(self) -> None:
        self._handing_over = False
        consumer, entries = self._consumer, self._entries
        while entries and consumer is not None:
            together: list[Delivery] = []
            for _ in range(MAX_BATCH):
                if not entries:
                    break
                try:
                    together.append(entries.popleft())
                except IndexError:
                    break  # another thread hands over too, after put_back()
            try:
                consumer(together)
            except Exception:
                LOG.exception("%d messages could not be handed over", len(together))

    def put_back(self, delivery: Delivery) -> bool:
        """Queue a delivery once more, for a later attempt of the application.  Any thread.

        :returns: False after :meth:`stop`: the delivery is not queued
        """
        if self._stopped:
            return False
        self.deliver(delivery)
        return True

    def take(self, until: float | None) -> Delivery | None:
        """Take the oldest delivery, and wait for one if the queue is empty.

        :param until: when to stop waiting, monotonic seconds; None: never
        :returns: None if the queue is empty and either the time is over, or :meth:`stop` was
            called, or :meth:`interrupt` was called since the last None
        """
        while True:
            try:
                return self._entries.popleft()
            except IndexError:
                pass
            left = -1.0 if until is None else until - time.monotonic()
            if self._interrupted or self._stopped or (until is not None and left <= 0):
                self._interrupted = False
                return None
            self._wait(left)

    def _wait(self, left: float) -> None:
        gate = threading.Lock()
        gate.acquire()
        self._gates.append(gate)
        # a delivery that came before the gate was there has not opened it
        if not (self._entries or self._stopped or self._interrupted):
            gate.acquire(True, min(left, threading.TIMEOUT_MAX))
        try:
            self._gates.remove(gate)
        except ValueError:
            pass  # _open_gate() has removed it

    def _open_gate(self) -> None:
        try:
            gate = self._gates.popleft()
        except IndexError:
            return  # nobody waits
        self._later(gate.release)

    def interrupt(self) -> None:
        """Have the reader check the subscription: call ``on_interrupt``, or wake one poller."""
        if self._on_interrupt is not None:
            self._on_interrupt()
            return
        self._interrupted = True
        self._open_gate()

    @property
    def stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Wake all pollers; they can still take the queued deliveries."""
        self._stopped = True
        for _ in range(len(self._gates)):
            self._open_gate()

    def drain(self) -> list[Delivery]:
        """Remove and return all queued deliveries."""
        left = []
        while self._entries:
            try:
                left.append(self._entries.popleft())
            except IndexError:
                break
        return left
