#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Deliveries through the C functions that proton's Python binding calls.

No Python object is made per event: deliveries and links are keyed by their
C pointers.  The binding is not a documented API, hence this is the only
module that uses it; importing it fails where a function is missing, and
``publicpath`` serves instead.  I/O thread only.
"""

from typing import Any

import proton
from cproton_ffi import ffi, lib

from amqp1_driver.codec import Encoded
from amqp1_driver.policy.outcome import Disposition, Outcome
from amqp1_driver.protocol.held import Octets, address, held, new_bytes

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
#: "there is output": comes with every batch, and nobody listens to it
_TRANSPORT = lib.PN_TRANSPORT
_ACCEPTED = lib.PN_ACCEPTED
_STATES = {
    Outcome.ACCEPTED: lib.PN_ACCEPTED,
    Outcome.REJECTED: lib.PN_REJECTED,
    Outcome.RELEASED: lib.PN_RELEASED,
    Outcome.MODIFIED: lib.PN_MODIFIED,
}
_OUTCOMES = {int(state): outcome for outcome, state in _STATES.items()}
_ACCEPT = Outcome.ACCEPTED
#: of every message that was accepted
DONE = Disposition(_ACCEPT)
_SCRATCH_SIZE = 65536
#: from here on proton copies so long that others should have the interpreter meanwhile, bytes
LARGE = 16384
#: bytes handed to the socket at a time, at first and after there was more than that
_OUTPUT_SIZE = 131072
_OUTPUT_LIMIT = 1 << 20


def pump(connection: Any) -> bool:
    """Serve deliveries and flow of our links; pyngus gets the rest, in order.

    :returns: whether there was anything for pyngus
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
                if link is not None and not link.receiving:
                    link.handler.link_credit()
                elif link is not None and link.asking:
                    link.answered()
            elif kind != _TRANSPORT:
                others = True
                dispatch(connection, event)
        finally:
            _pop(collector)


def dispatch(connection: Any, event: int) -> None:
    """An event for pyngus."""
    connection.dispatch(proton.Event.wrap(ffi.cast("pn_event_t *", event)))


def transport_of(connection: Any) -> int:
    """Proton's, looked up for the first time."""
    transport: int = address(connection._pn_transport._impl)
    connection.transport = transport
    return transport


def receive(connection: Any, data: Any) -> None:
    """Bytes from the peer, without copying them once more."""
    transport = connection.transport or transport_of(connection)
    offset, end = 0, len(data)
    if end < LARGE and type(data) is bytes and _capacity(transport) >= end:
        if _push(transport, data, end) < 0 or _capacity(transport) < 0:
            _ = connection.needs_input  # pyngus notes the end of input
        return
    source = _from_buffer(data)
    if end < LARGE:
        push, to, at = _push, transport, address(source)
    else:
        push, to, at = lib.pn_transport_push, connection._pn_transport._impl, source
    while offset < end:
        room = _capacity(transport)
        if room <= 0 or push(to, at + offset, min(room, end - offset)) < 0:
            _ = connection.needs_input  # pyngus notes the end of input
            return
        offset += room
    if _capacity(transport) < 0:
        _ = connection.needs_input


class _Output:
    """Bytes that proton has given and the socket has not taken: from ``start`` to ``end``."""

    __slots__ = ("at", "end", "size", "start", "view")

    def __init__(self, size: int) -> None:
        memory = ffi.new("char[]", size)
        self.view = memoryview(ffi.buffer(memory))
        self.at = address(memory)
        self.size = size
        self.start = self.end = 0


def writable(connection: Any) -> _Output:
    """Memory for output: with what the socket has not taken yet, or with room."""
    out = connection.outgoing
    if out is None:
        out = connection.outgoing = _Output(_OUTPUT_SIZE)
    elif out.start == out.end == out.size < _OUTPUT_LIMIT:
        out = connection.outgoing = _Output(_OUTPUT_LIMIT)
    return out  # type: ignore[no-any-return]


def output(connection: Any) -> memoryview | None:
    """What is to be sent next: all that proton has, as far as there is room.

    It is taken from proton at once. What the interpreter's lock is given up for is the sending
    alone, and once for a large message rather than for each of its frames: while others encode
    large messages every return to the interpreter takes milliseconds.
    """
    out = writable(connection)
    if out.start < out.end:
        return out.view[out.start:out.end]
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
        # more than a buffer of proton's comes in several
        size = _output_pending(transport) if size >= LARGE else 0
    out.start, out.end = 0, end
    return out.view[:end] if end else None


