# SPDX-License-Identifier: Apache-2.0

"""A session (2.5) of one connection, on proton; lives on the I/O thread."""

from collections.abc import Iterator
from typing import Any, Protocol

from amqp1_driver.engine.session_window import OutgoingWindow, bound

#: bytes of a transfer frame beside the message, at most (2.7.5)
_TRANSFER = 64
#: bytes; largest frame of a peer that states no limit
_UNBOUNDED = 4294967295


class SessionLink(Protocol):
    """A link, as far as its session needs it."""

    def session_ended(self) -> None: ...


def all_sessions(pn_connection: Any) -> Iterator[Any]:
    """Yield proton's sessions of a connection, including those that the peer has begun."""
    session = pn_connection.session_head(0)
    while session is not None:
        yield session
        session = session.next(0)


class EngineSession:
    """A session that this end begins; it needs no links, and lasts until the peer ends it.

    :param pn_connection: proton's connection
    :param pn_transport: proton's transport, for the peer's largest frame
    :param frames: bound of the incoming window, in frames; 0: no bound
    :param max_frame: bytes; the ``max-frame-size`` in our Open frame
    """

    def __init__(
        self, pn_connection: Any, pn_transport: Any, frames: int = 0, max_frame: int = 0
    ) -> None:
        #: whether the peer has ended the session
        self.ended = False
        #: bytes; bound of the incoming window, which messages may exceed; 0: no bound
        self.capacity = frames * max_frame
        self._transport = pn_transport
        self._outgoing: OutgoingWindow | None = None
        self._links: dict[SessionLink, None] = {}
        self.pn_session = pn_connection.session()
        self.pn_session.context = self
        if self.capacity:
            bound(self.pn_session, frames, max_frame)
        self.pn_session.open()

    @property
    def bounded(self) -> bool:
        """Return whether the incoming window has a bound."""
        return self.capacity > 0

    @property
    def outgoing(self) -> OutgoingWindow:
        """Return the peer's window; call this only after the peer's Open.

        The Open states the peer's largest frame.
        """
        if self._outgoing is None:
            largest = self._transport.remote_max_frame_size or _UNBOUNDED
            self._outgoing = OutgoingWindow(self.pn_session, max(1, largest - _TRANSFER))
        return self._outgoing

    @property
    def links(self) -> int:
        """Return the number of links on the session."""
        return len(self._links)

    def add(self, link: SessionLink) -> None:
        """Count a link, and notify it when the peer ends the session."""
        self._links[link] = None

    def discard(self, link: SessionLink) -> None:
        """Forget a link that proton has freed."""
        self._links.pop(link, None)

    def remote_closed(self) -> None:
        """Notify the links that the peer has ended the session, and end it here too (2.5.4)."""
        self.ended = True
        for link in list(self._links):
            link.session_ended()
        self.pn_session.close()

    def destroy(self) -> None:
        """Break the reference cycle through proton's attachments, which Python never collects."""
        self.pn_session.context = None
        self.pn_session = None
        self._transport = None
