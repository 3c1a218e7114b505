# SPDX-License-Identifier: Apache-2.0

"""Queues of an embedded Service Bus with peek-lock and dead-lettering; bus thread only.

The queue locks each message that it delivers unsettled. No other receiver gets the message until
the lock holder settles it or the lock expires. A lock outlives the link and the connection
("Message transfers, locks, and settlement" of Azure's documentation).
"""

from __future__ import annotations

import heapq
import itertools
import math
import uuid
from collections.abc import Callable

from amqp1_driver.wire.types import Long, Timestamp, encode

from .counters import Counters
from .links import Consumer, Outcome
from .messages import annotate, rewrite_header
from .queues import Entry, Limits, Queue
from .timers import Alarm, Schedule
from .tracking import refused

LOST = refused(
    "com.microsoft:message-lock-lost",
    "The lock supplied is invalid. Either the lock expired, or the message has already been "
    "removed from the queue.",
)
_DEAD_LETTER = "com.microsoft:dead-letter"
_REASON, _DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"


def _timestamp(seconds: float) -> bytes:
    return encode(Timestamp(int(seconds * 1000)))


class Stored(Entry):
    """A message in a queue; ``enqueued`` in seconds since 1970."""

    __slots__ = ("deferred", "enqueued")

    def __init__(
        self,
        queue: LockQueue,
        data: bytes,
        arrived: float,
        expiry: float | None,
        delivery_count: int,
        enqueued: float,
    ) -> None:
        super().__init__(queue, data, arrived, expiry, delivery_count)
        self.enqueued = enqueued
        self.deferred = False

    def encoded(self, now: float, locked_until: float | None = None) -> bytes:
        """Return the message with the service's annotations and always with a delivery-count.

        :param now: time of the bus's clock
        :param locked_until: seconds since 1970; None = no lock
        """
        data = super().encoded(now)
        if not self.redelivered:
            data = rewrite_header(data, delivery_count=self.delivery_count)
        notes = {
            "x-opt-sequence-number": encode(Long(self.order)),
            "x-opt-enqueued-time": _timestamp(self.enqueued),
        }
        if locked_until is not None:
            notes["x-opt-locked-until"] = _timestamp(locked_until)
        return annotate(data, notes, {})


class Lock:
    """A lock on a message: one unsettled delivery of a consumer.

    ``token`` is also the delivery-tag.
    """

    __slots__ = ("held", "queue", "stored", "token", "until")

    def __init__(self, queue: LockQueue, stored: Stored, until: float) -> None:
        self.queue = queue
        self.stored = stored
        self.token = uuid.uuid4()
        self.until = until
        #: True until the lock is settled or expired.
        self.held = True

    def settle(self, outcome: Outcome) -> None:
        """Apply the outcome of the consumer."""
        self.queue.unlock(self, outcome)