def output_written(connection: Any, count: int) -> None:
    # whether that was the end, output() finds
    connection.outgoing.start += count


def link(connection: Any, link: Any) -> None:
    link.impl = address(link._pn_link._impl)
    connection.links[link.impl] = link
    if connection.scratch is None:
        # not a module's: each connection has a thread of its own, and C calls
        # run without the interpreter's lock
        memory = ffi.new("char[]", _SCRATCH_SIZE)
        connection.scratch = (address(memory), ffi.buffer(memory))
    link.scratch = connection.scratch


def unlink(connection: Any, link: Any) -> None:
    connection.links.pop(link.impl, None)


def credit(link: Any) -> int:
    return _credit(link.impl)  # type: ignore[no-any-return]


def may_send(link: Any) -> bool:
    """As :attr:`EngineSender.may_send`; called for every message."""
    if _credit(link.impl) <= 0:
        return False
    window = link.window or link.outgoing_window()
    return window.has_room() or link.hold()  # type: ignore[no-any-return]


def send(link: Any, data: Encoded, settled: bool) -> Any:
    tag = link.next_key = link.next_key + 1
    impl = link.impl
    octets = b"%x" % tag
    pointer = _delivery(impl, Octets(len(octets), octets))
    if type(data) is tuple:  # large, with its body apart
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
    pointer = link.unsettled.pop(key, None)
    if pointer is not None:
        _settle(pointer)


def outgoing(link: Any, pointer: Any) -> None:
    """News of a message that was sent: perhaps its outcome."""
    state = _remote_state(pointer)
    if state != _ACCEPTED and state not in _OUTCOMES and not _settled(pointer):
        return
    if link.unsettled.pop(pointer, None) is None:
        return
    disposition = DONE if state == _ACCEPTED else _disposition(pointer, state)
    _settle(pointer)
    link.handler.link_outcome(pointer, disposition)


def _disposition(pointer: Any, state: int) -> Disposition:
    """The details of a negative outcome (3.4.2 to 3.4.5)."""
    remote = lib.pn_delivery_remote(ffi.cast("pn_delivery_t *", pointer))
    # settled without an outcome: nobody can tell what became of it
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
    return Disposition(outcome, condition=name, description=description, failed=failed,
                       undeliverable=undeliverable)


def _text(pointer: Any) -> str | None:
    return None if pointer == ffi.NULL else ffi.string(pointer).decode("utf-8", "replace")


def _bytes(link: Any, size: int) -> bytes:
    """So much of a message of which more may have to come: makes room in the session's window."""
    data: bytes = new_bytes(size) if size else b""
    if size:
        lib.pn_link_recv(link._pn_link._impl, _from_buffer(data), size)
    return data


def incoming(link: Any, pointer: Any) -> None:
    """News of a message that is received: perhaps all of it is there."""
    size = _pending(pointer)
    impl = link.impl
    if size <= 1 and _aborted(pointer):  # of which proton says that there is one byte
        _settle(pointer)
        _flow(impl, 1)  # it has cost a credit, and the owner never sees it
        link.pieces.clear()
        return
    if not _readable(pointer):
        return
    if _partial(pointer):
        if size and link.session.bounded:
            link.pieces.append(_bytes(link, size))
        return
    if link.pieces:
        data = b"".join((*link.pieces, _bytes(link, size)))
        link.pieces.clear()
    elif size <= _SCRATCH_SIZE:
        memory, view = link.scratch
        _recv(impl, memory, size)
        data = view[0:size]
    else:
        data = new_bytes(size)
        lib.pn_link_recv(link._pn_link._impl, _from_buffer(data), size)
    _advance(impl)
    # not the pointer: proton uses the memory again, and an application may
    # settle twice
    key = link.next_key = link.next_key + 1
    settled = bool(_settled(pointer))
    if settled:
        _settle(pointer)
    else:
        link.unsettled[key] = pointer
    link.handler.link_delivery(key, data, settled)


def flow(link: Any, credit: int) -> None:
    _flow(link.impl, credit)


def settle(link: Any, key: int, outcome: Outcome) -> bool:
    pointer = link.unsettled.pop(key, None)
    if pointer is None:
        return False
    if outcome is _ACCEPT:
        _update(pointer, _ACCEPTED)
    else:
        if outcome is Outcome.MODIFIED:
            delivery = ffi.cast("pn_delivery_t *", pointer)
            lib.pn_disposition_set_failed(lib.pn_delivery_local(delivery), True)
        _update(pointer, _STATES[outcome])
    _settle(pointer)
    return True
