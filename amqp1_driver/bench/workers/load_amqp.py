# SPDX-License-Identifier: Apache-2.0

"""A loader that fills a queue of RabbitMQ over AMQP 1.0 with copies of a driver's message."""

from __future__ import annotations

from typing import Any

import proton
import proton.reactor

from .brief import Brief, address
from .copies import Copies


def load(url: str, source: str, queue: str, first: int, count: int, timeout: float) -> None:
    """Take the message in ``source``, and put copies of it into ``queue``.

    :param first: number of the first copy
    :param timeout: seconds without progress, after which the function fails
    :raises RuntimeError: there is no message or no progress in time, or the broker refuses
    """
    fetch = _Fetch(url, source, timeout)
    fetch.run()
    message = proton.Message()
    message.decode(fetch.data)
    fill = _Fill(url, queue, Copies(fetch.data, str(message.id).encode()), first, count, timeout)
    fill.run()


class _Loader(Brief):
    """A client of one queue."""

    def __init__(self, url: str, queue: str, timeout: float) -> None:
        super().__init__(url, timeout)
        self.address = address("queues", queue)

    def doing(self) -> str:
        """Return the address of the queue."""
        return self.address


class _Fetch(_Loader):
    """A client that takes one message and keeps its bytes."""

    def __init__(self, url: str, queue: str, timeout: float) -> None:
        super().__init__(url, queue, timeout)
        self.data = b""

    def on_start(self, event: Any) -> None:
        """Attach a receiver, and grant it credit for one message."""
        super().on_start(event)
        event.container.create_receiver(self.connection, self.address).flow(1)

    def on_delivery(self, event: Any) -> None:
        """Keep the message when it is complete, accept it, and close the connection."""
        delivery = event.delivery
        if delivery.readable and not delivery.partial:
            self.data = delivery.link.recv(delivery.pending)
            delivery.link.advance()
            delivery.update(proton.Delivery.ACCEPTED)
            delivery.settle()
            self.finish()


class _Fill(_Loader):
    """A client that sends ``count`` copies, settled; the queue's length shows if one is missing."""

    def __init__(
        self, url: str, queue: str, copies: Copies, first: int, count: int, timeout: float
    ) -> None:
        super().__init__(url, queue, timeout)
        self._copies = copies
        self._next = first
        self._end = first + count

    def on_start(self, event: Any) -> None:
        """Attach a sender."""
        super().on_start(event)
        self._sender = event.container.create_sender(
            self.connection, self.address, options=proton.reactor.AtMostOnce()
        )

    def on_sendable(self, event: Any) -> None:
        """Send as many copies as credit allows; close the link after the last one."""
        self.progress()
        sender, copy = self._sender, self._copies.copy
        for number in range(self._next, min(self._end, self._next + sender.credit)):
            delivery = sender.delivery(str(number))
            sender.stream(copy(number))
            sender.advance()
            delivery.settle()
            self._next = number + 1
        if self._next == self._end:
            sender.close()

    def on_link_closed(self, event: Any) -> None:
        """Close the connection: a broker that detaches the link has read all copies before."""
        self.finish()
