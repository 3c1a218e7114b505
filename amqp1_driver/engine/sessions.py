# SPDX-License-Identifier: Apache-2.0

"""The choice of a session for each new link; lives on the I/O thread."""

from collections.abc import Callable

from amqp1_driver.engine.session import EngineSession

#: Limit of links on one session. RabbitMQ ends a session at its 257th link, and proton (here, as in
#: many peers) searches all links of a session at each attach.
LINKS_PER_SESSION = 200


class Sessions:
    """The sessions of one connection: shared ones, those for senders and those for receivers.

    A new session replaces one that the peer has ended, at the next request for a session.

    :param begin: begins a session
    :param per_receiver: whether each receiving link gets a session of its own, within the limit
    :param limit: number of sessions that the peer allows
    :param one: whether all kinds of links share one session, as long as it has room
    """

    def __init__(
        self,
        begin: Callable[[], EngineSession],
        per_receiver: bool,
        limit: int,
        one: bool = False,
    ) -> None:
        self._begin = begin
        self._receivers_each = 1 if per_receiver else LINKS_PER_SESSION
        # the reply link and management share one session
        self._limit = limit - 1
        self._shared: dict[str, EngineSession] = {}
        self._senders: list[EngineSession] = []
        self._receivers: list[EngineSession] = self._senders if one else []
        self._one = one

    def shared(self, use: str) -> EngineSession:
        """Return the session for a use, such as ``"replies"``; begin one if there is none."""
        if self._one:
            return self.for_receiver()
        session = self._shared.get(use)
        if session is None or session.ended:
            session = self._shared[use] = self._begin()
        return session

    def for_sender(self) -> EngineSession:
        """Return a session for a new sending link."""
        self._forget_ended()
        others = 0 if self._one else len(self._receivers)
        return self._chosen(self._senders, LINKS_PER_SESSION, self._limit - others)

    def for_receiver(self) -> EngineSession:
        """Return a session for a new receiving link."""
        self._forget_ended()
        # receivers leave at least one session to senders
        others = 0 if self._one else max(1, len(self._senders))
        return self._chosen(self._receivers, self._receivers_each, self._limit - others)

    @property
    def must_share(self) -> bool:
        """Return whether the next receiver would have to share a session with other receivers.

        Sharing is a risk: an error of one link may make the peer end the session of all.
        """
        self._forget_ended()
        return (
            self._receivers_each == 1
            and all(s.links for s in self._receivers)
            and len(self._receivers) >= self._limit - max(1, len(self._senders))
        )

    def _forget_ended(self) -> None:
        self._senders[:] = [s for s in self._senders if not s.ended]
        self._receivers[:] = [s for s in self._receivers if not s.ended]

    def _chosen(self, sessions: list[EngineSession], each: int, limit: int) -> EngineSession:
        """Return a session with room for a link, a new one, or the one with the fewest links.

        :param each: number of links that a session has room for
        :param limit: number of sessions that ``sessions`` may have
        """
        free = next((s for s in sessions if s.links < each), None)
        if free is not None:
            return free
        if not sessions or len(sessions) < limit:
            sessions.append(self._begin())
            return sessions[-1]
        return min(sessions, key=lambda s: s.links)
