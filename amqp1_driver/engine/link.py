# SPDX-License-Identifier: Apache-2.0

"""Sending and receiving links (2.6) on proton, with messages as plain bytes; on the I/O thread.

A link reports to its owner, a :class:`SenderHandler` or :class:`ReceiverHandler`. Sans-I/O.
"""

import sys
from collections.abc import Mapping
from typing import Any, Protocol

import proton

from amqp1_driver.codec import Encoded
from amqp1_driver.engine.deliveries import Deliveries
from amqp1_driver.engine.flow_echo import FlowEcho
from amqp1_driver.engine.session import EngineSession
from amqp1_driver.engine.session_window import OutgoingWindow
from amqp1_driver.policy.outcome import MESSAGE_SIZE_EXCEEDED, Disposition, Outcome
from amqp1_driver.policy.redirect import Redirect

#: bytes; largest message of a link without a limit
UNLIMITED = sys.maxsize
#: bytes; the driver takes an unfinished message out of proton in pieces of at least this size,
#: because proton does not free the memory of its buffer before it frees the link
PIECE = 1 << 20


_ACTIVE = proton.Endpoint.LOCAL_ACTIVE | proton.Endpoint.REMOTE_ACTIVE
_CLOSED = proton.Endpoint.LOCAL_CLOSED | proton.Endpoint.REMOTE_CLOSED


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


class LinkConnection(Protocol):
    """The connection of a link, as far as the link needs it."""

    echo: FlowEcho
    held: dict[Any, None]
    asked: bool
    unread: bool
    traced: bool
    path: Deliveries
    links: dict[int, Any]

    def destroy_later(self, link: Any) -> None: ...
    def limit_discarding(self, address: str | None) -> None: ...


class Link:
    """The parts that senders and receivers share.

    :param connection: the connection
    :param session: the session
    :param pn_link: proton's link, not open yet
    :param handler: the owner
    :param largest: bytes; the largest message that may go over the link; 0: no limit
    """

    def __init__(
        self, connection: Any, session: EngineSession, pn_link: Any, handler: Any, largest: int
    ) -> None:
        self.connection = connection
        self.session = session
        self.pn_link = pn_link
        self.handler = handler
        self.path: Deliveries = connection.path
        self.name: str = pn_link.name
        if largest:
            pn_link.max_message_size = largest
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
        self.receiving = bool(pn_link.is_receiver)
        #: the peer's session window, from its first use on; for sending links only
        self.window: OutgoingWindow | None = None
        #: number of Flow frames that the link awaits as answers to echoes and drains
        self.awaited_echoes = 0
        #: whether the owner of the link gets no further callbacks
        self.ended = False
        #: whether the peer will not send a Detach (any more)
        self._no_detach = False
        self.redirect = Redirect()
        #: address of proton's link, if the path needs it
        self.impl = 0
        pn_link.context = self
        session.add(self)

    def attach(
        self, target: str | None, source: str | None, settled: bool, properties: Mapping[str, Any]
    ) -> None:
        """Send the Attach frame (2.7.3).

        :param target: address; None or empty: the anonymous terminus
        :param source: address; None: the peer makes a dynamic node; empty: none
        :param settled: whether the sending end sends all messages settled
        :param properties: of the link
        """
        pn_link = self.pn_link
        if settled:
            pn_link.snd_settle_mode = proton.Link.SND_SETTLED
        if target:
            pn_link.target.address = target
        if source is None:
            pn_link.source.dynamic = True
        elif source:
            pn_link.source.address = source
        if properties:
            # proton would encode a number as long; RabbitMQ accepts a priority only as int
            pn_link.properties = {
                proton.symbol(name): proton.int32(value) if type(value) is int else value
                for name, value in properties.items()
            }
        self.path.register(self.connection, self)
        pn_link.open()

    @property
    def active(self) -> bool:
        """Return whether the link is attached at both ends."""
        return self.pn_link is not None and not self._no_detach and self.pn_link.state == _ACTIVE

    def close(self) -> None:
        """Send a closing Detach, unless this end has sent one."""
        if self.pn_link.state & proton.Endpoint.LOCAL_ACTIVE:
            self.pn_link.close()

    # -- events of proton -------------------------------------------------------

    def session_ended(self) -> None:
        """Process the peer's End of the session."""
        self._no_detach = True
        remote = self.pn_link.session.remote_condition
        self._detached(*(condition(remote) if remote else ("amqp:session:ended", None)))

    def remote_opened(self) -> None:
        """Process the Attach of the peer; ignore it if our Detach is on its way."""
        if not self.pn_link.state & proton.Endpoint.LOCAL_ACTIVE:
            return
        self.connection.echo.awaiting_handle.pop(self.name.encode(), None)
        if not self._refused():
            theirs = self.pn_link.remote_max_message_size  # 0: no limit (2.7.3)
            if theirs and not self.receiving:
                self.largest = min(self.largest, theirs)
            self.handler.link_attached()

    def _refused(self) -> bool:
        """Return whether the peer's Attach refuses the link.

        Such an Attach has a null terminus; the Detach that follows gives the reason (AMQP 1.0,
        2.6.3).
        """
        pn_link = self.pn_link
        terminus = pn_link.remote_target if pn_link.is_sender else pn_link.remote_source
        return bool(terminus.type == proton.Terminus.UNSPECIFIED)

    def remote_closed(self) -> None:
        """Process the closing Detach of the peer."""
        if self.pn_link.state & proton.Endpoint.LOCAL_ACTIVE:
            self.redirect = redirect(self.pn_link.remote_condition)
            self._detached(*condition(self.pn_link.remote_condition))
        else:
            self.closed()

    def remote_detached(self) -> None:
        """Process a Detach of the peer that does not close; no further Detach will follow."""
        self._no_detach = True
        self.redirect = redirect(self.pn_link.remote_condition)
        self._detached(*condition(self.pn_link.remote_condition))
        if not self.pn_link.state & proton.Endpoint.LOCAL_ACTIVE:
            self.connection.destroy_later(self)

    def closed(self) -> None:
        """Process the end of the link if both ends are closed."""
        if self.pn_link.state & _CLOSED == _CLOSED:
            self._detached(None, None)
            self.connection.destroy_later(self)

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
        self.pn_link.condition = proton.Condition(MESSAGE_SIZE_EXCEEDED, text)
        handler, self.handler = self.handler, DetachedHandler(self)
        self.ended = True
        self.unsettled.clear()
        handler.link_detached(MESSAGE_SIZE_EXCEEDED, text)
        self.connection.limit_discarding(self.pn_link.source.address)

    def release(self) -> None:
        """Close our end of the link; the owner gets no further callbacks.

        proton's link stays until the peer has closed its end too: only then may another link use
        the same name and handle.
        """
        self.ended = True
        self.unsettled.clear()
        if self.pn_link is None:
            return
        self.connection.held.pop(self, None)
        if self.awaited_echoes:
            self.connection.echo.forget(self)
        if not self.discards:
            self.path.unregister(self.connection, self)
        self.close()
        if self._no_detach or self.session.ended:
            self.connection.destroy_later(self)

    def destroy(self) -> None:
        """Free proton's link; never call this from a callback."""
        if self.pn_link is None:
            return
        self.path.unregister(self.connection, self)
        self.pn_link.context = None
        self.pn_link.free()
        self.pn_link = None
        self.session.discard(self)


