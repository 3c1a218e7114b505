# SPDX-License-Identifier: Apache-2.0

"""pyngus's links and sessions with deliveries as plain bytes; on the I/O thread.

These classes replace three features of pyngus that do not fit this driver. pyngus decodes each
message into a ``proton.Message``, it buffers messages sent without credit, and it does not report
that the peer has ended the session of a link. Sans-I/O.
"""

import sys
from collections.abc import Iterator
from typing import Any, Protocol

import proton
from pyngus import link as pyngus_link

from amqp1_driver.codec import Encoded
from amqp1_driver.engine.deliveries import Deliveries
from amqp1_driver.engine.session_window import OutgoingWindow
from amqp1_driver.policy.outcome import MESSAGE_SIZE_EXCEEDED, Disposition, Outcome
from amqp1_driver.policy.redirect import Redirect

#: bytes of a transfer frame beside the message, at most (2.7.5)
_TRANSFER = 64
#: bytes; largest message of a link without a limit
UNLIMITED = sys.maxsize
#: bytes; the driver takes an unfinished message out of proton in pieces of at least this size,
#: because proton does not free the memory of its buffer before it frees the link
PIECE = 1 << 20
#: bytes; largest frame of a peer that states no limit
_UNBOUNDED = 4294967295


class LinkHandler(Protocol):
    """The interface through which a link reports to its owner."""

    def link_attached(self) -> None: ...
    def link_detached(self, name: str | None, description: str | None) -> None: ...


class SenderHandler(LinkHandler, Protocol):
    """The interface of a sending link's owner.

    ``waits`` is true while messages wait for credit, or for room in the session's window.
    """

    @property
    def waits(self) -> bool: ...
    def link_credit(self) -> None: ...
    def link_outcome(self, key: int, disposition: Disposition) -> None: ...


class ReceiverHandler(LinkHandler, Protocol):
    def link_delivery(self, key: int, data: bytes, settled: bool) -> None: ...


class AskingHandler(ReceiverHandler, Protocol):
    """The interface of a receiving link's owner that asks for an echo or a drain."""

    def link_answer(self, drained: int, available: int | None) -> None: ...


def condition(pn_condition: Any) -> tuple[str | None, str | None]:
    """Return name and description of an error condition (2.8.14), None for what is missing."""
    if pn_condition is None:
        return None, None
    return pn_condition.name, pn_condition.description


def redirect(pn_condition: Any) -> Redirect:
    """Return the redirect in an error condition; an empty one if there is no redirect."""
    return Redirect.parse(pn_condition.info if pn_condition is not None else None)


class DetachedHandler:
    """A handler for a link that has lost its owner; discards events and releases messages."""

    def __init__(self, link: Any) -> None:
        self._link = link

    waits = False

    def link_attached(self) -> None:
        """Ignore the event."""

    def link_credit(self) -> None:
        """Ignore the event."""

    def link_outcome(self, key: int, disposition: Disposition) -> None:
        """Ignore the event."""

    def link_answer(self, drained: int, available: int | None) -> None:
        """Ignore the event."""

    def link_detached(self, name: str | None, description: str | None) -> None:
        """Ignore the event: the owner knows already."""

    def link_delivery(self, key: int, data: bytes, settled: bool) -> None:
        """Release a message that was on its way."""
        self._link.settle(key, Outcome.RELEASED)


