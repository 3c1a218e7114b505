# SPDX-License-Identifier: Apache-2.0

"""Queues of an embedded Service Bus whose messages belong to sessions; bus thread only.

The group-id of a message names its session. One receiver at a time reads a session. The receiver
names the session in the filter ``com.microsoft:session-filter`` of its source; a null there means
any free session ("Message sessions" of Azure's documentation). The receiver's lock on the session
is also the lock on its messages. The lock expires unless the receiver renews it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from proton import Described, symbol

from .links import DELIVERY_FAILED, Consumer, Refused
from .locks import Lock, LockQueue
from .tracking import tracked

FILTER = symbol("com.microsoft:session-filter")
_LOCKED_UNTIL = symbol("com.microsoft:locked-until-utc")
#: Ticks of 100 ns from year 1 to 1970; the service states the end of a lock in such ticks.
_EPOCH = 621355968000000000


class Session(LockQueue):
    """The messages of one session.

    ``lock_duration`` of each message is infinite: the session lock covers the messages.
    """

    holder: Consumer | None = None
    #: End of the holder's lock: ``held_until`` by the bus's clock, ``shown_until`` in seconds since
    #: 1970.
    held_until = 0.0
    shown_until = 0.0

    def take(self, consumer: Consumer, duration: float) -> None:
        """Lock the session for one receiver.

        :param duration: seconds
        """
        self.holder = consumer
        self.consumers.append(consumer)
        self.extend(duration)

    def extend(self, duration: float) -> None:
        """Set the lock to last ``duration`` seconds from now."""
        self.held_until = self._clock() + duration
        self.shown_until = self._wall() + duration
        holder, due = self.holder, self.held_until
        self._call_at(due, lambda: self._lapse(holder, due))

    def _lapse(self, holder: Consumer | None, due: float) -> None:
        if holder is not None and self.holder is holder and self.held_until <= due:
            what = "The session lock has expired on the session. Accept a new session."
            holder.detach("com.microsoft:session-lock-lost", tracked(what))

    def leave(self, consumer: Consumer) -> None:
        """Unlock the session after its receiver has detached.

        The unsettled messages of the receiver return to the queue.
        """
        self.holder = None
        self.consumers.remove(consumer)
        for item in list(consumer.unsettled.values()):
            item.settle(DELIVERY_FAILED)

    def shown(self) -> float:
        """Return the end of a message's lock as reported to the receiver, in seconds since 1970."""
        return self.shown_until


class SessionQueue:
    """A queue or subscription whose messages belong to sessions.

    :param lock_duration: seconds
    :param new_session: creates an empty :class:`Session` for an id
    """

    def __init__(
        self, name: str, lock_duration: float, new_session: Callable[[str], Session]
    ) -> None:
        self.name = name
        self.lock_duration = lock_duration
        self._new_session = new_session
        self._sessions: dict[str, Session] = {}

    @property
    def depth(self) -> int:
        """Return the number of messages in all sessions."""
        return sum(session.depth for session in self._sessions.values())

    def store(self, session_id: str, data: bytes, expiry: float | None) -> None:
        """Append a message to its session."""
        self._session(session_id).store(data, expiry)

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = self._new_session(session_id)
        return session

    def attach(self, consumer: Consumer) -> Session:
        """Lock the session that the receiver requests.

        :raises Refused: the source has no session filter, the session is locked, or no session is
            free
        """
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
        session.take(consumer, self.lock_duration)
        consumer.link.source.filter.clear()
        consumer.link.source.filter.put_dict({FILTER: session_id})
        ticks = int(session.shown_until * 10_000_000) + _EPOCH
        consumer.link.properties = {_LOCKED_UNTIL: ticks}
        return session

    def _free(self) -> str:
        for session_id, session in self._sessions.items():
            if session.holder is None and session.depth:
                return session_id
        # The real service waits a while for a message in a free session.
        raise Refused("com.microsoft:timeout", tracked("No session with messages is free."))

    def tidy(self) -> None:
        """Delete empty sessions without a receiver."""
        unused = [i for i, s in self._sessions.items() if s.holder is None and not s.depth]
        for session_id in unused:
            del self._sessions[session_id]

    # -- for $management ---------------------------------------------------------

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
        session.extend(self.lock_duration)
        return session.shown_until


def _asked(source: Any) -> tuple[bool, str | None]:
    """Return whether a source has a session filter, and its session id (None: any session)."""
    data = source.filter
    data.rewind()
    filters = data.get_object() if data.next() else None
    if not isinstance(filters, dict) or FILTER not in filters:
        return False, None
    wanted = filters[FILTER]
    if isinstance(wanted, Described):
        wanted = wanted.value
    return True, None if wanted is None else str(wanted)