class EngineSender(Link):
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

        :returns: always False, so that :attr:`may_send` can return the result
        """
        self.connection.held[self] = None
        return False

    @property
    def target(self) -> str | None:
        """Return the address of the target, as the peer has attached it."""
        return self.pn_link.remote_target.address  # type: ignore[no-any-return]

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

    def delivery_event(self, pn_delivery: Any) -> None:
        """Process an event of a delivery."""
        self.path.on_outcome(self, pn_delivery)

    def credited(self) -> None:
        """Let the owner send, as there may be new credit or room in the window; answer a drain."""
        self.handler.link_credit()
        if self.pn_link.drain_mode:
            self.answer_drain()

    def answer_drain(self) -> None:
        """Use up the remaining credit if no message waits, and report that to the peer (2.6.7)."""
        if self.pn_link.credit > 0 and not self.handler.waits:
            self.given_back += self.pn_link.drained()

    def flow_event(self) -> None:
        """Process a Flow frame of the peer for this link."""
        if self.connection.asked:
            self.connection.echo.heard(self)
        self.credited()


class EngineReceiver(Link):
    """A receiving link: reports messages as bytes, takes their outcomes."""

    @property
    def source(self) -> str | None:
        """Return the address of the source, as the peer has attached it."""
        return self.pn_link.remote_source.address  # type: ignore[no-any-return]

    @property
    def properties(self) -> Any:
        """Return the link properties in the peer's Attach: a map by name, or None."""
        return self.pn_link.remote_properties

    @property
    def arrived(self) -> int:
        """Return the number of messages that are still in proton, whole or in part."""
        return self.pn_link.queued  # type: ignore[no-any-return]

    def grant(self, credit: int) -> None:
        """Change the peer's link credit (2.6.7).

        :param credit: change in messages; negative to take credit back
        """
        self.path.flow(self, credit)

    def settle(self, key: int, outcome: Outcome) -> bool:
        """Settle a delivery with an outcome.

        :returns: False if the link does not know the key (any more)
        """
        return self.path.settle(self, key, outcome)

    def drain(self) -> None:
        """Ask the peer to use up or give back its credit and to answer with a Flow (2.6.7)."""
        self.awaited_echoes += 1
        self.pn_link.drain(0)

    def echo(self, credit: int = 0) -> None:
        """Change the link credit and ask the peer for an echo of its link state (2.7.4).

        :param credit: change of the credit in messages; negative to take credit back
        """
        self.connection.echo.ask(self, credit)
        self.awaited_echoes += 1

    def forget_answers(self) -> None:
        """Stop waiting for answers to echoes and drains."""
        self.awaited_echoes = 0
        self.connection.echo.forget(self)

    def answered(self) -> None:
        """Take a Flow frame of the peer as the answer to an echo or drain, if one is open."""
        if self.awaited_echoes:
            self.awaited_echoes -= 1
            self.handler.link_answer(self.pn_link.drained(), self.connection.echo.answered(self))

    def flow_event(self) -> None:
        """Process a Flow frame of the peer for this link."""
        if self.connection.asked:
            self.connection.echo.heard(self)
        self.answered()

    def delivery_event(self, pn_delivery: Any) -> None:
        """Process an event of a delivery."""
        self.path.on_delivery(self, pn_delivery)
