# SPDX-License-Identifier: Apache-2.0

"""The delivery path over the C functions that proton's Python binding calls; on the I/O thread.

This path makes no Python object per event; C pointers are the keys of deliveries and links. The
functions of the binding are not a documented API. Importing this module fails if one of them is
missing, and the engine then uses ``deliveries``.
"""

from typing import Any

import proton
from cproton_ffi import ffi, lib

from amqp1_driver.codec import Encoded
from amqp1_driver.engine.proton_ffi import Octets, address, held, new_bytes
from amqp1_driver.policy.outcome import MESSAGE_SIZE_EXCEEDED, Disposition, Outcome

_peek = held("pn_collector_peek")
_pop = held("pn_collector_pop")
_type = held("pn_event_type")
_event_delivery = held("pn_event_delivery")
_event_link = held("pn_event_link")
_delivery_link = held("pn_delivery_link")
_readable = held("pn_delivery_readable")
_partial = held("pn_delivery_partial")
_pending = held("pn_delivery_pending")
_remote_state = held("pn_delivery_remote_state")
_settled = held("pn_delivery_settled")
_settle = held("pn_delivery_settle")
_update = held("pn_delivery_update")
_credit = held("pn_link_credit")
_send = held("pn_link_send")
_recv = held("pn_link_recv")
_advance = held("pn_link_advance")
_flow = held("pn_link_flow")
_draining = held("pn_link_get_drain")
_delivery = held("pn_delivery")
_aborted = held("pn_delivery_aborted")
_capacity = held("pn_transport_capacity")
_push = held("pn_transport_push")
_output_pending = held("pn_transport_pending")
_output_peek = held("pn_transport_peek")
_output_pop = held("pn_transport_pop")
_from_buffer = ffi.from_buffer

_DELIVERY = lib.PN_DELIVERY
_LINK_FLOW = lib.PN_LINK_FLOW
#: event for pending output: comes with every batch, and :func:`pump` ignores it
_TRANSPORT = lib.PN_TRANSPORT
_ACCEPTED = lib.PN_ACCEPTED
_STATES = {
    Outcome.ACCEPTED: lib.PN_ACCEPTED,
    Outcome.REJECTED: lib.PN_REJECTED,
    Outcome.RELEASED: lib.PN_RELEASED,
    Outcome.MODIFIED: lib.PN_MODIFIED,
}
_OUTCOMES = {int(state): outcome for outcome, state in _STATES.items()}
_STATES[Outcome.UNDELIVERABLE] = lib.PN_MODIFIED
_ACCEPT = Outcome.ACCEPTED
#: the one object for the disposition of every accepted message
DONE = Disposition(_ACCEPT)
_SCRATCH_SIZE = 65536
#: bytes; copies of this size or more run without the interpreter's lock, because they take long
#: enough for other threads to run
LARGE = 16384
#: bytes; size of the output buffer at first, and from the first time that it was full
_OUTPUT_SIZE = 131072
_OUTPUT_LIMIT = 1 << 20


def pump(connection: Any) -> bool:
    """Process the deliveries and Flow frames of our links; pass other events to pyngus, in order.

    :returns: whether there was an event for pyngus
    """
    collector = connection.collector
    if collector is None:
        collector = connection.collector = address(connection._pn_collector._impl)
    links = connection.links
    others = False
    while True:
        event = _peek(collector)
        if event is None:
            return others
        kind = _type(event)
        try:
            if kind == _DELIVERY:
                pointer = _event_delivery(event)
                link = links.get(_delivery_link(pointer))
                if link is not None:
                    if link.receiving:
                        incoming(link, pointer)
                    else:
                        outgoing(link, pointer)
            elif kind == _LINK_FLOW:
                link = links.get(_event_link(event))
                if link is not None and connection.asked:
                    connection.echo.heard(link)
                if link is not None and not link.receiving:
                    link.handler.link_credit()
                    if _draining(link.impl):
                        link.answer_drain()
                elif link is not None and link.awaited_echoes:
                    link.answered()
            elif kind != _TRANSPORT:
                others = True
                dispatch(connection, event)
        finally:
            _pop(collector)


def dispatch(connection: Any, event: int) -> None:
    """Pass an event to pyngus."""
    connection.dispatch(proton.Event.wrap(ffi.cast("pn_event_t *", event)))


def transport_of(connection: Any) -> int:
    """Look up the address of proton's transport, and cache it in the connection."""
    transport: int = address(connection._pn_transport._impl)
    connection.transport = transport
    return transport


def receive(connection: Any, data: Any) -> None:
    """Give bytes of the peer to proton, and its requests for an echo to the connection."""
    connection.unread = True
    questions = connection.questions.read(data)
    if questions:
        connection.echo.asked(connection, questions)
    push(connection, data)


