# SPDX-License-Identifier: Apache-2.0

"""Proton's own Python handlers, without oslo.messaging: calls and unsettled casts.

A client has one thread; its number of "threads" is the number of messages under way at once.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import proton
import proton.handlers
import proton.reactor

from .ledger import FAILED, OK
from .load import Load, Record, outcome
from .payload import payload
from .worker import Worker


class _Raw(Worker):
    driver = "proton.handlers.MessagingHandler"
    distributions = ("python-qpid-proton",)


class Server(_Raw, proton.handlers.MessagingHandler):  # type: ignore[misc]
    """A receiver that answers calls."""

    def __init__(self, order: dict[str, Any]) -> None:
        _Raw.__init__(self, order)
        proton.handlers.MessagingHandler.__init__(self, prefetch=100)
        self._answers = order["operation"] == "call"
        self._senders: dict[str, Any] = {}
        self._opened = threading.Event()

    def open(self) -> None:
        """Start the container's thread; return when the bus has attached the link.

        :raises RuntimeError: the bus does not attach the link in time
        """
        container = proton.reactor.Container(self)
        threading.Thread(target=container.run, daemon=True).start()
        if not self._opened.wait(self.order["timeout"]):
            raise RuntimeError(f"the bus does not attach {self.order['topic']}")

    def on_start(self, event: Any) -> None:
        """Connect, and attach a receiver."""
        self._connection = event.container.connect(self.order["url"], reconnect=False)
        self._container = event.container
        event.container.create_receiver(self._connection, self.order["topic"])

    def on_link_opened(self, event: Any) -> None:
        """Let ``open`` return: the receiver is attached."""
        if event.receiver:
            self._opened.set()

    def on_message(self, event: Any) -> None:
        """Count a message; send a call's body back as the reply."""
        message = event.message
        body = json.loads(message.body)
        self.ledger.note(body["i"], body["n"], body["t"], time.monotonic_ns())
        if not self._answers:
            return
        to = message.reply_to
        sender = self._senders.get(to)
        if sender is None:
            sender = self._senders[to] = self._container.create_sender(self._connection, to)
        sender.send(proton.Message(address=to, correlation_id=message.id, body=message.body))


class Client(_Raw):
    """A sender with a new connection for each load."""

    def work(self, load: Load) -> dict[str, Any]:
        """Send; return the outcome as ``load.drive`` does.

        :raises ValueError: the load has a rate
        """
        if load.rate:
            raise ValueError("proton: sends as fast as it goes, --rate is not for it")
        window = _Window(self.order, load)
        proton.reactor.Container(window).run()
        return outcome([window])


class _Window(Record, proton.handlers.MessagingHandler):  # type: ignore[misc]
    """A sender that keeps ``threads`` messages under way until the time is over."""

    def __init__(self, order: dict[str, Any], load: Load) -> None:
        Record.__init__(self, max(load.sender, -1), load.at)
        proton.handlers.MessagingHandler.__init__(
            self, prefetch=load.threads + 10, auto_settle=True
        )
        self._order = order
        self._calls = order["operation"] == "call"
        self._load = load
        ctxt, value = payload(order.get("payload", "bytes"), order["size"])
        self._payload = [ctxt, value] if ctxt else value
        self._until = load.at + int(load.seconds * 1e9) if load.seconds else 1 << 63
        self._count = load.count or 1 << 63
        self._sent: dict[int, int] = {}
        self._tags: dict[Any, int] = {}
        self._reply_to: str | None = None

    def on_start(self, event: Any) -> None:
        """Connect; attach a sender, and for calls a receiver with a dynamic address."""
        self._connection = event.container.connect(self._order["url"], reconnect=False)
        self._sender = event.container.create_sender(self._connection, self._order["topic"])
        if self._calls:
            event.container.create_receiver(self._connection, None, dynamic=True)

    def on_link_opened(self, event: Any) -> None:
        """Keep the address for replies, and begin to send."""
        if event.receiver:
            self._reply_to = event.receiver.remote_source.address
            self._fill()

    def on_sendable(self, event: Any) -> None:
        """Send: there is credit."""
        self._fill()

    def on_message(self, event: Any) -> None:
        """Complete the call that this message answers."""
        self._done(event.message.correlation_id, OK)

    def on_settled(self, event: Any) -> None:
        """Complete a cast with its outcome; complete a call only if it was refused."""
        accepted = event.delivery.remote_state == proton.Delivery.ACCEPTED
        number = self._tags.pop(event.delivery.tag, None)
        if number is not None and not (self._calls and accepted):
            self._done(number, OK if accepted else FAILED)

    def on_transport_error(self, event: Any) -> None:
        """Record the error: the connection is lost, and messages under way get no outcome."""
        self.errors.add(ConnectionError(str(event.transport.condition)))
        self._sent.clear()

    def _fill(self) -> None:
        if self._calls and self._reply_to is None:
            return
        while len(self._sent) < self._load.threads and self._sender.credit > 0:
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