class _Link:
    """A mixin with the additions to pyngus's links that senders and receivers share."""

    handler: Any
    path: Deliveries
    _pn_link: Any
    _connection: Any
    connection: Any
    close: Any
    name: str

    def _setup(
        self, handler: LinkHandler, path: Deliveries, session: "EngineSession", largest: int = 0
    ) -> None:
        self.handler = handler
        self.path = path
        self.session = session
        if largest:
            self._pn_link.max_message_size = largest
        #: bytes; the largest message that may go over the link
        self.largest = largest or UNLIMITED
        #: bytes; an unfinished message stays in proton until this much of it is there
        self.piece = 1 if session.bounded else min(PIECE, self.largest + 1)
        #: pieces of an unfinished message, taken out of proton, and their total size in bytes
        self.pieces: list[bytes] = []
        self.taken = 0
        #: whether a message was too large: the link discards all further input
        self.discards = False
        self.unsettled: dict[int, Any] = {}
        self.next_key = 0
        #: handle at this end (2.7.3), found in the outgoing Attach frame; None until then
        self.number: int | None = None
        #: total credit that a sending link has used up to answer drains of the peer
        self.given_back = 0
        self.receiving = bool(self._pn_link.is_receiver)
        #: the peer's session window, from its first use on; for sending links only
        self.window: OutgoingWindow | None = None
        #: number of Flow frames that the link awaits as answers to echoes and drains
        self.awaited_echoes = 0
        #: whether the owner of the link gets no further callbacks
        self.ended = False
        self.redirect = Redirect()
        # plain attributes: proton's wrapper objects look theirs up in C
        self.impl = self._pn_link._impl

    def _session_closed(self) -> None:
        # pyngus ignores this event for attached links
        self._failed = True
        remote = self._pn_link.session.remote_condition
        self._detached(*(condition(remote) if remote else ("amqp:session:ended", None)))

    def _ep_active(self) -> None:
        self.connection.echo.awaiting_handle.pop(self.name.encode(), None)
        if not self._refused():
            theirs = self._pn_link.remote_max_message_size  # 0: no limit (2.7.3)
            if theirs and not self.receiving:
                self.largest = min(self.largest, theirs)
            self.handler.link_attached()

    def _refused(self) -> bool:
        """Return whether the peer's Attach refuses the link.

        Such an Attach has a null terminus; the Detach that follows gives the reason (AMQP 1.0,
        2.6.3).
        """
        pn_link = self._pn_link
        terminus = pn_link.remote_target if pn_link.is_sender else pn_link.remote_source
        return bool(terminus.type == proton.Terminus.UNSPECIFIED)

    def _ep_need_close(self) -> None:
        self.redirect = redirect(self._pn_link.remote_condition)
        self._detached(*condition(self._pn_link.remote_condition))

    def _ep_closed(self) -> None:
        self._detached(None, None)
        if self._connection is not None:
            self._connection.destroy_later(self)

    def _link_failed(self, error: str) -> None:
        self._detached("amqp:internal-error", error)

    def _detached(self, name: str | None, description: str | None) -> None:
        """Call :meth:`LinkHandler.link_detached`, unless the owner knows of the end already."""
        if not self.ended:
            self.ended = True
            self.unsettled.clear()
            self.handler.link_detached(name, description)

    def take(self, data: bytes) -> None:
        """Keep a piece of an unfinished message."""
        self.pieces.append(data)
        self.taken += len(data)

    def drop_pieces(self) -> None:
        """Drop the pieces of a message that is complete, or that will never be complete."""
        self.pieces.clear()
        self.taken = 0

    def exceeded(self) -> None:
        """Report the link as detached, because a message exceeds ``max-message-size`` (2.7.3).

        The owner gets the error of the Detach that :meth:`release` will send. The link discards the
        parts that the peer sends until it has read that Detach.
        """
        self.discards = True
        self.drop_pieces()
        text = f"a message has more than {self.largest} bytes (option max_message_size of this end)"
        self._pn_link.condition = proton.Condition(MESSAGE_SIZE_EXCEEDED, text)
        handler, self.handler = self.handler, DetachedHandler(self)
        self.ended = True
        self.unsettled.clear()
        handler.link_detached(MESSAGE_SIZE_EXCEEDED, text)

    def release(self) -> None:
        """Close our end of the link; the owner gets no further callbacks.

        proton's link stays until the peer has closed its end too: only then may another link use
        the same name and handle.
        """
        self.ended = True
        self.unsettled.clear()
        if self._connection is None:
            return
        self._connection.held.pop(self, None)
        if self.awaited_echoes:
            self.connection.echo.forget(self)
        if not self.discards:
            self.path.unregister(self._connection, self)
        self.close()
        if self._failed or self._pn_link.session.context.ended:
            self._connection.destroy_later(self)


class EngineSender(_Link, pyngus_link.SenderLink):  # type: ignore[misc]
    """A sending link: takes encoded messages, reports their outcomes."""

    @property
    def credit(self) -> int:
        """Return the remaining link credit, in messages."""
        return self.path.credit(self)

    @property
    def may_send(self) -> bool:
        """Return whether there is both credit and room in the peer's window for a message now.

        If only room is missing, the link calls :meth:`SenderHandler.link_credit` when there may be
        room again.
        """
        return self.path.may_send(self)

    @property
    def window_closed(self) -> bool:
        """Return whether the peer's session window is closed, regardless of the link's credit.

        If the window is closed, the link calls :meth:`SenderHandler.link_credit` when there may be
        room again.
        """
        window = self.window or self.outgoing_window()
        return not window.has_room() and not self.hold()

    def outgoing_window(self) -> OutgoingWindow:
        """Return the peer's session window, and cache it because each message needs it."""
        window = self.window = self.session.outgoing
        return window

    def hold(self) -> bool:
        """Arrange a call of :meth:`SenderHandler.link_credit` when there may be room.

        :returns: always False, the result of :attr:`may_send` then
        """
        self._connection.held[self] = None
        return False

    @property
    def target(self) -> str | None:
        """Return the address of the target, as the peer has attached it."""
        return self._pn_link.remote_target.address  # type: ignore[no-any-return]

    def transfer(self, data: Encoded, size: int, settled: bool) -> int:
        """Hand one encoded message to proton; the caller has to check :attr:`may_send` before.

        :param size: of the message, bytes
        :returns: the key with which :meth:`SenderHandler.link_outcome` will report the outcome
        """
        window = self.window or self.outgoing_window()
        window.given += 1 + size // window.frame
        return self.path.send(self, data, settled)

    def forget(self, key: int) -> None:
        """Settle a delivery without waiting any longer for its outcome."""
        self.path.forget(self, key)

    def _process_delivery(self, pn_delivery: Any) -> None:
        self.path.on_outcome(self, pn_delivery)

    def credited(self) -> None:
        """Let the owner send, as there may be new credit or room in the window; answer a drain."""
        self.handler.link_credit()
        if self._pn_link.drain_mode:
            self.answer_drain()

    def answer_drain(self) -> None:
        """Use up the remaining credit if no message waits, and report that to the peer (2.6.7)."""
        if self._pn_link.credit > 0 and not self.handler.waits:
            self.given_back += self._pn_link.drained()

    def _process_credit(self) -> None:
        if self.connection.asked:
            self.connection.echo.heard(self)
        self.credited()


