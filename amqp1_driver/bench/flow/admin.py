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

"""Declares, looks at, reads and deletes queues of RabbitMQ, over AMQP 1.0, without any driver.

Requests go to ``/management``, as RabbitMQ documents it: subject = method, to = path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import proton
import proton.handlers
import proton.reactor

from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.flow.plan import Queue
from amqp1_driver.bench.workers.copies import DIGITS
from amqp1_driver.bench.workers.ledger import Ledger

#: method, path, body
Request = tuple[str, str, Any]

#: section amqp-value with null: proton writes no body at all for None, and RabbitMQ wants one
_NULL = b"\x00\x53\x77\x40"
_WINDOW = 500
#: in the JSON of either driver, of which one has JSON within JSON
_SENDER = re.compile(rb'\\?"i\\?": ?(-?\d+)')
_NUMBER = re.compile(rb'\\?"n\\?": ?\\?"(\d{%d})' % DIGITS)


def declare(queue: Queue, exchange: str) -> list[Request]:
    """What makes a queue, with the binding that rabbit's driver needs."""
    requests: list[Request] = [("PUT", _path("queues", queue.name), {
        "durable": True, "exclusive": False, "auto_delete": False, "arguments": queue.arguments,
    })]  # fmt: skip
    if queue.key is not None:
        requests.append(("PUT", _path("exchanges", exchange), {
            "type": "topic", "durable": True, "auto_delete": False, "internal": False,
            "arguments": {},
        }))  # fmt: skip
        requests.append(("POST", "/bindings", {
            "source": exchange, "destination_queue": queue.name, "binding_key": queue.key,
            "arguments": {},
        }))  # fmt: skip
    return requests


def delete(queue: Queue) -> Request:
    """What deletes a queue with all that is in it."""
    return "DELETE", _path("queues", queue.name), None


def depth(url: str, queue: Queue, seconds: float) -> int:
    """How many messages wait in a queue."""
    (body,) = ask(url, [("GET", _path("queues", queue.name), None)], seconds)
    return int(body["message_count"])


def ask(url: str, requests: Sequence[Request], seconds: float) -> list[Any]:
    """The bodies of the responses; Trouble if there is an error among them."""
    client = _Asking(url, requests, seconds)
    client.run()
    return client.bodies


def read(url: str, queue: Queue, count: int, seconds: float) -> dict[str, str]:
    """Take so many messages out of a queue; packed counts of each sender's, as a server has them.

    :raises Trouble: they don't come in time
    """
    reader = _Reading(url, queue.name, count, seconds)
    if count:
        reader.run()
    marks: dict[str, str] = reader.ledger.dump()["marks"]
    return marks


def _path(kind: str, name: str) -> str:
    return f"/{kind}/{quote(name, safe='')}"


class _Client(proton.handlers.MessagingHandler):  # type: ignore[misc]
    """A connection until it has what it wants, or until it takes too long."""

    def __init__(self, url: str, seconds: float, prefetch: int) -> None:
        super().__init__(prefetch=prefetch, auto_settle=True)
        self.connection: Any = None
        self._url = url
        self._seconds = seconds
        self._timer: Any = None
        self._trouble: str | None = None

    def run(self) -> None:
        """Until it is done; Trouble if it fails."""
        proton.reactor.Container(self).run()
        if self._trouble is not None:
            raise Trouble(self._trouble)

    def on_start(self, event: Any) -> None:
        """Connect."""
        self._timer = event.container.schedule(self._seconds, self)
        self.connection = event.container.connect(self._url, reconnect=False)

    def on_timer_task(self, event: Any) -> None:
        """It is late."""
        self.finish(f"{self.doing()}: not done in {self._seconds:g} s")

    def finish(self, trouble: str | None = None) -> None:
        """Close; without trouble it was a success."""
        self._trouble = self._trouble or trouble
        self._timer.cancel()
        self.connection.close()

    def doing(self) -> str:
        """What it is at, for errors."""
        raise NotImplementedError

    def on_transport_error(self, event: Any) -> None:
        """The broker has gone, or lets nobody in."""
        self.finish(f"{self.doing()}: {event.transport.condition}")

    def on_link_error(self, event: Any) -> None:
        """Refused."""
        self.finish(f"{self.doing()}: {event.link.remote_condition}")

    def on_session_error(self, event: Any) -> None:
        """Refused."""
        self.finish(f"{self.doing()}: {event.session.remote_condition}")

    def on_connection_error(self, event: Any) -> None:
        """Refused."""
        self.finish(f"{self.doing()}: {event.connection.remote_condition}")


