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

"""From those who make events to those who keep records: a bounded queue and a thread.

Who makes an event appends it and goes on.  The thread makes records of what has come, a few at a
time so that it never keeps the interpreter from the driver's threads for long, and gives them to
all consumers.  What finds the queue full is counted and dropped.
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
#: how long events wait at most before they are looked at, seconds
INTERVAL = 0.25
#: records that are made and given on in one go
BATCH = 100
#: a consumer that fails is named in the log so often at most, seconds
COMPLAIN_EVERY = 60.0


class Consumer(Protocol):
    """What keeps records.  All calls come from the hub's thread; it may raise."""

    def take(self, records: Sequence[Record]) -> None: ...
    def tick(self) -> None:
        """Nothing has come for a moment, or much: look after what is due by time."""
    def close(self, timeout: float) -> None:
        """There is no more: finish within so many seconds."""


class Complaints:
    """Says of each failure the first one, and then from time to time how many there were.

    :param what: that fails
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
        LOG.error("Telemetry: %s failed, and is tried further: %s%s", self._what,
                  str(error) or repr(error), more)
        self._next, self._unsaid = now + COMPLAIN_EVERY, 0


class Hub:
    """See the module.  A sink for any thread; ``emit`` never blocks.

    :param consumers: by the name that is used in the log
    :param capacity: events that may wait
    :param interval: how long at most until they are looked at, seconds
    """

    def __init__(self, consumers: dict[str, Consumer], capacity: int = CAPACITY,
                 interval: float = INTERVAL) -> None:
        self._consumers = [(consumer, Complaints(name)) for name, consumer in consumers.items()]
        self._trouble = Complaints("making records")
        self._capacity = capacity
        self._enough = capacity // 4
        self._interval = interval
        self._queue: deque[Event] = deque()
        self._lock = threading.Lock()
        self._dropped = 0
        #: events dropped since the hub was made
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
        """Wait until all consumers have had what was told so far; False if not in time."""
        done = threading.Event()
        self._waiting.append(done)
        self._wake.set()
        return done.wait(timeout)

    def close(self, timeout: float) -> bool:
        """Give consumers what is left, have them finish, end the thread; False if not in time."""
        self._closing = timeout
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def abandon(self) -> None:
        """This is the child of a fork: a thread that lives on here, a green one, shall end."""
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
            time.sleep(0)  # whoever waits for the interpreter goes first
        for consumer, complaints in self._consumers:
            _guarded(complaints, consumer.tick)
        for done in waiting:
            done.set()

    def _pass_on(self) -> None:
        records = self._next()
        for consumer, complaints in self._consumers:
            _guarded(complaints, consumer.take, records)

    def _next(self) -> list[Record]:
        """Up to a batch; the first of them tells how many were dropped before it."""
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