class EngineReceiver(_Link, pyngus_link.ReceiverLink):  # type: ignore[misc]
    """A receiving link: reports messages as bytes, takes their outcomes."""

    @property
    def source(self) -> str | None:
        """Return the address of the source, as the peer has attached it."""
        return self._pn_link.remote_source.address  # type: ignore[no-any-return]

    @property
    def properties(self) -> Any:
        """Return the link properties in the peer's Attach: a map by name, or None."""
        return self._pn_link.remote_properties

    @property
    def arrived(self) -> int:
        """Return the number of messages that are still in proton, whole or in part."""
        return self._pn_link.queued  # type: ignore[no-any-return]

    def grant(self, credit: int) -> None:
        """Change the peer's link credit (2.6.7).

        :param credit: change in messages; negative to take credit back
        """
        self.path.flow(self, credit)

    def settle(self, key: int, outcome: Outcome) -> bool:
        """Settle a delivery with an outcome; False if it is no longer known."""
        return self.path.settle(self, key, outcome)

    def drain(self) -> None:
        """Ask the peer to use up or give back its credit and to answer with a Flow (2.6.7)."""
        self.awaited_echoes += 1
        self._pn_link.drain(0)

    def echo(self, credit: int = 0) -> None:
        """Change the link credit and ask the peer for an echo of its link state (2.7.4).

        :param credit: change of the credit in messages; negative to take credit back
        """
        self.connection.echo.ask(self, credit)
        self.awaited_echoes += 1

    def forget_answers(self) -> None:
        """Stop waiting for answers to echoes and drains."""
        self.awaited_echoes = 0
        if self.connection is not None:
            self.connection.echo.forget(self)

    def answered(self) -> None:
        """Take a Flow frame of the peer as the answer to an echo or drain, if one is open."""
        if self.awaited_echoes:
            self.awaited_echoes -= 1
            self.handler.link_answer(self._pn_link.drained(), self.connection.echo.answered(self))

    def _process_credit(self) -> None:
        if self.connection.asked:
            self.connection.echo.heard(self)
        self.answered()

    def _process_delivery(self, pn_delivery: Any) -> None:
        self.path.on_delivery(self, pn_delivery)


def all_sessions(pn_connection: Any) -> Iterator[Any]:
    """Yield proton's sessions of a connection, including those that the peer has begun."""
    session = pn_connection.session_head(0)
    while session is not None:
        yield session
        session = session.next(0)


class EngineSession(pyngus_link._SessionProxy):  # type: ignore[misc]
    """A session that may exist without links, and that notes when the peer has ended it."""

    _pn_session: Any
    _connection: Any

    def __init__(self, name: str, connection: Any) -> None:
        #: whether the peer has ended the session
        self.ended = False
        #: bytes; bound of the incoming window, which messages may exceed; 0: no bound
        self.capacity = 0
        super().__init__(name, connection)
        self._outgoing: OutgoingWindow | None = None

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
            largest = self._connection.pn_transport.remote_max_frame_size or _UNBOUNDED
            self._outgoing = OutgoingWindow(self._pn_session, max(1, largest - _TRANSFER))
        return self._outgoing

    @property
    def links(self) -> int:
        """Return the number of links on the session."""
        return len(self._links)

    def link_destroyed(self, link: Any) -> None:
        """Forget a link. Unlike pyngus, keep a session that has no links left."""
        self._links.discard(link)

    def _ep_need_close(self) -> None:
        self.ended = True
        super()._ep_need_close()
        self._pn_session.close()

    def let_go(self) -> None:
        """Break the reference cycle through proton's attachments, which Python never collects."""
        self._pn_session.context = None
        self._pn_session = None
        self._connection = None