class LockQueue(Queue):
    """A queue with peek-lock. Times are in seconds.

    :param clock: returns the time of the bus's clock
    :param wall: returns seconds since 1970
    :param dead_letters: the dead-letter queue; None = this queue is one itself
    """

    def __init__(
        self,
        name: str,
        counters: Counters,
        clock: Callable[[], float],
        wall: Callable[[], float],
        call_at: Schedule,
        *,
        lock_duration: float,
        max_delivery_count: int,
        dead_letters: LockQueue | None,
    ) -> None:
        super().__init__(name, Limits(), counters, clock, lambda: None, call_at)
        self.dead_letters = dead_letters
        self.lock_duration = lock_duration
        self._max_delivery_count = max_delivery_count
        self._wall = wall
        self._call_at = call_at
        self._serial = itertools.count()
        #: Heap of locks by time of expiry; each renewal of a lock adds another entry.
        self._locks: list[tuple[float, int, Lock]] = []
        self._lock_alarm = Alarm(call_at, self._expire)
        self._by_token: dict[uuid.UUID, Lock] = {}

    def store(self, data: bytes, expiry: float | None, delivery_count: int = 0) -> None:
        """Append a message and dispatch."""
        now = self._clock()
        self.enqueue(Stored(self, data, now, expiry, delivery_count, self._wall()), None)
        self.dispatch()

    def _deliver(self, entry: Entry, consumer: Consumer, now: float) -> None:
        assert isinstance(entry, Stored)
        if consumer.presettled:
            consumer.send(entry.encoded(now), None)
            self._left(entry)
            return
        self._acquired += 1
        lock = Lock(self, entry, now + self.lock_duration)
        self._watch(lock)
        self._by_token[lock.token] = lock
        consumer.send(entry.encoded(now, self.shown()), lock, lock.token.bytes_le)

    def shown(self) -> float:
        """Return the end of a lock that begins now, in seconds since 1970, for the receiver."""
        return self._wall() + self.lock_duration

    # -- locks ---------------------------------------------------------------

    def find(self, token: uuid.UUID) -> Lock | None:
        """Return the lock with this token, None if no receiver holds it."""
        return self._by_token.get(token)

    def renew(self, lock: Lock) -> float:
        """Renew a lock; return its end in seconds since 1970."""
        lock.until = self._clock() + self.lock_duration
        self._watch(lock)
        return self.shown()

    def _watch(self, lock: Lock) -> None:
        if lock.until == math.inf:
            return
        locks = self._locks
        while locks and not locks[0][2].held:
            heapq.heappop(locks)
        heapq.heappush(locks, (lock.until, next(self._serial), lock))
        self._lock_alarm.set(locks[0][0])

    def _expire(self) -> None:
        now = self._clock()
        while self._locks and self._locks[0][0] <= now:
            lock = heapq.heappop(self._locks)[2]
            if lock.held and lock.until <= now:
                self._release(lock)
                self._failed(lock.stored)
        if self._locks:
            self._lock_alarm.set(self._locks[0][0])
        self.dispatch()

    def _release(self, lock: Lock) -> None:
        lock.held = False
        del self._by_token[lock.token]
        self._acquired -= 1

    # -- outcomes ------------------------------------------------------------

    def unlock(self, lock: Lock, outcome: Outcome) -> None:
        """Complete, dead-letter, defer or abandon a message by its outcome; ignore a lost lock."""
        if not lock.held:
            return
        self._release(lock)
        stored = lock.stored
        if outcome.name == "accepted":
            self._left(stored)
        elif outcome.name == "rejected" and self.dead_letters is not None:
            self._bury(stored, *_why(outcome))
        elif outcome.name == "modified" and outcome.undeliverable:
            # The deferred message waits for a request by sequence number, which this bus does not
            # implement.
            stored.deferred = True
            self._acquired += 1
        elif outcome.name in ("rejected", "modified"):
            self._failed(stored)
        else:
            self._again(stored)

    def _failed(self, stored: Stored) -> None:
        """Count a failed delivery; return the message to the queue or dead-letter it."""
        stored.delivery_count += 1
        if self.dead_letters is not None and stored.delivery_count >= self._max_delivery_count:
            count = self._max_delivery_count
            what = f"Message could not be consumed after {count} delivery attempts."
            self._bury(stored, "MaxDeliveryCountExceeded", what)
        else:
            self._again(stored)

    def _again(self, stored: Stored) -> None:
        stored.redelivered = True
        self._counters.requeued += 1
        self._put_back(stored)

    def _bury(self, stored: Stored, reason: str, description: str) -> None:
        assert self.dead_letters is not None
        self._counters.dead_lettered += 1
        self._left(stored)
        properties = {_REASON: reason, _DESCRIPTION: description}
        notes = {"x-opt-deadletter-source": encode(self.name)}
        data = annotate(stored.data, notes, {k: v for k, v in properties.items() if v})
        self.dead_letters.store(data, None, stored.delivery_count)


def _why(outcome: Outcome) -> tuple[str, str]:
    """Return reason and description from the error of REJECTED; "" for a missing one."""
    condition = outcome.condition
    if condition is None:
        return "", ""
    info = condition.info if isinstance(condition.info, dict) else {}
    texts = {str(key): str(value) for key, value in info.items() if value is not None}
    name = "" if condition.name == _DEAD_LETTER else str(condition.name)
    return texts.get(_REASON, name), texts.get(_DESCRIPTION, condition.description or "")
