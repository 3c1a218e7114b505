# SPDX-License-Identifier: Apache-2.0

"""Deliveries with their common cases in C; lives on the I/O thread.

The common cases are whole messages, accepted messages and credit. The C module ``_speedups``
(sources in ``_speedups/``) calls proton's functions at the addresses that :func:`bind` passes to
it, and keeps the interpreter's lock. cffi, with which proton's Python binding is made, gives up the
lock around every call, even if the function takes only a tenth of a microsecond; another thread
then takes the lock, some twenty times per message. Only copies of large messages give it up here.

Importing this module fails if ``_speedups`` was not built, or if proton's functions have other
signatures than ``_speedups`` declares. The engine then uses :class:`ProtonDeliveries`.
"""

from typing import Any

from amqp1_driver.engine import _speedups, session_window
from amqp1_driver.engine.deliveries import DONE, Connection, ProtonDeliveries, ReceivingLink
from amqp1_driver.engine.proton_private import (
    CONSTANTS,
    address,
    buffer,
    delivery_at,
    event_at,
    function_address,
)
from amqp1_driver.policy.outcome import Outcome

#: bytes; size of the output buffer at first, and from the first time that it was full
_OUTPUT_SIZE = 131072
_OUTPUT_LIMIT = 1 << 20


class OutputBuffer:
    """A buffer for output; the socket still has to take the bytes from ``start`` to ``end``."""

    __slots__ = ("at", "end", "size", "start", "view")

    def __init__(self, size: int) -> None:
        self.view, self.at = buffer(size)
        self.size = size
        self.start = self.end = 0


class RareCases(ProtonDeliveries):
    """The cases that the C module leaves to Python, with deliveries known by their addresses.

    The address is the key of a sent delivery. It is no key for a received one: proton reuses the
    memory, and an application may settle twice.
    """

    def _key(self, delivery: Any) -> int:
        return address(delivery)

    def _kept(self, delivery: Any) -> int:
        return address(delivery)

    def _delivery(self, kept: int) -> Any:
        return delivery_at(kept)

    def _read(self, link: ReceivingLink, size: int) -> bytes:
        return _speedups.read(link, size)

    def on_link_delivery(self, link: Any, delivery: int) -> None:
        """Process a delivery event, of a sending or a receiving link.

        :param delivery: address of proton's delivery
        """
        process = self.on_delivery if link.receiving else self.on_outcome
        process(link, self._delivery(delivery))

    def dispatch(self, connection: Connection, event: int) -> None:
        """Dispatch an event that is neither a delivery nor a Flow frame.

        :param event: memory address of proton's event
        """
        connection.dispatch(event_at(event))


class SpeedupDeliveries(RareCases):
    """Deliveries by the C module."""

    pump = staticmethod(_speedups.pump)
    push = staticmethod(_speedups.push)
    credit = staticmethod(_speedups.credit)
    may_send = staticmethod(_speedups.may_send)
    send = staticmethod(_speedups.send)
    flow = staticmethod(_speedups.flow)
    settle = staticmethod(_speedups.settle)

    def prepare(self, connection: Connection) -> None:
        """Look up the addresses of proton's objects, and make the output buffer."""
        connection.collector = address(connection.pn_collector)
        connection.transport = address(connection.pn_transport)
        connection.outgoing = OutputBuffer(_OUTPUT_SIZE)

    def register(self, connection: Connection, link: Any) -> None:
        """Register a link, so that :meth:`pump` processes its events."""
        link.impl = address(link.pn_link)
        connection.links[link.impl] = link

    def unregister(self, connection: Connection, link: Any) -> None:
        """Remove a link; :meth:`pump` ignores its further deliveries and Flow frames."""
        connection.links.pop(link.impl, None)

    def output(self, connection: Connection) -> memoryview | None:
        """Return the bytes to send next: all output of proton, as far as it fits into the buffer.

        The buffer exists to send a large message with one system call rather than with one for each
        of its frames. A system call gives up the interpreter's lock, and while other threads encode
        large messages it takes milliseconds to get the lock back.

        :returns: a view that is valid until :meth:`output_written`; None if there is nothing to
            send
        """
        out = connection.outgoing
        if out.start == out.end:
            if out.end == out.size < _OUTPUT_LIMIT:
                out = connection.outgoing = OutputBuffer(_OUTPUT_LIMIT)
            end = _speedups.fill(connection.transport, out.at, out.size)
            if end <= 0:
                if end < 0:
                    _ = connection.has_output  # pyngus notes the end of output
                return None
            out.start, out.end = 0, end
        return out.view[out.start : out.end]  # type: ignore[no-any-return]

    def output_written(self, connection: Connection, count: int) -> bool:
        """Remove ``count`` bytes from the output: the socket has taken them.

        :returns: False if there is certainly no further output at present
        """
        out: OutputBuffer = connection.outgoing
        out.start += count
        return out.start < out.end or out.end == out.size


def bind() -> None:
    """Pass the addresses of proton's functions to the C module.

    :raises ImportError: proton's functions or types differ from those that ``_speedups`` declares,
        or ``_speedups`` was built from other sources
    """
    addresses = {
        # proton's binding lacks the functions without a signature
        name: session_window.address_of(name)
        if signature is None
        else function_address(name, signature)
        for name, signature in _speedups.FUNCTIONS.items()
    }
    try:
        _speedups.bind(addresses, CONSTANTS, RareCases(), Outcome.ACCEPTED, DONE)
    except (KeyError, TypeError) as error:
        raise ImportError(f"{_speedups.__file__} was built from other sources: {error}") from error


bind()
