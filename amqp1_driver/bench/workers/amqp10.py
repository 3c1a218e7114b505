# SPDX-License-Identifier: Apache-2.0

"""A loader that fills a queue of RabbitMQ over AMQP 1.0 with copies of a message. One thread."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import proton
import proton.handlers
import proton.reactor

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


class _Loader(proton.handlers.MessagingHandler):  # type: ignore[misc]
    """A client that connects, does its task on one queue, and closes the connection.

    :param timeout: seconds without progress, after which the client fails
    """

    def __init__(self, url: str, queue: str, timeout: float) -> None:
        super().__init__(prefetch=0, auto_settle=True)
        self.address = f"/queues/{quote(queue, safe='')}"
        self._url = url
        self._timeout = timeout
        self._steps = self._seen = 0
        self._trouble: str | None = None

    def run(self) -> None:
        """Do the task.

        :raises RuntimeError: the task failed
        """
        proton.reactor.Container(self).run()
        if self._trouble is not None:
            raise RuntimeError(self._trouble)

    def on_start(self, event: Any) -> None:
        """Connect, and start the timer."""
        self._timer = event.container.schedule(self._timeout, self)
        self.connection = event.container.connect(self._url, reconnect=False)

    def on_timer_task(self, event: Any) -> None:
        """Fail if there was no progress since the last check."""
        if self._seen == self._steps:
            what = "no progress" if self._steps else "not done"
            self.finish(f"{what} in {self._timeout:g} s")
            return
        self._seen = self._steps
        self._timer = event.container.schedule(self._timeout, self)

    def finish(self, trouble: str | None = None) -> None:
        """Close the connection.

        :param trouble: why the task failed; None: it succeeded
        """
        if trouble is not None and self._trouble is None:
            self._trouble = f"{self.address}: {trouble}"
        self._timer.cancel()
        self.connection.close()

    def on_transport_error(self, event: Any) -> None:
        """Fail: the connection is lost, or the broker did not accept it."""
        self.finish(str(event.transport.condition))

    def on_link_error(self, event: Any) -> None:
        """Fail: the broker ended link, session or connection with an error."""
        self.finish(str(event.context.remote_condition))

    on_session_error = on_connection_error = on_link_error


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
        self._steps += 1
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
