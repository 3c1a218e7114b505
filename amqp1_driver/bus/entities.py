# SPDX-License-Identifier: Apache-2.0

"""The entities of an embedded Service Bus: queues with peek-lock and dead letters, and sessions.

A queue locks each message that it delivers unsettled. No other receiver gets the message until the
lock holder settles it or the lock expires. A lock outlives the link and the connection ("Message
transfers, locks, and settlement" of Azure's documentation).

If an entity requires sessions, the group-id of a message names its session. One receiver at a time
reads a session. The receiver names the session in the filter ``com.microsoft:session-filter`` of
its source; a null there means any free session ("Message sessions" of Azure's documentation). The
receiver's lock on the session is also the lock on its messages. The lock expires unless the
receiver renews it. Bus thread only.
"""

from __future__ import annotations

import datetime
import heapq
import itertools
import math
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from proton import Described, symbol

from amqp1_driver.wire.types import Long, Timestamp, encode

from .links import DELIVERY_FAILED, Consumer, Outcome, Refused, rejected
from .messages import annotate, rewrite_header
from .queues import Entry, Limits, Queue
from .timers import Alarm

if TYPE_CHECKING:
    from .servicebus import ServiceBus


def tracked(description: str) -> str:
    """Return ``description`` followed by TrackingId, SystemTracker and Timestamp."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{description} TrackingId:{uuid.uuid4()}_G1, SystemTracker:amqp1-bus, Timestamp:{now}"


def refused(condition: str, description: str) -> Outcome:
    """Return REJECTED with an error whose field ``info`` is set, too.

    Microsoft's SDK for Python reads all three fields of an error without checking that they exist.
    """
    outcome = rejected(condition, description)
    outcome.condition.info = {symbol("com.microsoft:tracking-id"): f"{uuid.uuid4()}_G1"}
    return outcome


LOST = refused(
    "com.microsoft:message-lock-lost",
    "The lock supplied is invalid. Either the lock expired, or the message has already been "
    "removed from the queue.",
)
SESSION_LOST = "The session lock has expired on the session. Accept a new session."
_DEAD_LETTER = "com.microsoft:dead-letter"
_REASON, _DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"
_FILTER = symbol("com.microsoft:session-filter")
_LOCKED_UNTIL = symbol("com.microsoft:locked-until-utc")
#: Ticks of 100 ns from year 1 to 1970; the service states the end of a lock in such ticks.
_EPOCH = 621355968000000000


def _timestamp(seconds: float) -> bytes:
    return encode(Timestamp(int(seconds * 1000)))


class Incoming(NamedTuple):
    """A message to store; ``expiry`` by the bus's clock in seconds, None = never."""

    data: bytes
    expiry: float | None
    session_id: str | None = None
    delivery_count: int = 0


@dataclass(slots=True, eq=False)
class Stored(Entry):
    """A message in a queue; ``enqueued`` in seconds since 1970."""

    enqueued: float = 0.0

    def encoded(self, now: float, locked_until: float | None = None) -> bytes:
        """Return the message with the service's annotations and always with a delivery-count.

        :param now: time of the bus's clock
        :param locked_until: seconds since 1970; None = no lock
        """
        data = Entry.encoded(self, now)
        if not self.redelivered:
            data = rewrite_header(data, delivery_count=self.delivery_count)
        notes = {
            "x-opt-sequence-number": encode(Long(self.order)),
            "x-opt-enqueued-time": _timestamp(self.enqueued),
        }
        if locked_until is not None:
            notes["x-opt-locked-until"] = _timestamp(locked_until)
        return annotate(data, notes, {})


@dataclass(slots=True, eq=False)
class Lock:
    """A lock on a message: one unsettled delivery of a consumer.

    ``token`` is also the delivery-tag.
    """

    queue: LockQueue
    stored: Stored
    until: float
    token: uuid.UUID = field(default_factory=uuid.uuid4)
    #: True until the lock is settled or expired.
    held: bool = True

    def settle(self, outcome: Outcome) -> None:
        """Apply the outcome of the consumer."""
        self.queue.unlock(self, outcome)


class LockQueue(Queue):
    """A queue or subscription with peek-lock.

    :param dead_letters: the dead-letter queue; None = this queue is one itself
    """

    def __init__(self, name: str, bus: ServiceBus, dead_letters: LockQueue | None) -> None:
        super().__init__(name, Limits(), bus)
        self.dead_letters = dead_letters
        self.lock_duration = bus.namespace.lock_duration
        self._bus = bus
        self._serial = itertools.count()
        #: Heap of locks by time of expiry; each renewal of a lock adds another entry.
        self._locks: list[tuple[float, int, Lock]] = []
        self._lock_alarm = Alarm(bus.later, self._expire)
        self._by_token: dict[uuid.UUID, Lock] = {}

    def attach(self, consumer: Consumer) -> LockQueue:
        """Add a consumer; return the queue that it reads."""
        self.consumers.append(consumer)
        return self

    def detach(self, consumer: Consumer) -> None:
        """Remove a consumer; its locks remain."""
        self.consumers.remove(consumer)

    def store(self, message: Incoming) -> None:
        """Append a message and dispatch."""
        data, expiry, _, delivery_count = message
        now, wall = self._clock(), self._bus.wall()
        self.enqueue(Stored(self, data, now, expiry, delivery_count, enqueued=wall), None)
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
        return self._bus.wall() + self.lock_duration

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
            # The deferred message stays in the queue and waits for a request by sequence number,
            # which this bus does not implement.
            self._acquired += 1
        elif outcome.name in ("rejected", "modified"):
            self._failed(stored)
        else:
            self._again(stored)

    def _failed(self, stored: Stored) -> None:
        """Count a failed delivery; return the message to the queue or dead-letter it."""
        stored.delivery_count += 1
        count = self._bus.namespace.max_delivery_count
        if self.dead_letters is not None and stored.delivery_count >= count:
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
        self.dead_letters.store(Incoming(data, None, None, stored.delivery_count))


