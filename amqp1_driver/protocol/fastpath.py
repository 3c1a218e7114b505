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

from amqp1_driver.policy.outcome import Disposition, Outcome

_NULL = ffi.NULL
_peek = lib.pn_collector_peek
_pop = lib.pn_collector_pop
_type = lib.pn_event_type
_event_delivery = lib.pn_event_delivery
_event_link = lib.pn_event_link
_delivery_link = lib.pn_delivery_link
_readable = lib.pn_delivery_readable
_partial = lib.pn_delivery_partial
_pending = lib.pn_delivery_pending
_remote_state = lib.pn_delivery_remote_state
_settled = lib.pn_delivery_settled
_settle = lib.pn_delivery_settle
_update = lib.pn_delivery_update
_credit = lib.pn_link_credit
_send = lib.pn_link_send
_recv = lib.pn_link_recv
_advance = lib.pn_link_advance
_flow = lib.pn_link_flow
_is_receiver = lib.pn_link_is_receiver
_delivery = lib.pn_delivery
_aborted = lib.pn_delivery_aborted
_from_buffer = ffi.from_buffer
_cast = ffi.cast

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
_DONE = Disposition(Outcome.ACCEPTED)
_SCRATCH_SIZE = 65536


def _address(pointer: Any) -> int:
    return int(_cast("uintptr_t", pointer))


def pump(connection: Any) -> bool:
    """Serve deliveries and flow of our links; pyngus gets the rest, in order.

    :returns: whether there was anything for pyngus
    """
    collector = connection._pn_collector._impl
    links = connection.links
    others = False
    while True:
        event = _peek(collector)
        if event == _NULL:
            return others
        kind = _type(event)
        try:
            if kind == _DELIVERY:
                pointer = _event_delivery(event)
                link = links.get(_address(_delivery_link(pointer)))
                if link is not None:
                    if _is_receiver(link.impl):
                        _incoming(link, pointer)
                    else:
                        _outgoing(link, pointer)
            elif kind == _LINK_FLOW:
                link = links.get(_address(_event_link(event)))
                if link is not None and not _is_receiver(link.impl):
                    link.handler.link_credit()
            elif kind != _TRANSPORT:
                others = True
                connection.dispatch(proton.Event.wrap(event))
        finally:
            _pop(collector)


def link(connection: Any, link: Any) -> None:
    connection.links[_address(link.impl)] = link
    if connection.scratch is None:
        # not a module's: each connection has a thread of its own, and C calls
        # run without the interpreter's lock
        memory = ffi.new("char[]", _SCRATCH_SIZE)
        connection.scratch = (memory, ffi.buffer(memory))
    link.scratch = connection.scratch


def unlink(connection: Any, link: Any) -> None:
    connection.links.pop(_address(link.impl), None)


def credit(link: Any) -> int:
    return int(_credit(link.impl))


def send(link: Any, data: bytes, settled: bool) -> int:
    tag = link.next_key = link.next_key + 1
    impl = link.impl
    octets = b"%x" % tag
    pointer = _delivery(impl, (len(octets), _from_buffer(octets)))
    _send(impl, _from_buffer(data), len(data))
    _advance(impl)
    if settled:
        _settle(pointer)
        return 0
    key = _address(pointer)
    link.unsettled[key] = pointer
    return key


def forget(link: Any, key: int) -> None:
    pointer = link.unsettled.pop(key, None)
    if pointer is not None:
        _settle(pointer)


def _outgoing(link: Any, pointer: Any) -> None:
    state = _remote_state(pointer)
    if not _settled(pointer) and state not in _OUTCOMES:
        return
    key = _address(pointer)
    if link.unsettled.pop(key, None) is None:
        return
    disposition = _DONE if state == _ACCEPTED else _disposition(pointer, state)
    _settle(pointer)
    link.handler.link_outcome(key, disposition)


def _disposition(pointer: Any, state: int) -> Disposition:
    """The details of a negative outcome (3.4.2 to 3.4.5)."""
    remote = lib.pn_delivery_remote(pointer)
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
    return None if pointer == _NULL else ffi.string(pointer).decode("utf-8", "replace")


def _incoming(link: Any, pointer: Any) -> None:
    if _aborted(pointer):
        _settle(pointer)
        _flow(link.impl, 1)  # it has cost a credit, and the owner never sees it
        return
    if not _readable(pointer) or _partial(pointer):
        return
    size = _pending(pointer)
    impl = link.impl
    if size <= _SCRATCH_SIZE:
        memory, view = link.scratch
        _recv(impl, memory, size)
        data = view[0:size]
    else:
        large = bytearray(size)
        _recv(impl, _from_buffer(large), size)
        data = bytes(large)
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
    if outcome is Outcome.MODIFIED:
        lib.pn_disposition_set_failed(lib.pn_delivery_local(pointer), True)
    _update(pointer, _STATES[outcome])
    _settle(pointer)
    return True