def push(connection: Any, data: Any) -> None:
    """Give bytes of the peer to proton, without an additional copy."""
    transport = connection.transport or transport_of(connection)
    offset, end = 0, len(data)
    if end < LARGE and type(data) is bytes and _capacity(transport) >= end:
        if _push(transport, data, end) < 0 or _capacity(transport) < 0:
            _ = connection.needs_input  # pyngus notes the end of input
        return
    source = _from_buffer(data)
    if end < LARGE:
        push_to, to, at = _push, transport, address(source)
    else:
        push_to, to, at = lib.pn_transport_push, connection._pn_transport._impl, source
    while offset < end:
        room = _capacity(transport)
        if room <= 0 or push_to(to, at + offset, min(room, end - offset)) < 0:
            _ = connection.needs_input  # pyngus notes the end of input
            return
        offset += room
    if _capacity(transport) < 0:
        _ = connection.needs_input


class _Output:
    """A buffer for output; the socket still has to take the bytes from ``start`` to ``end``."""

    __slots__ = ("at", "end", "size", "start", "view")

    def __init__(self, size: int) -> None:
        memory = ffi.new("char[]", size)
        self.view = memoryview(ffi.buffer(memory))
        self.at = address(memory)
        self.size = size
        self.start = self.end = 0


def writable(connection: Any) -> _Output:
    """Return the output buffer of a connection, which is larger once output has filled it.

    The buffer has bytes that the socket has not taken yet, or is free for new output.
    """
    out = connection.outgoing
    if out is None:
        out = connection.outgoing = _Output(_OUTPUT_SIZE)
    elif out.start == out.end == out.size < _OUTPUT_LIMIT:
        out = connection.outgoing = _Output(_OUTPUT_LIMIT)
    return out  # type: ignore[no-any-return]


def output(connection: Any) -> memoryview | None:
    """Return the bytes to send next: all output of proton, as far as it fits into the buffer.

    The buffer exists to send a large message with one system call rather than with one for each of
    its frames. A system call gives up the interpreter's lock, and while other threads encode large
    messages it takes milliseconds to get the lock back.

    :returns: a view that is valid until :func:`output_written`; None if there is nothing to send
    """
    out = writable(connection)
    if out.start < out.end:
        return out.view[out.start : out.end]
    transport = connection.transport or transport_of(connection)
    size = _output_pending(transport)
    if size <= 0:
        if size < 0:
            _ = connection.has_output  # pyngus notes the end of output
        return None
    end = 0
    while size > 0 and end < out.size:
        size = _output_peek(transport, out.at + end, min(size, out.size - end))
        if size <= 0:
            break
        _output_pop(transport, size)
        end += size
        # proton returns output in parts of its buffer's size
        size = _output_pending(transport) if size >= LARGE else 0
    out.start, out.end = 0, end
    return out.view[:end] if end else None


def output_written(connection: Any, count: int) -> None:
    """Remove ``count`` bytes from the output: the socket has taken them."""
    # output() notices an empty buffer
    connection.outgoing.start += count


def link(connection: Any, link: Any) -> None:
    """Register a link, so that :func:`pump` processes its events."""
    link.impl = address(link._pn_link._impl)
    connection.links[link.impl] = link
    if connection.scratch is None:
        # one per connection, not one per module: each connection has a thread of its own, and some
        # C calls run without the interpreter's lock
        memory = ffi.new("char[]", _SCRATCH_SIZE)
        connection.scratch = (address(memory), ffi.buffer(memory))
    link.scratch = connection.scratch


def unlink(connection: Any, link: Any) -> None:
    """Remove a link; :func:`pump` ignores its further deliveries and Flow frames."""
    connection.links.pop(link.impl, None)


def credit(link: Any) -> int:
    """Return the remaining credit of a link, in messages."""
    return _credit(link.impl)  # type: ignore[no-any-return]


def may_send(link: Any) -> bool:
    """Do the same as :attr:`EngineSender.may_send`; called for every message."""
    if _credit(link.impl) <= 0:
        return False
    window = link.window or link.outgoing_window()
    return window.has_room() or link.hold()  # type: ignore[no-any-return]


def send(link: Any, data: Encoded, settled: bool) -> Any:
    """Hand one encoded message to proton.

    :returns: key of the delivery, for its outcome; 0 if settled
    """
    tag = link.next_key = link.next_key + 1
    impl = link.impl
    octets = b"%x" % tag
    pointer = _delivery(impl, Octets(len(octets), octets))
    if type(data) is tuple:  # a large message: its beginning and its body
        head, data = data
        _send(impl, head, len(head))
    size = len(data)
    if size < LARGE:
        _send(impl, data, size)
    else:
        lib.pn_link_send(link._pn_link._impl, _from_buffer(data), size)
    _advance(impl)
    if settled:
        _settle(pointer)
        return 0
    link.unsettled[pointer] = pointer
    return pointer


def forget(link: Any, key: Any) -> None:
    """Settle a sent delivery without waiting any longer for its outcome."""
    pointer = link.unsettled.pop(key, None)
    if pointer is not None:
        _settle(pointer)


def outgoing(link: Any, pointer: Any) -> None:
    """Process a delivery event of a sending link; report the outcome if the event has one."""
    state = _remote_state(pointer)
    if state != _ACCEPTED and state not in _OUTCOMES and not _settled(pointer):
        return
    if link.unsettled.pop(pointer, None) is None:
        return
    disposition = DONE if state == _ACCEPTED else _disposition(pointer, state)
    _settle(pointer)
    link.handler.link_outcome(pointer, disposition)