class Session(LockQueue):
    """The messages of one session; the session lock covers them."""

    def __init__(self, name: str, bus: ServiceBus, dead_letters: LockQueue | None) -> None:
        super().__init__(name, bus, dead_letters)
        self.holder: Consumer | None = None
        #: End of the holder's lock: ``held_until`` by the bus's clock, ``shown_until`` in seconds
        #: since 1970.
        self.held_until = self.shown_until = 0.0
        self._session_duration = self.lock_duration
        self.lock_duration = math.inf  # of a message

    def attach(self, consumer: Consumer) -> Session:
        """Lock the session for one receiver."""
        self.holder = consumer
        self.extend()
        super().attach(consumer)
        return self

    def extend(self) -> None:
        """Begin the lock on the session anew."""
        self.held_until = self._clock() + self._session_duration
        self.shown_until = self._bus.wall() + self._session_duration
        holder, due = self.holder, self.held_until
        self._bus.later(due, lambda: self._lapse(holder, due))

    def _lapse(self, holder: Consumer | None, due: float) -> None:
        if holder is not None and self.holder is holder and self.held_until <= due:
            holder.detach("com.microsoft:session-lock-lost", tracked(SESSION_LOST))

    def detach(self, consumer: Consumer) -> None:
        """Unlock the session; the unsettled messages of its receiver return to the queue."""
        self.holder = None
        super().detach(consumer)
        for item in list(consumer.unsettled.values()):
            item.settle(DELIVERY_FAILED)

    def shown(self) -> float:
        """Return the end of the session lock, in seconds since 1970, for the receiver."""
        return self.shown_until


class SessionQueue:
    """A queue whose messages belong to sessions.

    :param dead_letters: the dead-letter queue of all sessions
    """

    def __init__(self, name: str, bus: ServiceBus, dead_letters: LockQueue) -> None:
        self.name = name
        self._bus = bus
        self._dead_letters = dead_letters
        self._sessions: dict[str, Session] = {}

    @property
    def depth(self) -> int:
        """Return the number of messages in all sessions."""
        return sum(session.depth for session in self._sessions.values())

    def store(self, message: Incoming) -> None:
        """Append a message to its session."""
        self._session(message.session_id or "").store(message)

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            session = Session(self.name, self._bus, self._dead_letters)
            self._sessions[session_id] = session
        return session

    def attach(self, consumer: Consumer) -> LockQueue:
        """Lock the session that the receiver requests.

        :raises Refused: the source has no session filter, the session is locked, or no session is
            free
        """
        self._tidy()
        asked, session_id = _asked(consumer.link.remote_source)
        if not asked:
            what = "An entity that requires sessions needs a session in the source's filter."
            raise Refused("amqp:not-allowed", tracked(what))
        if session_id is None:
            session_id = self._free()
        session = self._session(session_id)
        if session.holder is not None:
            what = f"The requested session '{session_id}' cannot be accepted. It is locked."
            raise Refused("com.microsoft:session-cannot-be-locked", tracked(what))
        session.attach(consumer)
        consumer.link.source.filter.clear()
        consumer.link.source.filter.put_dict({_FILTER: session_id})
        ticks = int(session.shown_until * 10_000_000) + _EPOCH
        consumer.link.properties = {_LOCKED_UNTIL: ticks}
        return session

    def _free(self) -> str:
        for session_id, session in self._sessions.items():
            if session.holder is None and session.depth:
                return session_id
        # The real service waits a while for a message in a free session.
        raise Refused("com.microsoft:timeout", tracked("No session with messages is free."))

    def _tidy(self) -> None:
        """Delete empty sessions without a receiver."""
        unused = [i for i, s in self._sessions.items() if s.holder is None and not s.depth]
        for session_id in unused:
            del self._sessions[session_id]

    def find(self, token: uuid.UUID) -> Lock | None:
        """Return the lock with this token, None if no receiver holds it."""
        found = (session.find(token) for session in self._sessions.values())
        return next((lock for lock in found if lock is not None), None)

    def renew_session(self, session_id: str) -> float | None:
        """Renew the lock on a session.

        :returns: end of the lock in seconds since 1970; None if no receiver holds the session
        """
        session = self._sessions.get(session_id)
        if session is None or session.holder is None:
            return None
        session.extend()
        return session.shown_until


def _why(outcome: Outcome) -> tuple[str, str]:
    """Return reason and description from the error of REJECTED; "" for a missing one."""
    condition = outcome.condition
    if condition is None:
        return "", ""
    info = condition.info if isinstance(condition.info, dict) else {}
    texts = {str(key): str(value) for key, value in info.items() if value is not None}
    name = "" if condition.name == _DEAD_LETTER else str(condition.name)
    return texts.get(_REASON, name), texts.get(_DESCRIPTION, condition.description or "")


def _asked(source: Any) -> tuple[bool, str | None]:
    """Return whether a source has a session filter, and its session id (None: any session)."""
    data = source.filter
    data.rewind()
    filters = data.get_object() if data.next() else None
    if not isinstance(filters, dict) or _FILTER not in filters:
        return False, None
    wanted = filters[_FILTER]
    if isinstance(wanted, Described):
        wanted = wanted.value
    return True, None if wanted is None else str(wanted)
