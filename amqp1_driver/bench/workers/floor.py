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

"""oslo.messaging's own cost: no bus, no polling, client and server in one process.

What its fake driver does, but for the polling: it checks that a message can be serialised, and
hands it over to the server's executor in the thread that sends.
"""

from __future__ import annotations

import queue
import time
from typing import Any

import oslo_messaging
from oslo_serialization import jsonutils

from . import messaging
from .ledger import Ledger
from .pace import Stint


class Incoming:
    """A message as servers see it. Threads of the server's executor."""

    client_timeout = None
    msg_id = None

    def __init__(self, ctxt: Any, message: Any, answers: queue.Queue[Any] | None) -> None:
        self.ctxt = ctxt
        self.message = message
        self._answers = answers

    def acknowledge(self) -> None:
        """Nobody waits for it."""

    def requeue(self) -> None:
        """Not asked for here."""

    def heartbeat(self) -> None:
        """Not asked for here."""

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Wake the caller."""
        if self._answers is not None:
            self._answers.put((reply, failure))


class Listener:
    """Calls back; no thread of its own."""

    def start(self, on_incoming: Any) -> None:
        """From now on messages are handed to that."""
        self.on_incoming = on_incoming

    def stop(self) -> None:
        """Nothing to stop."""

    def cleanup(self) -> None:
        """Nothing to clean up."""


class Driver:
    """What transports ask of a driver. Application threads."""

    def __init__(self, conf: Any) -> None:
        self.conf = conf
        self._listeners: list[Listener] = []

    def require_features(self, requeue: bool = False) -> None:
        """All there are."""

    def send(self, target: Any, ctxt: Any, message: Any, wait_for_reply: bool | None = None,
             timeout: float | None = None, **_options: Any) -> Any:  # fmt: skip
        """As the fake driver."""
        jsonutils.dumps(message)
        answers: queue.Queue[Any] | None = queue.Queue() if wait_for_reply else None
        for listener in self._listeners:
            listener.on_incoming([Incoming(ctxt, message, answers)])
        if answers is None:
            return None
        reply, failure = answers.get(timeout=timeout)
        if failure is not None:
            raise failure[1]
        return reply

    def send_notification(self, target: Any, ctxt: Any, message: Any, version: float,
                          retry: int | None = None) -> None:  # fmt: skip
        """As the fake driver."""
        self.send(target, ctxt, message)

    def listen(self, *_args: Any) -> Listener:
        """One more server."""
        self._listeners.append(Listener())
        return self._listeners[-1]

    listen_for_notifications = listen

    def cleanup(self) -> None:
        """Nothing to clean up."""


class _Server(messaging.Server):
    def make_transport(self, conf: Any) -> Any:
        if self.operation == "notify":
            return oslo_messaging.transport.NotificationTransport(Driver(conf))
        return oslo_messaging.transport.RPCTransport(Driver(conf))


class Client(messaging.Client):
    """The client, and the servers in the same process: their cost counts as the client's."""

    def make_transport(self, conf: Any) -> Any:
        """That of the servers."""
        self._ledger = Ledger()
        self._copies = self.order["servers"] if self.operation == "fanout" else 1
        self._server = _Server(self.order, self._ledger)
        self._server.open()
        for _ in range(1, self._copies):
            more = _Server(self.order, self._ledger)
            more.transport = self._server.transport
            more.open()
        return self._server.transport

    def work(self, stint: Stint) -> dict[str, Any]:
        """Send; returns what became of it."""
        before = self._ledger.warm + self._ledger.received
        done = super().work(stint)
        # casts may wait in the executor of the servers
        expected = before + done["sent"] * self._copies
        until = time.monotonic() + self.order["timeout"]
        while self._ledger.warm + self._ledger.received < expected and time.monotonic() < until:
            time.sleep(0.002)
        return done

    def extra(self) -> dict[str, Any]:
        """What the servers report elsewhere."""
        return {"warm": self._ledger.warm, "served": self._ledger.dump()}
