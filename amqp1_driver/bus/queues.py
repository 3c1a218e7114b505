# SPDX-License-Identifier: Apache-2.0

"""A queue of stored messages with competing consumers and watermarks; bus thread only.

Producer flow control follows two designs of Apache Qpid: "Producer throttling" of the C++ broker
and "Producer Flow Control" of the Java broker. A queue with ``capacity`` messages or
``capacity_bytes`` bytes is *saturated*, and its producers get no credit. A saturated queue still
stores a message that arrives. It completes the transfer of that message only when the queue has
drained to its resume marks or the message has left the queue.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from .behaviour import Behaviour
from .links import ACCEPTED, CREDIT, Consumer, Outcome, Transfer
from .messages import rewrite_header
from .timers import Alarm


class Limits(NamedTuple):
    """Watermarks of a queue, in messages and in bytes.

    A queue is full when it has reached one of its capacities. A full queue accepts messages again
    when it has drained to both resume marks. Capacity 0 = no limit of that kind. ``capacity`` and
    ``resume`` are in messages, ``capacity_bytes`` and ``resume_bytes`` in bytes.
    """

    capacity: int = 0
    resume: int = 0
    capacity_bytes: int = 0
    resume_bytes: int = 0

    @classmethod
    def of(
        cls,
        capacity: int = 0,
        resume: int | None = None,
        capacity_bytes: int = 0,
        resume_bytes: int | None = None,
    ) -> Limits:
        """Create watermarks; a resume mark defaults to three quarters of its capacity.

        :raises ValueError: a resume mark is not below its capacity, or a value is negative
        """
        found = cls(
            capacity,
            capacity * 3 // 4 if resume is None else resume,
            capacity_bytes,
            capacity_bytes * 3 // 4 if resume_bytes is None else resume_bytes,
        )
        marks = (
            ("resume", found.capacity, found.resume),
            ("resume_bytes", found.capacity_bytes, found.resume_bytes),
        )
        for name, high, low in marks:
            if high < 0 or not 0 <= low <= high:
                raise ValueError(f"0 <= queue_{name} <= the capacity must hold")
            if high and low == high:
                raise ValueError(f"queue_{name} must be less than the capacity")
        return found

    def full(self, depth: int, size: int) -> bool:
        """Return whether a queue with this depth and size (bytes) is at a high watermark."""
        return 0 < self.capacity <= depth or 0 < self.capacity_bytes <= size

    def drained(self, depth: int, size: int) -> bool:
        """Return whether a full queue with this depth and size (bytes) is at its low watermarks."""
        by_count = not self.capacity or depth <= self.resume
        return by_count and (not self.capacity_bytes or size <= self.resume_bytes)

    def __str__(self) -> str:
        parts = []
        if self.capacity:
            parts.append(f"{self.capacity} messages, {self.resume} to resume")
        if self.capacity_bytes:
            parts.append(f"{self.capacity_bytes} bytes, {self.resume_bytes} to resume")
        return "; ".join(parts) or "none"


class Completion:
    """A transfer whose outcome waits until no saturated queue holds it back."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._waiting = 0

    def wait(self) -> None:
        """Count one more queue that holds the transfer back."""
        self._waiting += 1

    def complete(self) -> None:
        """Count one queue fewer; accept the transfer after the last one."""
        self._waiting -= 1
        if self._waiting == 0:
            self._transfer.settle(ACCEPTED)


@dataclass(slots=True, eq=False)
class Entry:
    """A message in a queue.

    ``arrived`` and ``expiry`` are times of the behaviour's clock in seconds.
    """

    queue: Queue
    data: bytes
    arrived: float
    expiry: float | None
    delivery_count: int
    redelivered: bool = False
    #: Place of the message when it returns to the queue.
    order: int = 0
    #: Consumer that has the message, or had it last.
    consumer: Consumer | None = None
    #: Consumers that returned the message as undeliverable-here (MODIFIED).
    excluded: set[Consumer] | None = None

    def settle(self, outcome: Outcome) -> None:
        """Apply the outcome of the consumer (see :meth:`Queue.settled`)."""
        self.queue.settled(self, outcome)

    def encoded(self, now: float) -> bytes:
        """Return the message to send now, with the remaining ttl and the delivery-count (3.2.1)."""
        waited = int((now - self.arrived) * 1000)
        ttl = None
        if self.expiry is not None and waited > 0:
            ttl = max(1, int((self.expiry - now) * 1000))
        if ttl is None and not self.redelivered:
            return self.data
        count = self.delivery_count if self.redelivered else None
        return rewrite_header(self.data, delivery_count=count, ttl_ms=ttl)


