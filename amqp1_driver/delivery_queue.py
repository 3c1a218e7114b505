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

"""Deliveries on their way from the I/O thread to the application.

Bounded by the credit of the subscription's links: what is in it is not settled, so the peer
sends no more than that.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from amqp1_driver.protocol.receiver import Delivery

#: the first waits until so many are ready to be handed over
TOGETHER = 16


def _at_once(fn: Callable[[], object]) -> None:
    fn()


class DeliveryQueue:
    """Hands deliveries from the I/O thread to polling threads, in order, or to a consumer.

    A poller that finds nothing leaves a locked gate for the I/O thread to open:
    a tenth of the cost of a condition variable, and paid only by those who wait.
    """

    def __init__(self) -> None:
        self._entries: deque[Delivery] = deque()
        self._gates: deque[Any] = deque()
        self._stopped = False
        self._interrupted = False
        self._later: Callable[[Callable[[], object]], object] = _at_once
        self._consumer: Callable[[list[Delivery]], object] | None = None
        self._on_interrupt: Callable[[], object] | None = None
        self._handing_over = False

    def use(self, later: Callable[[Callable[[], object]], object]) -> None:
        """How to wake others without waiting for them, see :meth:`EventLoop.later`."""
        self._later = later

    def divert(self, consumer: Callable[[list[Delivery]], object],
               on_interrupt: Callable[[], object]) -> None:
        """Nobody polls: call ``consumer`` on the I/O thread after each batch, with up to
        :data:`TOGETHER` of what came, and ``on_interrupt`` for :meth:`interrupt`.

        Neither may block or raise.  One thread switch less than polling.
        """
        self._on_interrupt = on_interrupt
        self._consumer = consumer
        self._hand_over()

    def deliver(self, delivery: Delivery) -> None:
        """I/O thread: never blocks."""
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
            while entries and len(together) < TOGETHER:
                try:
                    together.append(entries.popleft())
                except IndexError:
                    break  # another thread, which put one back, was faster
            consumer(together)

    def put_back(self, delivery: Delivery) -> bool:
        """Any thread: the application wants it again later; False after :meth:`stop`."""
        if self._stopped:
            return False
        self.deliver(delivery)
        return True

    def take(self, until: float | None) -> Delivery | None:
        """The oldest; None when there was none until then, or after :meth:`stop` or, once,
        :meth:`interrupt`.

        :param until: monotonic seconds; None: wait for ever
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
        # what came between the look and the gate has opened no gate of ours
        if not (self._entries or self._stopped or self._interrupted):
            gate.acquire(True, min(left, threading.TIMEOUT_MAX))
        try:
            self._gates.remove(gate)
        except ValueError:
            pass  # it was opened

    def _open_gate(self) -> None:
        try:
            gate = self._gates.popleft()
        except IndexError:
            return  # nobody waits
        self._later(gate.release)

    def interrupt(self) -> None:
        """Wake one who waits, so that it looks at what has become of the subscription."""
        if self._on_interrupt is not None:
            self._on_interrupt()
            return
        self._interrupted = True
        self._open_gate()

    @property
    def stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Wake all who wait; what is in the queue can still be taken."""
        self._stopped = True
        for _ in range(len(self._gates)):
            self._open_gate()

    def drain(self) -> list[Delivery]:
        """All that nobody has taken."""
        left = []
        while self._entries:
            try:
                left.append(self._entries.popleft())
            except IndexError:
                break
        return left
