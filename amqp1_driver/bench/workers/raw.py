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

"""Proton's own Python handlers, with nothing of oslo.messaging: calls and unsettled casts.

There is one thread; the number of "threads" is how many messages are under way at once.
"""

from __future__ import annotations

import json
import threading
import time
from importlib.metadata import version
from typing import Any

import proton
import proton.handlers
import proton.reactor

from .ledger import FAILED, OK, Histogram, Ledger
from .pace import Errors, Stint, outcome


def about() -> dict[str, Any]:
    """What is measured."""
    name = "python-qpid-proton"
    return {"driver": "proton.handlers.MessagingHandler", "versions": {name: version(name)}}


class Server(proton.handlers.MessagingHandler):  # type: ignore[misc]
    """Receives, and answers calls."""

    def __init__(self, order: dict[str, Any], ledger: Ledger) -> None:
        super().__init__(prefetch=100)
        self._order = order
        self._ledger = ledger
        self._answers = order["operation"] == "call"
        self._senders: dict[str, Any] = {}
        self._opened = threading.Event()

    def open(self) -> None:
        """Returns when the bus has attached the link."""
        container = proton.reactor.Container(self)
        threading.Thread(target=container.run, daemon=True).start()
        if not self._opened.wait(self._order["timeout"]):
            raise RuntimeError(f"the bus does not attach {self._order['topic']}")

    def close(self) -> None:
        """Nothing: the process ends."""

    def about(self) -> dict[str, Any]:
        """What is measured."""
        return about()

    def on_start(self, event: Any) -> None:
        """Attach."""
        self._connection = event.container.connect(self._order["url"], reconnect=False)
        self._container = event.container
        event.container.create_receiver(self._connection, self._order["topic"])

    def on_link_opened(self, event: Any) -> None:
        """The receiver is there."""
        if event.receiver:
            self._opened.set()

    def on_message(self, event: Any) -> None:
        """Count it, and send it back."""
        message = event.message
        body = json.loads(message.body)
        self._ledger.note(body["i"], body["n"], body["t"], time.monotonic_ns())
        if not self._answers:
            return
        to = message.reply_to
        sender = self._senders.get(to)
        if sender is None:
            sender = self._senders[to] = self._container.create_sender(self._connection, to)
        sender.send(proton.Message(address=to, correlation_id=message.id, body=message.body))


class Client:
    """Sends; a connection for each stint."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order

    def open(self) -> None:
        """Nothing connects as yet."""

    def close(self) -> None:
        """Nothing is open."""

    def about(self) -> dict[str, Any]:
        """What is measured."""
        return about()

    def extra(self) -> dict[str, Any]:
        """Nothing more to report."""
        return {}

    def work(self, stint: Stint) -> dict[str, Any]:
        """Send; returns what became of it."""
        if stint.rate:
            raise ValueError("proton: sends as fast as it goes, --rate is not for it")
        window = _Window(self._order, stint)
        proton.reactor.Container(window).run()
        return outcome([window])


class _Window(proton.handlers.MessagingHandler):  # type: ignore[misc]
    """So many messages under way until the time is over; a sender as in ``pace``."""

    def __init__(self, order: dict[str, Any], stint: Stint) -> None:
        super().__init__(prefetch=stint.threads + 10, auto_settle=True)
        self.states = bytearray()
        self.latency = Histogram()
        self.errors = Errors()
        self.number = stint.sender if stint.sender >= 0 else -1
        self.ended = stint.at
        self._order = order
        self._calls = order["operation"] == "call"
        self._stint = stint
        self._payload = "x" * order["size"]
        self._until = stint.at + int(stint.seconds * 1e9) if stint.seconds else 1 << 63
        self._count = stint.count or 1 << 63
        self._sent: dict[int, int] = {}
        self._tags: dict[Any, int] = {}
        self._reply_to: str | None = None

    def on_start(self, event: Any) -> None:
        """Attach."""
        self._connection = event.container.connect(self._order["url"], reconnect=False)
        self._sender = event.container.create_sender(self._connection, self._order["topic"])
        if self._calls:
            event.container.create_receiver(self._connection, None, dynamic=True)

    def on_link_opened(self, event: Any) -> None:
        """The reply address is known."""
        if event.receiver:
            self._reply_to = event.receiver.remote_source.address
            self._fill()

    def on_sendable(self, event: Any) -> None:
        """There is credit."""
        self._fill()

    def on_message(self, event: Any) -> None:
        """A reply."""
        self._done(event.message.correlation_id, OK)

    def on_settled(self, event: Any) -> None:
        """A cast has its outcome; a call only if it was refused."""
        accepted = event.delivery.remote_state == proton.Delivery.ACCEPTED
        number = self._tags.pop(event.delivery.tag, None)
        if number is not None and not (self._calls and accepted):
            self._done(number, OK if accepted else FAILED)

    def on_transport_error(self, event: Any) -> None:
        """The bus has gone: nothing that is under way has an outcome."""
        self.errors.add(ConnectionError(str(event.transport.condition)))
        self._sent.clear()

    def _fill(self) -> None:
        if self._calls and self._reply_to is None:
            return
        while len(self._sent) < self._stint.threads and self._sender.credit > 0:
            now = time.monotonic_ns()
            number = len(self.states)
            if now >= self._until or number >= self._count:
                break
            body = {"i": self.number, "n": number, "t": now, "p": self._payload}
            message = proton.Message(id=number, reply_to=self._reply_to, body=json.dumps(body))
            self.states.append(FAILED)
            self._sent[number] = now
            self._tags[self._sender.send(message).tag] = number
        if not self._sent and self._over():
            self.ended = time.monotonic_ns()
            self._connection.close()

    def _over(self) -> bool:
        return time.monotonic_ns() >= self._until or len(self.states) >= self._count

    def _done(self, number: int, state: int) -> None:
        since = self._sent.pop(number, None)
        if since is None:
            return
        self.states[number] = state
        if state == OK:
            self.latency.add(time.monotonic_ns() - since)
        else:
            self.errors.add(RuntimeError("not accepted"))
        self._fill()
