# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Fills a queue of RabbitMQ over AMQP 1.0, by copies of a message that a driver has sent."""

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
    :raises RuntimeError: there is none, or they don't get through in time
    """
    fetch = _Fetch(url, source, timeout)
    fetch.run()
    message = proton.Message()
    message.decode(fetch.data)
    fill = _Fill(url, queue, Copies(fetch.data, str(message.id).encode()), first, count, timeout)
    fill.run()


class _Client(proton.handlers.MessagingHandler):  # type: ignore[misc]
    """Gives up when nothing happens for a while."""

    def __init__(self, url: str, queue: str, timeout: float, prefetch: int) -> None:
        super().__init__(prefetch=prefetch, auto_settle=True)
        self.address = f"/queues/{quote(queue, safe='')}"
        self.connection: Any = None
        self._url = url
        self._timeout = timeout
        self._timer: Any = None
        self._steps = self._seen = 0
        self._trouble: str | None = None

    def run(self) -> None:
        """Until it is done."""
        proton.reactor.Container(self).run()
        if self._trouble is not None:
            raise RuntimeError(f"{self.address}: {self._trouble}")

    def on_start(self, event: Any) -> None:
        """Connect."""
        self._timer = event.container.schedule(self._timeout, self)
        self.connection = event.container.connect(self._url, reconnect=False)

    def on_timer_task(self, event: Any) -> None:
        """Look whether it goes on."""
        if self._seen == self._steps:
            self.finish(f"no progress in {self._timeout:g} s")
            return
        self._seen = self._steps
        self._timer = event.container.schedule(self._timeout, self)

    def progress(self) -> None:
        """It goes on."""
        self._steps += 1

    def finish(self, trouble: str | None = None) -> None:
        """Close."""
        self._trouble = self._trouble or trouble
        self._timer.cancel()
        self.connection.close()

    def on_transport_error(self, event: Any) -> None:
        """The broker has gone."""
        self.finish(str(event.transport.condition))

    def on_link_error(self, event: Any) -> None:
        """Refused."""
        self.finish(str(event.link.remote_condition))

    def on_session_error(self, event: Any) -> None:
        """Refused."""
        self.finish(str(event.session.remote_condition))

    def on_connection_error(self, event: Any) -> None:
        """Refused."""
        self.finish(str(event.connection.remote_condition))


class _Fetch(_Client):
    """The bytes of one message."""

    def __init__(self, url: str, queue: str, timeout: float) -> None:
        super().__init__(url, queue, timeout, 0)
        self.data = b""

    def on_start(self, event: Any) -> None:
        """Ask for one."""
        super().on_start(event)
        event.container.create_receiver(self.connection, self.address).flow(1)

    def on_delivery(self, event: Any) -> None:
        """It is here."""
        delivery = event.delivery
        if delivery.readable and not delivery.partial:
            self.data = delivery.link.recv(delivery.pending)
            delivery.link.advance()
            delivery.update(proton.Delivery.ACCEPTED)
            delivery.settle()
            self.finish()


class _Fill(_Client):
    """So many copies, settled: that none is missing is seen by the length of the queue."""

    def __init__(self, url: str, queue: str, copies: Copies, first: int, count: int,
                 timeout: float) -> None:  # fmt: skip
        super().__init__(url, queue, timeout, 0)
        self._copies = copies
        self._next = first
        self._end = first + count

    def on_start(self, event: Any) -> None:
        """Attach."""
        super().on_start(event)
        self._sender = event.container.create_sender(
            self.connection, self.address, options=proton.reactor.AtMostOnce()
        )

    def on_sendable(self, event: Any) -> None:
        """There is credit."""
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
        """All went before it."""
        self.finish()