class Queue:
    """A queue with competing consumers.

    A message with a ttl expires in time, even without a consumer.

    :param on_change: called when the queue has passed a watermark or has dropped expired messages;
        the credit of producers may change
    """

    def __init__(
        self,
        name: str,
        limits: Limits,
        behaviour: Behaviour,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.limits = limits
        self.saturated = False
        self.consumers: list[Consumer] = []
        self._counters = behaviour.counters
        self._clock = behaviour.clock
        self._on_change = on_change
        self._expiry = Alarm(behaviour.later, self._sweep)
        self._ready: deque[Entry] = deque()
        self._acquired = 0
        #: Size in bytes of the messages held.
        self.size = 0
        self._orders = 0
        self._turn = 0
        #: Transfers that wait for this queue, by their messages.
        self._held: dict[Entry, Completion] = {}

    @property
    def depth(self) -> int:
        """Return the number of messages held: waiting, or delivered and without an outcome."""
        return len(self._ready) + self._acquired

    @property
    def room(self) -> int:
        """Return how many messages fit below the high watermark.

        The limit in bytes takes effect only when the messages have arrived.
        """
        if self.saturated:
            return 0
        return self.limits.capacity - self.depth if self.limits.capacity else CREDIT

    def limit(self, limits: Limits) -> None:
        """Set other watermarks, with effect at once."""
        self.limits = limits
        if not self.saturated and limits.full(self.depth, self.size):
            self.saturated = True
        elif self.saturated and limits.drained(self.depth, self.size):
            self.saturated = False
            self._release_held()
        self._on_change()

    def enqueue(self, entry: Entry, completion: Completion | None) -> None:
        """Store a message.

        :param completion: the outcome of the transfer, which a saturated queue holds back; None =
            there is no outcome to hold back
        """
        self._orders += 1
        entry.order = self._orders
        self._ready.append(entry)
        self.size += len(entry.data)
        if self.saturated and completion is not None:
            completion.wait()
            self._held[entry] = completion
        if not self.saturated and self.limits.full(self.depth, self.size):
            self.saturated = True
            self._on_change()
        if entry.expiry is not None:
            self._expiry.set(entry.expiry)

    def dispatch(self) -> None:
        """Deliver waiting messages to the consumers with credit, in turn."""
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
                # No consumer may take this message now; the messages behind it need not wait.
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
        """Remove an accepted or rejected message; return any other message to its place.

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
        bisect.insort(self._ready, entry, key=attrgetter("order"))
        if entry.expiry is not None:
            self._expiry.set(entry.expiry)

    def _sweep(self) -> None:
        """Drop expired messages."""
        now = self._clock()
        expired = [e for e in self._ready if e.expiry is not None and e.expiry <= now]
        if expired:
            gone = set(expired)
            self._ready = deque(e for e in self._ready if e not in gone)
            for entry in expired:
                self._expired(entry)
        waiting = [e.expiry for e in self._ready if e.expiry is not None]
        if waiting:
            self._expiry.set(min(waiting))
        self._on_change()

    def _expired(self, entry: Entry) -> None:
        self._counters.expired += 1
        self._left(entry)

    def _left(self, entry: Entry) -> None:
        """Account for a removed message: complete its transfer, check the low watermark."""
        self.size -= len(entry.data)
        completion = self._held.pop(entry, None)
        if completion is not None:
            completion.complete()
        if self.saturated and self.limits.drained(self.depth, self.size):
            self.saturated = False
            self._release_held()
            self._on_change()

    def delete(self) -> None:
        """Discard all messages, because the queue is deleted."""
        self._counters.dropped += len(self._ready)
        self._ready.clear()
        self.size = 0
        self.saturated = False
        self._release_held()

    def _release_held(self) -> None:
        held, self._held = self._held, {}
        for completion in held.values():
            completion.complete()
