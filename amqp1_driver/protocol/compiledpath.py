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

"""``fastpath`` with what is common in C: whole messages, accepted ones, credit.

The module ``_compiled`` (sources in ``compiled/``) calls proton's functions at the addresses that
it is given here. It takes a message from proton to its handler without a call of ctypes for each
step, which costs more than the step. Where it was not built, or proton's functions are not those
that it knows, the import fails and ``fastpath`` serves.  I/O thread only.
"""

from typing import Any

from cproton_ffi import ffi, lib

from amqp1_driver.codec import Encoded
from amqp1_driver.policy.outcome import Outcome
from amqp1_driver.protocol import _compiled, fastpath, window
from amqp1_driver.protocol.fastpath import (
    LARGE,
    forget,
    link,
    output_written,
    transport_of,
    unlink,
    writable,
)
from amqp1_driver.protocol.held import address

__all__ = ["bind", "credit", "flow", "forget", "link", "may_send", "output", "output_written",
           "pump", "receive", "send", "settle", "unlink"]

#: as cffi says them, and as the module declares them
_SIGNATURES = {
    "pn_collector_peek": "struct pn_event_t *(*)(struct pn_collector_t *)",
    "pn_collector_pop": "_Bool(*)(struct pn_collector_t *)",
    "pn_event_type": "pn_event_type_t(*)(struct pn_event_t *)",
    "pn_event_delivery": "struct pn_delivery_t *(*)(struct pn_event_t *)",
    "pn_event_link": "struct pn_link_t *(*)(struct pn_event_t *)",
    "pn_delivery_link": "struct pn_link_t *(*)(struct pn_delivery_t *)",
    "pn_delivery_readable": "_Bool(*)(struct pn_delivery_t *)",
    "pn_delivery_partial": "_Bool(*)(struct pn_delivery_t *)",
    "pn_delivery_pending": "size_t(*)(struct pn_delivery_t *)",
    "pn_delivery_remote_state": "uint64_t(*)(struct pn_delivery_t *)",
    "pn_delivery_settled": "_Bool(*)(struct pn_delivery_t *)",
    "pn_delivery_settle": "void(*)(struct pn_delivery_t *)",
    "pn_delivery_update": "void(*)(struct pn_delivery_t *, uint64_t)",
    "pn_delivery": "struct pn_delivery_t *(*)(struct pn_link_t *, struct pn_bytes_t)",
    "pn_link_credit": "int(*)(struct pn_link_t *)",
    "pn_link_send": "ssize_t(*)(struct pn_link_t *, char *, size_t)",
    "pn_link_recv": "ssize_t(*)(struct pn_link_t *, char *, size_t)",
    "pn_link_advance": "_Bool(*)(struct pn_link_t *)",
    "pn_link_flow": "void(*)(struct pn_link_t *, int)",
    "pn_transport_capacity": "ssize_t(*)(struct pn_transport_t *)",
    "pn_transport_push": "ssize_t(*)(struct pn_transport_t *, char *, size_t)",
    "pn_transport_pending": "ssize_t(*)(struct pn_transport_t *)",
    "pn_transport_peek": "ssize_t(*)(struct pn_transport_t *, char *, size_t)",
    "pn_transport_pop": "void(*)(struct pn_transport_t *, size_t)",
}
_CONSTANTS = (lib.PN_DELIVERY, lib.PN_LINK_FLOW, lib.PN_TRANSPORT, lib.PN_ACCEPTED)
_ACCEPT = Outcome.ACCEPTED


def _address(name: str, signature: str) -> int:
    function = getattr(lib, name, None)
    if function is None or ffi.typeof(function).cname != signature:
        raise ImportError(f"this proton has another {name}")
    return address(ffi.addressof(lib, name))


def bind() -> None:
    """Tell the module where proton's functions are.

    :raises ImportError: they are not those that it knows
    """
    if (ffi.offsetof("pn_bytes_t", "size"), ffi.offsetof("pn_bytes_t", "start")) != (0, 8):
        raise ImportError("this proton has another pn_bytes_t")
    addresses = {name: _address(name, signature) for name, signature in _SIGNATURES.items()}
    try:
        _compiled.bind({**addresses, **window.addresses()}, _CONSTANTS, fastpath.incoming,
                       fastpath.outgoing, fastpath.dispatch, fastpath.DONE)
    except (KeyError, TypeError) as error:
        raise ImportError(f"{_compiled.__file__} was built from other sources: {error}") from error


bind()

# As fastpath's, and called for every message: without a function of Python's around them.
credit = _compiled.credit
flow = _compiled.flow
may_send = _compiled.may_send


def pump(connection: Any) -> bool:
    """As :func:`fastpath.pump`."""
    if connection.collector is None:
        connection.collector = address(connection._pn_collector._impl)
    return _compiled.pump(connection)


def receive(connection: Any, data: Any) -> None:
    """As :func:`fastpath.receive`."""
    if type(data) is bytes and len(data) < LARGE:
        going_on = _compiled.push(connection.transport or transport_of(connection), data)
        if going_on is not None:
            if not going_on:
                _ = connection.needs_input  # pyngus notes the end of input
            return
    fastpath.receive(connection, data)


def output(connection: Any) -> memoryview | None:
    """As :func:`fastpath.output`."""
    out = writable(connection)
    if out.start == out.end:
        end = _compiled.fill(connection.transport or transport_of(connection), out.at, out.size)
        if end <= 0:
            if end < 0:
                _ = connection.has_output  # pyngus notes the end of output
            return None
        out.start, out.end = 0, end
    return out.view[out.start:out.end]


def send(link: Any, data: Encoded, settled: bool) -> Any:
    """As :func:`fastpath.send`."""
    if type(data) is bytes and len(data) < LARGE:
        return _compiled.send(link, data, settled)
    return fastpath.send(link, data, settled)


def settle(link: Any, key: int, outcome: Outcome) -> bool:
    """As :func:`fastpath.settle`."""
    if outcome is _ACCEPT:
        return _compiled.accept(link, key)
    return fastpath.settle(link, key, outcome)
