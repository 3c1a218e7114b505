# SPDX-License-Identifier: Apache-2.0

"""The hub between the driver and the consumers of records: a bounded queue and a thread.

Any thread appends events and goes on. The hub's thread makes records from the events and gives
them to all consumers. It does so in small batches, so that it never keeps the interpreter from the
driver's threads for long. The hub counts and drops events that find the queue full.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from amqp1_driver.telemetry.events import Event, Record

LOG = logging.getLogger(__name__)

#: events that may wait
CAPACITY = 50000
#: longest wait of an event before the hub's thread takes it, seconds
INTERVAL = 0.25
#: most records that the hub gives to the consumers at once
BATCH = 100
#: shortest interval between log lines about a failing consumer, seconds
COMPLAIN_EVERY = 60.0


class Consumer(Protocol):
    """A receiver of records. All calls come from the hub's thread; each method may raise."""

    def take(self, records: Sequence[Record]) -> None: ...
    def tick(self) -> None:
        """Do the work that is due by time; called after each round of the hub's thread."""

    def close(self, timeout: float) -> None:
        """Finish within ``timeout`` seconds; no more records come."""


class Complaints:
    """A log of failures: the first one at once, then one at intervals with the number of others.

    :param what: name of the failing part, for the log
    """

    def __init__(self, what: str, now: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._now = now
        self._next = 0.0
        self._unsaid = 0

    def failed(self, error: BaseException) -> None:
        now = self._now()
        if now < self._next:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} times more since the last time)" if self._unsaid else ""
        LOG.error(
            "Telemetry: %s failed, and is tried further: %s%s",
            self._what,
            str(error) or repr(error),
            more,
        )
        self._next, self._unsaid = now + COMPLAIN_EVERY, 0


class Hub:
    """A sink for events of any thread; ``emit`` never blocks.

    :param consumers: consumers of the records, by their name in the log
    :param capacity: events that may wait
    :param interval: longest wait of an event before the hub's thread takes it, seconds
    """

    def __init__(
        self, consumers: dict[str, Consumer], capacity: int = CAPACITY, interval: float = INTERVAL
    ) -> None:
        self._consumers = [(consumer, Complaints(name)) for name, consumer in consumers.items()]
        self._trouble = Complaints("making records")
        self._capacity = capacity
        self._enough = capacity // 4
        self._interval = interval
        self._queue: deque[Event] = deque()
        self._lock = threading.Lock()
        self._dropped = 0
        #: events that the hub has dropped since its creation
        self.dropped = 0
        self._wake = threading.Event()
        self._waiting: deque[threading.Event] = deque()
        self._closing: float | None = None
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name="amqp1-telemetry", daemon=True)

    # -- any thread ----------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def emit(self, event: Event) -> None:
        queue = self._queue
        waiting = len(queue)
        if waiting >= self._capacity:
            self._drop()
            return
        queue.append(event)
        if waiting == self._enough:
            self._wake.set()

    def _drop(self) -> None:
        with self._lock:
            self._dropped += 1
            self.dropped += 1

    def flush(self, timeout: float) -> bool:
        """Wait until all consumers have the records of all events emitted so far.

        :param timeout: seconds
        :returns: False if that took longer than ``timeout``
        """
        done = threading.Event()
        self._waiting.append(done)
        self._wake.set()
        return done.wait(timeout)

    def close(self, timeout: float) -> bool:
        """Give the remaining records to the consumers, close the consumers, and end the thread.

        :param timeout: seconds
        :returns: False if that took longer than ``timeout``
        """
        self._closing = timeout
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def abandon(self) -> None:
        """Drop all events in the child of a fork, and end a green thread, which survives it."""
        self._abandoned = True
        self._queue.clear()

    # -- the thread ------------------------------------------------------------------

    def _run(self) -> None:
        while self._closing is None:
            self._wake.wait(self._interval)
            self._wake.clear()
            if self._abandoned:
                return
            self._work()
        self._work()
        for consumer, complaints in self._consumers:
            _guarded(complaints, consumer.close, self._closing)

    def _work(self) -> None:
        waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
        for _ in range(-(-len(self._queue) // BATCH)):
            _guarded(self._trouble, self._pass_on)
            time.sleep(0)  # let threads run that wait for the interpreter
        for consumer, complaints in self._consumers:
            _guarded(complaints, consumer.tick)
        for done in waiting:
            done.set()

    def _pass_on(self) -> None:
        records = self._next()
        for consumer, complaints in self._consumers:
            _guarded(complaints, consumer.take, records)

    def _next(self) -> list[Record]:
        """Return up to BATCH records; the first one has the number of dropped events before it."""
        queue = self._queue
        dropped = 0
        if self._dropped:
            with self._lock:
                dropped, self._dropped = self._dropped, 0
        records = [queue.popleft().record(dropped)]
        records += [queue.popleft().record() for _ in range(min(BATCH, len(queue) + 1) - 1)]
        return records


def _guarded(complaints: Complaints, fn: Callable[..., object], *args: object) -> None:
    try:
        fn(*args)
    except Exception as error:
        complaints.failed(error)
