# SPDX-License-Identifier: Apache-2.0

"""The state tables of connections and links; pure (no clock, no I/O), for any thread.

A table maps (state, event) to the next state, and is the only definition of the transitions. An
event that a table does not name in a state is a programming error and raises
:class:`IllegalTransition`. An event that a peer may cause at any time has an entry in every state.
A tool draws the diagrams in the documentation from these tables.
"""

import enum
from collections.abc import Mapping
from typing import Generic, TypeVar


class ConnectionState(enum.Enum):
    """The states of a logical connection, which outlives many physical ones."""

    IDLE = "idle"
    CONNECTING = "connecting"
    OPENING = "opening"
    ATTACHING = "attaching"
    READY = "ready"
    BACKOFF = "backoff"
    CLOSING = "closing"
    CLOSED = "closed"


class ConnectionEvent(enum.Enum):
    """The events that change the state of a logical connection."""

    START = "start"
    TRANSPORT_UP = "transport up"
    OPENED = "opened"
    REPLY_ATTACHED = "reply attached"
    REPLY_LOST = "reply lost"
    LOST = "lost"
    RETRY = "retry"
    CLOSE = "close"


class LinkState(enum.Enum):
    """The states of one link (AMQP 1.0, 2.6)."""

    DETACHED = "detached"
    ATTACHING = "attaching"
    ATTACHED = "attached"
    DETACHING = "detaching"
    REATTACH_WAIT = "reattach wait"


class LinkEvent(enum.Enum):
    """The events that change the state of a link."""

    ATTACH = "attach"
    REMOTE_ATTACHED = "remote attached"
    REMOTE_DETACHED = "remote detached"
    DETACH = "detach"
    RETRY = "retry"
    CONNECTION_LOST = "connection lost"


_C, _CE = ConnectionState, ConnectionEvent

#: Connection transitions.
CONNECTION: Mapping[tuple[ConnectionState, ConnectionEvent], ConnectionState] = {
    (_C.IDLE, _CE.START): _C.CONNECTING,
    (_C.IDLE, _CE.CLOSE): _C.CLOSED,
    (_C.CONNECTING, _CE.TRANSPORT_UP): _C.OPENING,
    (_C.CONNECTING, _CE.LOST): _C.BACKOFF,
    (_C.CONNECTING, _CE.CLOSE): _C.CLOSING,
    (_C.OPENING, _CE.OPENED): _C.ATTACHING,
    (_C.OPENING, _CE.LOST): _C.BACKOFF,
    (_C.OPENING, _CE.CLOSE): _C.CLOSING,
    (_C.ATTACHING, _CE.REPLY_ATTACHED): _C.READY,
    (_C.ATTACHING, _CE.REPLY_LOST): _C.ATTACHING,
    (_C.ATTACHING, _CE.LOST): _C.BACKOFF,
    (_C.ATTACHING, _CE.CLOSE): _C.CLOSING,
    (_C.READY, _CE.REPLY_LOST): _C.ATTACHING,
    (_C.READY, _CE.LOST): _C.BACKOFF,
    (_C.READY, _CE.CLOSE): _C.CLOSING,
    (_C.BACKOFF, _CE.RETRY): _C.CONNECTING,
    (_C.BACKOFF, _CE.CLOSE): _C.CLOSED,
    (_C.CLOSING, _CE.LOST): _C.CLOSED,
    (_C.CLOSING, _CE.CLOSE): _C.CLOSING,
    (_C.CLOSED, _CE.CLOSE): _C.CLOSED,
    (_C.CLOSED, _CE.LOST): _C.CLOSED,
}

_L, _LE = LinkState, LinkEvent

#: Link transitions.
LINK: Mapping[tuple[LinkState, LinkEvent], LinkState] = {
    (_L.DETACHED, _LE.ATTACH): _L.ATTACHING,
    (_L.DETACHED, _LE.DETACH): _L.DETACHED,
    (_L.DETACHED, _LE.CONNECTION_LOST): _L.DETACHED,
    (_L.ATTACHING, _LE.REMOTE_ATTACHED): _L.ATTACHED,
    (_L.ATTACHING, _LE.REMOTE_DETACHED): _L.REATTACH_WAIT,
    (_L.ATTACHING, _LE.DETACH): _L.DETACHING,
    (_L.ATTACHING, _LE.CONNECTION_LOST): _L.DETACHED,
    (_L.ATTACHED, _LE.REMOTE_DETACHED): _L.REATTACH_WAIT,
    (_L.ATTACHED, _LE.DETACH): _L.DETACHING,
    (_L.ATTACHED, _LE.CONNECTION_LOST): _L.DETACHED,
    (_L.DETACHING, _LE.REMOTE_ATTACHED): _L.DETACHING,
    (_L.DETACHING, _LE.REMOTE_DETACHED): _L.DETACHED,
    (_L.DETACHING, _LE.DETACH): _L.DETACHING,
    (_L.DETACHING, _LE.CONNECTION_LOST): _L.DETACHED,
    (_L.REATTACH_WAIT, _LE.RETRY): _L.ATTACHING,
    (_L.REATTACH_WAIT, _LE.DETACH): _L.DETACHED,
    (_L.REATTACH_WAIT, _LE.CONNECTION_LOST): _L.DETACHED,
}


class IllegalTransition(RuntimeError):
    """An event that the table does not allow in this state."""


S = TypeVar("S", bound=enum.Enum)
E = TypeVar("E", bound=enum.Enum)


class Machine(Generic[S, E]):
    """The current state of one connection or link.

    :param table: transitions, ``(state, event) -> state``
    :param initial: the first state
    """

    __slots__ = ("_table", "state")

    def __init__(self, table: Mapping[tuple[S, E], S], initial: S) -> None:
        self._table = table
        self.state = initial

    def can(self, event: E) -> bool:
        """Return whether the table allows the event in the current state."""
        return (self.state, event) in self._table

    def fire(self, event: E) -> S:
        """Take the transition and return the new state.

        :raises IllegalTransition: the table has no entry for the event in the current state
        """
        try:
            self.state = self._table[self.state, event]
        except KeyError:
            raise IllegalTransition(f"{event.value!r} in state {self.state.value!r}") from None
        return self.state
