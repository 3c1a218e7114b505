# SPDX-License-Identifier: Apache-2.0

"""Deliveries and bytes of a connection, over proton's documented Python API; on the I/O thread.

:class:`Deliveries` is the interface that the engine uses. :class:`ProtonDeliveries` is the complete
and readable implementation. ``speedups`` has another one, which does the common cases in C and
leaves all others to :class:`ProtonDeliveries`. Both behave alike, and every test of the protocol
runs over both.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import proton

from amqp1_driver.codec import Encoded
from amqp1_driver.policy.outcome import MESSAGE_SIZE_EXCEEDED, Disposition, Outcome

_STATES = {
    Outcome.ACCEPTED: proton.Delivery.ACCEPTED,
    Outcome.REJECTED: proton.Delivery.REJECTED,
    Outcome.RELEASED: proton.Delivery.RELEASED,
    Outcome.MODIFIED: proton.Delivery.MODIFIED,
}
_OUTCOMES = {int(state): outcome for outcome, state in _STATES.items()}
_STATES[Outcome.UNDELIVERABLE] = proton.Delivery.MODIFIED
#: the one object for the disposition of every accepted message
DONE = Disposition(Outcome.ACCEPTED)


class Window(Protocol):
    """The peer's session window; see ``session_window.OutgoingWindow``."""

    session: int
    given: int

    def has_room(self) -> bool: ...


class BoundedSession(Protocol):
    """The session of a receiving link."""

    @property
    def bounded(self) -> bool: ...


class SendingHandler(Protocol):
    """The part of a sending link's owner that deliveries call."""

    def link_credit(self) -> None: ...
    def link_outcome(self, key: int, disposition: Disposition) -> None: ...


class ReceivingHandler(Protocol):
    """The part of a receiving link's owner that deliveries call."""

    def link_delivery(self, key: int, data: bytes, settled: bool) -> None: ...


class Link(Protocol):
    """The state of a link that deliveries read and write.

    ``unsettled`` holds, by key, what an implementation needs to settle a delivery later. ``impl``
    is the address of proton's link, for ``speedups``.
    """

    impl: int
    receiving: bool
    next_key: int
    unsettled: dict[int, Any]
    pn_link: Any


class SendingLink(Link, Protocol):
    """A sending link."""

    @property
    def handler(self) -> SendingHandler: ...
    @property
    def window(self) -> Window | None: ...
    def outgoing_window(self) -> Window: ...
    def hold(self) -> bool: ...
    def answer_drain(self) -> None: ...


class ReceivingLink(Link, Protocol):
    """A receiving link."""

    piece: int
    largest: int
    taken: int
    pieces: list[bytes]
    discards: bool
    ended: bool
    awaited_echoes: int

    @property
    def handler(self) -> ReceivingHandler: ...
    @property
    def session(self) -> BoundedSession: ...
    def answered(self) -> None: ...
    def take(self, data: bytes) -> None: ...
    def drop_pieces(self) -> None: ...
    def exceeded(self) -> None: ...


class Connection(Protocol):
    """The state of a connection that deliveries read and write; the addresses are for ``speedups``.

    ``collector`` and ``transport`` are the addresses of proton's objects, ``links`` has the links
    by the addresses of proton's links, and ``outgoing`` is a buffer for output.
    """

    asked: bool
    collector: int
    transport: int
    links: dict[int, Any]
    outgoing: Any
    pn_collector: Any
    pn_transport: Any

    @property
    def has_output(self) -> int: ...
    @property
    def needs_input(self) -> int: ...
    def dispatch(self, event: Any) -> None: ...
    def process_input(self, data: Any) -> int: ...
    def output_data(self) -> Any: ...
    def output_written(self, count: int) -> None: ...


