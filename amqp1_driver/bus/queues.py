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

"""A stored queue with competing consumers and watermarks; bus thread only.

Producer flow control follows Apache Qpid's two designs ("Producer throttling" of the C++ broker,
"Producer Flow Control" of the Java broker): at ``capacity`` messages the queue is *saturated* and
its producers get no credit; a message that arrives all the same is stored, but its transfer is not
completed until the queue has drained to ``resume`` messages or that very message has left it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from .counters import Counters
from .links import ACCEPTED, Consumer, Outcome, Transfer
from .messages import rewrite_header


class Limits(NamedTuple):
    """Watermarks in messages; ``capacity`` 0 = no limit."""

    capacity: int = 0
    resume: int = 0


class Completion:
    """A transfer whose outcome waits until no saturated queue holds it back any more."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._waiting = 0

    def wait(self) -> None:
        """One more queue holds the transfer back."""
        self._waiting += 1

    def complete(self) -> None:
        """One queue fewer."""
        self._waiting -= 1
        if self._waiting == 0:
            self._transfer.settle(ACCEPTED)


class Entry:
    """One message in one queue. ``order`` keeps its place when it comes back."""

    __slots__ = (
        "arrived", "completion", "consumer", "data", "delivery_count", "excluded", "expiry",
        "order", "queue", "redelivered",
    )  # fmt: skip

    def __init__(
        self, queue: Queue, data: bytes, arrived: float, expiry: float | None, delivery_count: int
    ) -> None:
        self.queue = queue
        self.data = data
        self.arrived = arrived
        self.expiry = expiry
        self.delivery_count = delivery_count
        self.redelivered = False
        self.order = 0
        self.completion: Completion | None = None
        #: Who has got it, or had it last.
        self.consumer: Consumer | None = None
        #: Consumers that said "undeliverable here" (MODIFIED).
        self.excluded: set[Consumer] | None = None

    def settle(self, outcome: Outcome) -> None:
        """The consumer has decided (see :meth:`Queue.settled`)."""
        self.queue.settled(self, outcome)

    def encoded(self, now: float) -> bytes:
        """The message as it is to be sent now: remaining ttl, delivery-count (3.2.1)."""
        waited = int((now - self.arrived) * 1000)
        ttl = None
        if self.expiry is not None and waited > 0:
            ttl = max(1, int((self.expiry - now) * 1000))
        if ttl is None and not self.redelivered:
            return self.data
        count = self.delivery_count if self.redelivered else None
        return rewrite_header(self.data, delivery_count=count, ttl_ms=ttl)


class Queue:
    """``on_change()`` is told when a watermark is passed, and producers may send more or less;
    ``on_wait(queue, expiry)`` when a message with a ttl begins to wait: have it swept then."""

    def __init__(
        self,
        name: str,
        limits: Limits,
        counters: Counters,
        clock: Callable[[], float],
        on_change: Callable[[], None],
        on_wait: Callable[[Queue, float], None],
    ) -> None:
        self.name = name
        self.limits = limits
        self.saturated = False
        self.consumers: list[Consumer] = []
        self._counters = counters
        self._clock = clock
        self._on_change = on_change
        self._on_wait = on_wait
        self._ready: deque[Entry] = deque()
        self._acquired = 0
        self._orders = 0
        self._turn = 0
        self._held: dict[Entry, None] = {}

    @property
    def depth(self) -> int:
        """Messages held: waiting, or delivered and without an outcome."""
        return len(self._ready) + self._acquired

    @property
    def room(self) -> int:
        """Messages that fit below the high watermark; only for a queue with a capacity."""
        return 0 if self.saturated else self.limits.capacity - self.depth

    def enqueue(self, entry: Entry, completion: Completion | None) -> None:
        """Store a message. A saturated queue holds ``completion`` (None: presettled) back."""
        self._orders += 1
        entry.order = self._orders
        self._ready.append(entry)
        if self.saturated and completion is not None:
            completion.wait()
            entry.completion = completion
            self._held[entry] = None
        if 0 < self.limits.capacity <= self.depth and not self.saturated:
            self.saturated = True
            self._on_change()
        if entry.expiry is not None:
            self._on_wait(self, entry.expiry)

    def dispatch(self) -> None:
        """Give waiting messages to consumers with credit, in turn."""
        skipped: list[Entry] = []
        ready = self._ready
        while ready and self.consumers:
            entry = ready[0]
            now = self._clock()
            if entry.expiry is not None and entry.expiry <= now:
                ready.popleft()
                self._expired(entry)
                continue
            consumer = self._choose(entry)
            if consumer is not None:
                ready.popleft()
                self._deliver(entry, consumer, now)
            elif entry.excluded:
                # Nobody may have this one now; those behind it need not wait for it.
                skipped.append(ready.popleft())
            else:
                break
        ready.extendleft(reversed(skipped))

    def _choose(self, entry: Entry) -> Consumer | None:
        consumers = self.consumers
        count = len(consumers)
        for step in range(count):
            position = (self._turn + step) % count
            consumer = consumers[position]
            if consumer.credit > 0 and not (entry.excluded and consumer in entry.excluded):
                self._turn = position + 1
                return consumer
        return None

    def _deliver(self, entry: Entry, consumer: Consumer, now: float) -> None:
        self._acquired += 1
        entry.consumer = consumer
        if consumer.send(entry.encoded(now), entry):
            self._acquired -= 1
            self._left(entry)

    def settled(self, entry: Entry, outcome: Outcome) -> None:
        """Accepted and rejected messages leave the queue, all others come back to their place.

        Only MODIFIED with delivery-failed counts as a failed delivery (3.4.5).
        """
        self._acquired -= 1
        if outcome.name in ("accepted", "rejected"):
            if outcome.name == "rejected":
                self._counters.dead_lettered += 1
            self._left(entry)
            return
        entry.redelivered = True
        if outcome.failed:
            entry.delivery_count += 1
        if outcome.undeliverable and entry.consumer is not None:
            entry.excluded = (entry.excluded or set()) | {entry.consumer}
        self._counters.requeued += 1
        self._put_back(entry)

    def _put_back(self, entry: Entry) -> None:
        position = 0
        for waiting in self._ready:
            if waiting.order > entry.order:
                break
            position += 1
        self._ready.insert(position, entry)
        if entry.expiry is not None:
            self._on_wait(self, entry.expiry)

    def sweep(self) -> float | None:
        """Drop expired messages; returns when the next one expires, None = none will."""
        now = self._clock()
        expired = [e for e in self._ready if e.expiry is not None and e.expiry <= now]
        if expired:
            gone = set(expired)
            self._ready = deque(e for e in self._ready if e not in gone)
            for entry in expired:
                self._expired(entry)
        return min((e.expiry for e in self._ready if e.expiry is not None), default=None)

    def _expired(self, entry: Entry) -> None:
        self._counters.expired += 1
        self._left(entry)

    def _left(self, entry: Entry) -> None:
        """A message is gone for good: complete its transfer, look at the low watermark."""
        if entry in self._held:
            del self._held[entry]
            assert entry.completion is not None
            entry.completion.complete()
        if self.saturated and self.depth <= self.limits.resume:
            self.saturated = False
            self._release_held()
            self._on_change()

    def delete(self) -> None:
        """The queue goes away with all it holds."""
        self._counters.dropped += len(self._ready)
        self._ready.clear()
        self._release_held()

    def _release_held(self) -> None:
        held, self._held = self._held, {}
        for entry in held:
            assert entry.completion is not None
            entry.completion.complete()