class _Pair(proton.reactor.LinkOption):  # type: ignore[misc]
    """One of the two links of a management client."""

    def apply(self, link: Any) -> None:
        """Set it up."""
        link.snd_settle_mode = proton.Link.SND_SETTLED
        link.properties = proton.PropertyDict({proton.symbol("paired"): True})


class _Asking(_Client):
    """One request after the other."""

    def __init__(self, url: str, requests: Sequence[Request], seconds: float) -> None:
        super().__init__(url, seconds, 10)
        self.bodies: list[Any] = []
        self._requests = list(requests)
        self._asked = False

    def doing(self) -> str:
        """The request."""
        method, path, _ = self._requests[min(len(self.bodies), len(self._requests) - 1)]
        return f"{method} {path}"

    def on_start(self, event: Any) -> None:
        """Both links of one name."""
        super().on_start(event)
        event.container.create_receiver(self.connection, "/management", target="$me", name="pair",
                                        options=_Pair())  # fmt: skip
        self._sender = event.container.create_sender(self.connection, "/management", source="$me",
                                                     name="pair", options=_Pair())  # fmt: skip

    def on_sendable(self, event: Any) -> None:
        """The first request."""
        if not self._asked:
            self._ask()

    def _ask(self) -> None:
        self._asked = True
        number = len(self.bodies)
        method, path, body = self._requests[number]
        message = proton.Message(id=str(number), address=path, subject=method, reply_to="$me")
        if body is None:
            data = message.encode() + _NULL
        else:
            message.body = body
            data = message.encode()
        delivery = self._sender.delivery(str(number))
        self._sender.stream(data)
        self._sender.advance()
        delivery.settle()

    def on_message(self, event: Any) -> None:
        """The response."""
        if not str(event.message.subject).startswith("2"):
            self.finish(f"{self.doing()}: {event.message.subject} {event.message.body!r}")
            return
        self.bodies.append(event.message.body)
        if len(self.bodies) < len(self._requests):
            self._ask()
        else:
            self.finish()


class _Reading(_Client):
    """Takes messages and looks for their numbers, without decoding them."""

    def __init__(self, url: str, name: str, count: int, seconds: float) -> None:
        super().__init__(url, seconds, 0)
        self.ledger = Ledger()
        self._name = name
        self._left = count

    def doing(self) -> str:
        """The queue."""
        return f"reading {self._name}, {self._left} messages left"

    def on_start(self, event: Any) -> None:
        """Read the queue."""
        super().on_start(event)
        receiver = event.container.create_receiver(self.connection, _path("queues", self._name))
        receiver.flow(min(_WINDOW, self._left))
        self._granted = min(_WINDOW, self._left)

    def on_delivery(self, event: Any) -> None:
        """A message."""
        delivery = event.delivery
        if not delivery.readable or delivery.partial:
            return
        data = delivery.link.recv(delivery.pending) or b""
        delivery.link.advance()
        delivery.update(proton.Delivery.ACCEPTED)
        delivery.settle()
        sender, number = _SENDER.search(data), _NUMBER.search(data)
        if sender is None or number is None:
            self.finish(f"{self._name} has a message that is none of ours")
            return
        self.ledger.note(int(sender[1]), int(number[1]), 0, 0)
        self._left -= 1
        self._granted -= 1
        if not self._left:
            self.finish()
        elif self._granted < min(self._left, _WINDOW // 2):
            more = min(_WINDOW, self._left) - self._granted
            delivery.link.flow(more)
            self._granted += more