class Deliveries(Protocol):
    """The operations on deliveries, the pump of proton's events, and the transfer of bytes."""

    def prepare(self, connection: Connection) -> None: ...
    def register(self, connection: Connection, link: Any) -> None: ...
    def unregister(self, connection: Connection, link: Any) -> None: ...
    def pump(self, connection: Connection, /) -> bool: ...
    def push(self, connection: Connection, data: Any, /) -> None: ...
    def output(self, connection: Connection) -> memoryview | None: ...
    def output_written(self, connection: Connection, count: int) -> bool: ...
    def credit(self, link: SendingLink, /) -> int: ...
    def may_send(self, link: SendingLink, /) -> bool: ...
    def send(self, link: SendingLink, data: Encoded, settled: bool, /) -> int: ...
    def forget(self, link: SendingLink, key: int) -> None: ...
    def flow(self, link: ReceivingLink, credit: int, /) -> None: ...
    def settle(self, link: ReceivingLink, key: int, outcome: Outcome, /) -> bool: ...
    def on_outcome(self, link: SendingLink, delivery: Any) -> None: ...
    def on_delivery(self, link: ReceivingLink, delivery: Any) -> None: ...


class ProtonDeliveries:
    """Deliveries over proton's documented Python API."""

    # -- connections ----------------------------------------------------------

    def prepare(self, connection: Connection) -> None:
        """Prepare a new connection; call this before any other method."""

    def register(self, connection: Connection, link: Any) -> None:
        """Register a link, so that :meth:`pump` processes its events."""

    def unregister(self, connection: Connection, link: Any) -> None:
        """Remove a link; :meth:`pump` ignores its further deliveries."""

    def pump(self, connection: Connection, /) -> bool:
        """Process the deliveries and Flow frames of links; dispatch all other events, in order.

        :returns: whether the caller has to run pyngus's ``process``
        """
        collector = connection.pn_collector
        while (event := collector.peek()) is not None:
            try:
                connection.dispatch(event)
            finally:
                collector.pop()
        return True

    def push(self, connection: Connection, data: Any, /) -> None:
        """Give bytes of the peer to proton; discard them if proton takes no more."""
        view = memoryview(data)
        while view:
            room = connection.needs_input
            taken = connection.process_input(view[:room]) if room > 0 else 0
            if taken <= 0:
                return
            view = view[taken:]

    def output(self, connection: Connection) -> memoryview | None:
        """Return the bytes to send next.

        :returns: a view that is valid until :meth:`output_written`; None if there is nothing to
            send
        """
        data = connection.output_data()
        return None if data is None else memoryview(data)

    def output_written(self, connection: Connection, count: int) -> bool:
        """Remove ``count`` bytes from the output: the socket has taken them.

        :returns: False if there is certainly no further output at present
        """
        connection.output_written(count)
        return True

    # -- sending --------------------------------------------------------------

    def credit(self, link: SendingLink, /) -> int:
        """Return the remaining credit of a link, in messages."""
        return int(link.pn_link.credit)

    def may_send(self, link: SendingLink, /) -> bool:
        """Return whether there is both credit and room in the peer's window for a message now.

        If only room is missing, :meth:`SendingLink.hold` arranges another try.
        """
        if link.pn_link.credit <= 0:
            return False
        window = link.window or link.outgoing_window()
        return window.has_room() or link.hold()

    def send(self, link: SendingLink, data: Encoded, settled: bool, /) -> int:
        """Hand one encoded message to proton.

        :returns: key of the delivery, for its outcome
        """
        tag = link.next_key = link.next_key + 1
        delivery = link.pn_link.delivery(f"{tag:x}")
        for part in data if isinstance(data, tuple) else (data,):
            link.pn_link.send(part)
        link.pn_link.advance()
        key = self._key(delivery)
        if settled:
            delivery.settle()
        else:
            link.unsettled[key] = self._kept(delivery)
        return key

    def forget(self, link: SendingLink, key: int) -> None:
        """Settle a sent delivery without waiting any longer for its outcome."""
        kept = link.unsettled.pop(key, None)
        if kept is not None:
            self._delivery(kept).settle()

    def on_outcome(self, link: SendingLink, delivery: Any) -> None:
        """Process a delivery event of a sending link; report the outcome if the event has one."""
        state = int(delivery.remote_state)
        if not delivery.settled and state not in _OUTCOMES:
            return
        key = self._key(delivery)
        if link.unsettled.pop(key, None) is None:
            return
        disposition = _disposition(delivery.remote, state)
        delivery.settle()
        link.handler.link_outcome(key, disposition)

    # -- receiving ------------------------------------------------------------

    def flow(self, link: ReceivingLink, credit: int, /) -> None:
        """Change the link credit of a receiving link by ``credit`` messages."""
        link.pn_link.flow(credit)

    def settle(self, link: ReceivingLink, key: int, outcome: Outcome, /) -> bool:
        """Settle a received delivery with an outcome.

        :returns: False if the link does not know the key (any more)
        """
        kept = link.unsettled.pop(key, None)
        if kept is None:
            return False
        delivery = self._delivery(kept)
        if outcome is Outcome.MODIFIED or outcome is Outcome.UNDELIVERABLE:
            delivery.local.failed = True
            delivery.local.undeliverable = outcome is Outcome.UNDELIVERABLE
        delivery.update(_STATES[outcome])
        delivery.settle()
        return True

    def on_delivery(self, link: ReceivingLink, delivery: Any) -> None:
        """Process a delivery event of a receiving link; hand over the message if it is complete.

        The delivery of a message that is too large is rejected, so that a broker does not deliver
        it again.
        """
        if link.ended and not link.discards:  # the peer does not know of the end yet
            return
        if delivery.aborted:
            delivery.settle()
            link.pn_link.flow(1)  # the delivery has cost a credit, and the owner never sees it
            link.drop_pieces()
            return
        if not delivery.readable:
            return
        size = delivery.pending
        if delivery.partial and size < link.piece:
            return
        if link.taken + size > link.largest and not link.discards:
            delivery.local.condition = proton.Condition(MESSAGE_SIZE_EXCEEDED)
            delivery.update(proton.Delivery.REJECTED)
            link.exceeded()
        # in a session with a bound, reading would make proton write a Flow frame without a handle
        data = b"" if link.discards and link.session.bounded else self._read(link, size)
        if delivery.partial:
            if not link.discards:
                link.take(data)
            return
        pieces: Iterable[bytes] = (*link.pieces, data)
        link.drop_pieces()
        link.pn_link.advance()
        if link.discards:
            delivery.settle()
        else:
            self._hand_over(link, delivery, b"".join(pieces))

    def _hand_over(self, link: ReceivingLink, delivery: Any, data: bytes) -> None:
        key = link.next_key = link.next_key + 1
        settled = bool(delivery.settled)
        if settled:
            delivery.settle()
        else:
            link.unsettled[key] = self._kept(delivery)
        link.handler.link_delivery(key, data, settled)

    # -- overridden by another implementation -----------------------------------

    def _key(self, delivery: Any) -> int:
        """Return the key of a sent delivery."""
        return int(delivery.tag, 16)

    def _kept(self, delivery: Any) -> Any:
        """Return what ``unsettled`` holds for a delivery."""
        return delivery

    def _delivery(self, kept: Any) -> Any:
        """Return the delivery for which ``unsettled`` holds ``kept``."""
        return kept

    def _read(self, link: ReceivingLink, size: int) -> bytes:
        """Take ``size`` bytes of a message out of proton, which makes room in the window.

        The message may be incomplete.
        """
        return bytes(link.pn_link.recv(size) or b"")


def _disposition(remote: Any, state: int) -> Disposition:
    """Return the disposition for proton's state of a delivery (3.4)."""
    if state == int(proton.Delivery.ACCEPTED):
        return DONE
    modified = state == int(proton.Delivery.MODIFIED)
    condition = remote.condition if state == int(proton.Delivery.REJECTED) else None
    return Disposition(
        # the peer has settled without an outcome: the fate of the message is unknown
        _OUTCOMES.get(state, Outcome.IN_DOUBT),
        condition=condition.name if condition else None,
        description=condition.description if condition else None,
        failed=modified and bool(remote.failed),
        undeliverable=modified and bool(remote.undeliverable),
    )