def _disposition(pointer: Any, state: int) -> Disposition:
    """Return the disposition for any outcome but ``accepted`` (3.4.2 to 3.4.5)."""
    remote = lib.pn_delivery_remote(ffi.cast("pn_delivery_t *", pointer))
    # the peer has settled without an outcome: the fate of the message is unknown
    outcome = _OUTCOMES.get(state, Outcome.IN_DOUBT)
    name = description = None
    failed = undeliverable = False
    if outcome is Outcome.REJECTED:
        condition = lib.pn_disposition_condition(remote)
        name = _text(lib.pn_condition_get_name(condition))
        description = _text(lib.pn_condition_get_description(condition))
    elif outcome is Outcome.MODIFIED:
        failed = bool(lib.pn_disposition_is_failed(remote))
        undeliverable = bool(lib.pn_disposition_is_undeliverable(remote))
    return Disposition(
        outcome, condition=name, description=description, failed=failed, undeliverable=undeliverable
    )


def _text(pointer: Any) -> str | None:
    return None if pointer == ffi.NULL else ffi.string(pointer).decode("utf-8", "replace")


def _bytes(link: Any, size: int) -> bytes:
    """Take ``size`` bytes of a message out of proton, which makes room in the session's window.

    The message may be incomplete.
    """
    data: bytes = new_bytes(size) if size else b""
    if size:
        lib.pn_link_recv(link._pn_link._impl, _from_buffer(data), size)
    return data


def _fits(link: Any, pointer: Any, size: int) -> bool:
    """Return whether a message may grow by ``size`` bytes; if not, discard these bytes.

    The first discard rejects the message, so that a broker does not deliver it again, and ends the
    link (:meth:`EngineReceiver.exceeded`).
    """
    if not link.discards:
        if link.taken + size <= link.largest:
            return True
        _too_large(pointer)
        link.exceeded()
    # in a session with a bound, reading would make proton write a Flow frame without a handle
    while not link.session.bounded and _recv(link.impl, link.scratch[0], _SCRATCH_SIZE) > 0:
        pass
    if not _partial(pointer):
        _advance(link.impl)
        _settle(pointer)
    return False


def _too_large(pointer: Any) -> None:
    """Reject a delivery because its message is too large."""
    local = lib.pn_delivery_local(ffi.cast("pn_delivery_t *", pointer))
    lib.pn_condition_set_name(lib.pn_disposition_condition(local), MESSAGE_SIZE_EXCEEDED.encode())
    _update(pointer, _STATES[Outcome.REJECTED])


def incoming(link: Any, pointer: Any) -> None:
    """Process a delivery event of a receiving link; hand over the message once it is complete."""
    size = _pending(pointer)
    impl = link.impl
    if size <= 1 and _aborted(pointer):  # proton reports one pending byte for an aborted delivery
        _settle(pointer)
        _flow(impl, 1)  # the delivery has cost a credit, and the owner never sees it
        link.drop_pieces()
        return
    if not _readable(pointer):
        return
    if _partial(pointer):
        if size >= link.piece and _fits(link, pointer, size):
            link.take(_bytes(link, size))
        return
    # a message that fits into the scratch memory fits: max_message_size is never less than that
    if (link.pieces or size > _SCRATCH_SIZE) and not _fits(link, pointer, size):
        return
    if link.pieces:
        data = b"".join((*link.pieces, _bytes(link, size)))
        link.drop_pieces()
    elif size <= _SCRATCH_SIZE:
        memory, view = link.scratch
        _recv(impl, memory, size)
        data = view[0:size]
    else:
        data = new_bytes(size)
        lib.pn_link_recv(link._pn_link._impl, _from_buffer(data), size)
    _advance(impl)
    # The pointer is no key here: proton reuses the memory, and an application may settle twice.
    key = link.next_key = link.next_key + 1
    settled = bool(_settled(pointer))
    if settled:
        _settle(pointer)
    else:
        link.unsettled[key] = pointer
    link.handler.link_delivery(key, data, settled)


def flow(link: Any, credit: int) -> None:
    """Change the link credit of a receiving link by ``credit`` messages."""
    _flow(link.impl, credit)


def settle(link: Any, key: int, outcome: Outcome) -> bool:
    """Settle a received delivery with an outcome.

    :returns: False if the link does not know the key (any more)
    """
    pointer = link.unsettled.pop(key, None)
    if pointer is None:
        return False
    if outcome is _ACCEPT:
        _update(pointer, _ACCEPTED)
    else:
        if outcome is Outcome.MODIFIED or outcome is Outcome.UNDELIVERABLE:
            local = lib.pn_delivery_local(ffi.cast("pn_delivery_t *", pointer))
            lib.pn_disposition_set_failed(local, True)
            lib.pn_disposition_set_undeliverable(local, outcome is Outcome.UNDELIVERABLE)
        _update(pointer, _STATES[outcome])
    _settle(pointer)
    return True
