# SPDX-License-Identifier: Apache-2.0

"""The delivery path with the common cases of ``fastpath`` in C; lives on the I/O thread.

The common cases are whole messages, accepted messages and credit. The C module ``_speedups``
(sources in ``_speedups/``) calls proton's functions at the addresses that :func:`bind` passes to
it. The C code takes a message from proton to its handler without a ctypes call for each step; such
a call costs more than the step itself.

Importing this module fails if ``_speedups`` was not built, or if proton's functions have other
signatures than ``_speedups`` declares. The engine then uses ``fastpath``.
"""

from typing import Any

from cproton_ffi import ffi, lib

from amqp1_driver.codec import Encoded
from amqp1_driver.engine import _speedups, fastpath, session_window
from amqp1_driver.engine.fastpath import (
    LARGE,
    forget,
    link,
    output_written,
    transport_of,
    unlink,
    writable,
)
from amqp1_driver.engine.proton_ffi import address
from amqp1_driver.policy.outcome import Outcome

__all__ = [
    "bind",
    "credit",
    "flow",
    "forget",
    "link",
    "may_send",
    "output",
    "output_written",
    "pump",
    "receive",
    "send",
    "settle",
    "unlink",
]

#: proton function -> its signature, in the notation of cffi, as ``_speedups`` declares it
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
    "pn_link_get_drain": "_Bool(*)(struct pn_link_t *)",
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
    """Return the address of one of proton's C functions.

    :raises ImportError: proton has no such function, or another signature for it
    """
    function = getattr(lib, name, None)
    if function is None or ffi.typeof(function).cname != signature:
        raise ImportError(f"this proton has another {name}")
    return address(ffi.addressof(lib, name))


def bind() -> None:
    """Pass the addresses of proton's functions to the C module.

    :raises ImportError: proton's functions or types differ from those that ``_speedups`` declares,
        or ``_speedups`` was built from other sources
    """
    if (ffi.offsetof("pn_bytes_t", "size"), ffi.offsetof("pn_bytes_t", "start")) != (0, 8):
        raise ImportError("this proton has another pn_bytes_t")
    addresses = {name: _address(name, signature) for name, signature in _SIGNATURES.items()}
    try:
        _speedups.bind(
            {**addresses, **session_window.addresses()},
            _CONSTANTS,
            fastpath.incoming,
            fastpath.outgoing,
            fastpath.dispatch,
            fastpath.DONE,
        )
    except (KeyError, TypeError) as error:
        raise ImportError(f"{_speedups.__file__} was built from other sources: {error}") from error


bind()

# The driver calls these for every message, hence no Python wrapper. They do the same as those of
# fastpath.
credit = _speedups.credit
flow = _speedups.flow
may_send = _speedups.may_send


def pump(connection: Any) -> bool:
    """Do the same as :func:`fastpath.pump`."""
    if connection.asked:  # rare
        return fastpath.pump(connection)
    if connection.collector is None:
        connection.collector = address(connection._pn_collector._impl)
    return _speedups.pump(connection)


def receive(connection: Any, data: Any) -> None:
    """Do the same as :func:`fastpath.receive`."""
    connection.unread = True
    questions = connection.questions.read(data)
    if questions:
        connection.echo.asked(connection, questions)
    if type(data) is bytes and len(data) < LARGE:
        going_on = _speedups.push(connection.transport or transport_of(connection), data)
        if going_on is not None:
            if not going_on:
                _ = connection.needs_input  # pyngus notes the end of input
            return
    fastpath.push(connection, data)


def output(connection: Any) -> memoryview | None:
    """Do the same as :func:`fastpath.output`."""
    out = connection.outgoing
    if out is None or out.start == out.end == out.size:
        out = writable(connection)
    if out.start == out.end:
        end = _speedups.fill(connection.transport or transport_of(connection), out.at, out.size)
        if end <= 0:
            if end < 0:
                _ = connection.has_output  # pyngus notes the end of output
            return None
        out.start, out.end = 0, end
    return out.view[out.start : out.end]  # type: ignore[no-any-return]


def send(link: Any, data: Encoded, settled: bool) -> Any:
    """Do the same as :func:`fastpath.send`."""
    if type(data) is bytes and len(data) < LARGE:
        return _speedups.send(link, data, settled)
    return fastpath.send(link, data, settled)


def settle(link: Any, key: int, outcome: Outcome) -> bool:
    """Do the same as :func:`fastpath.settle`."""
    if outcome is _ACCEPT:
        return _speedups.accept(link, key)
    return fastpath.settle(link, key, outcome)
