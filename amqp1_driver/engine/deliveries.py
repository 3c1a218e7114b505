# SPDX-License-Identifier: Apache-2.0

"""The delivery path over proton's documented Python API; lives on the I/O thread.

The engine uses this path if importing ``fastpath`` fails with the installed proton. This path makes
a Python object per event and is slower; otherwise both behave alike.
"""

from typing import Any

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


def pump(connection: Any) -> bool:
    """Dispatch all events, in order.

    :returns: True: the caller has to run pyngus's ``process``
    """
    collector = connection._pn_collector
    while (event := collector.peek()) is not None:
        try:
            connection.dispatch(event)
        finally:
            collector.pop()
    return True


def receive(connection: Any, data: Any) -> None:
    """Give bytes of the peer to proton."""
    connection.unread = True
    questions = connection.questions.read(data)
    if questions:
        connection.echo.asked(connection, questions)
    view = memoryview(data)
    while view:
        room = connection.needs_input
        taken = connection.process_input(bytes(view[:room])) if room > 0 else 0
        if taken <= 0:
            return
        view = view[taken:]


def output(connection: Any) -> memoryview | None:
    """Return the bytes to send next, None if there are none."""
    data = connection.output_data()
    return None if data is None else memoryview(data)


def output_written(connection: Any, count: int) -> None:
    """Remove ``count`` bytes from the output: the socket has taken them."""
    connection.output_written(count)


def link(connection: Any, link: Any) -> None:
    """Do nothing: pyngus finds the link of an event by itself."""


def unlink(connection: Any, link: Any) -> None:
    """Do nothing: :func:`link` has registered nothing."""


def credit(link: Any) -> int:
    """Return the remaining credit of a link, in messages."""
    return int(link._pn_link.credit)


def may_send(link: Any) -> bool:
    """Do the same as :attr:`EngineSender.may_send`."""
    if link._pn_link.credit <= 0:
        return False
    window = link.window or link.outgoing_window()
    return window.has_room() or link.hold()  # type: ignore[no-any-return]


def send(link: Any, data: Encoded, settled: bool) -> int:
    """Hand one encoded message to proton.

    :returns: key of the delivery, for its outcome
    """
    key = link.next_key = link.next_key + 1
    delivery = link._pn_link.delivery(f"{key:x}")
    for part in data if isinstance(data, tuple) else (data,):
        link._pn_link.send(part)
    link._pn_link.advance()
    if settled:
        delivery.settle()
    else:
        link.unsettled[key] = delivery
    return int(key)


def forget(link: Any, key: int) -> None:
    """Settle a sent delivery without waiting any longer for its outcome."""
    delivery = link.unsettled.pop(key, None)
    if delivery is not None:
        delivery.settle()


def outcome(link: Any, delivery: Any) -> None:
    """Process a delivery event of a sending link; report the outcome if the event has one."""
    state = int(delivery.remote_state)
    if not delivery.settled and state not in _OUTCOMES:
        return
    key = int(delivery.tag, 16)
    if link.unsettled.pop(key, None) is None:
        return
    remote = delivery.remote
    modified = state == int(proton.Delivery.MODIFIED)
    condition = remote.condition if state == int(proton.Delivery.REJECTED) else None
    disposition = Disposition(
        # the peer has settled without an outcome: the fate of the message is unknown
        _OUTCOMES.get(state, Outcome.IN_DOUBT),
        condition=condition.name if condition else None,
        description=condition.description if condition else None,
        failed=modified and bool(remote.failed),
        undeliverable=modified and bool(remote.undeliverable),
    )
    delivery.settle()
    link.handler.link_outcome(key, disposition)


def flow(link: Any, credit: int) -> None:
    """Change the link credit of a receiving link by ``credit`` messages."""
    link._pn_link.flow(credit)


def delivery(link: Any, delivery: Any) -> None:
    """Process a delivery event of a receiving link; hand over the message once it is complete."""
    if link._told and not link.discards:  # we have closed the link; the peer does not know yet
        return
    if delivery.aborted:
        delivery.settle()
        link._pn_link.flow(1)  # the delivery has cost a credit, and the owner never sees it
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
    if link.discards and link.session.bounded:
        data = b""  # reading would make proton write a Flow frame without a handle
    else:
        data = bytes(link._pn_link.recv(size) or b"")
    if delivery.partial:
        if not link.discards:
            link.take(data)
        return
    data = b"".join((*link.pieces, data))
    link.drop_pieces()
    link._pn_link.advance()
    if link.discards:
        delivery.settle()
        return
    key = link.next_key = link.next_key + 1
    settled = bool(delivery.settled)
    if settled:
        delivery.settle()
    else:
        link.unsettled[key] = delivery
    link.handler.link_delivery(key, data, settled)


def settle(link: Any, key: int, outcome: Outcome) -> bool:
    """Settle a received delivery with an outcome.

    :returns: False if the link does not know the key (any more)
    """
    delivery = link.unsettled.pop(key, None)
    if delivery is None:
        return False
    if outcome is Outcome.MODIFIED or outcome is Outcome.UNDELIVERABLE:
        delivery.local.failed = True
        delivery.local.undeliverable = outcome is Outcome.UNDELIVERABLE
    delivery.update(_STATES[outcome])
    delivery.settle()
    return True
