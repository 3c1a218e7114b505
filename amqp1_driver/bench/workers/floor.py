# SPDX-License-Identifier: Apache-2.0

"""A driver that measures oslo.messaging's own cost: no bus, client and server in one process.

The driver works like oslo.messaging's fake driver, but without its polling. It checks that a
message can be serialised, and hands the message to the server's executor in the thread that sends.
"""

from __future__ import annotations

import queue
import time
from typing import Any

import oslo_messaging
from oslo_serialization import jsonutils

from . import messaging
from .load import Load


class Incoming:
    """A message as servers see it. Used on the threads of the server's executor."""

    client_timeout = None
    msg_id = None

    def __init__(self, ctxt: Any, message: Any, answers: queue.Queue[Any] | None) -> None:
        self.ctxt = ctxt
        self.message = message
        self._answers = answers

    def acknowledge(self) -> None:
        """Do nothing: there is no bus, no endpoint here requeues, and no caller has a timeout."""

    requeue = heartbeat = acknowledge

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Wake the caller with a reply or a failure; a cast has no caller."""
        if self._answers is not None:
            self._answers.put((reply, failure))


class Listener:
    """A listener without a thread: the sending thread calls ``on_incoming``."""

    def start(self, on_incoming: Any) -> None:
        """Hand messages to ``on_incoming`` from now on."""
        self.on_incoming = on_incoming

    def stop(self) -> None:
        """Do nothing: there is nothing to stop or to clean up."""

    cleanup = stop


class Driver:
    """The methods that transports call on a driver. Application threads."""

    def __init__(self, conf: Any) -> None:
        self.conf = conf
        self._listeners: list[Listener] = []

    def require_features(self, requeue: bool = False) -> None:
        """Do nothing: the driver has all features."""

    def send(
        self,
        target: Any,
        ctxt: Any,
        message: Any,
        wait_for_reply: bool | None = None,
        timeout: float | None = None,
        **_options: Any,
    ) -> Any:
        """Hand a message to all servers, as the fake driver does, and return a call's reply.

        :raises queue.Empty: no reply within ``timeout`` seconds
        """
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

    def send_notification(
        self, target: Any, ctxt: Any, message: Any, version: float, retry: int | None = None
    ) -> None:
        """Hand a notification to all servers, as the fake driver does."""
        self.send(target, ctxt, message)

    def listen(self, *_args: Any) -> Listener:
        """Add a server, and return its listener."""
        self._listeners.append(Listener())
        return self._listeners[-1]

    listen_for_notifications = listen

    def cleanup(self) -> None:
        """Do nothing: there is nothing to clean up."""


class _Server(messaging.Server):
    def make_transport(self, conf: Any) -> Any:
        if self.operation == "notify":
            return oslo_messaging.transport.NotificationTransport(Driver(conf))
        return oslo_messaging.transport.RPCTransport(Driver(conf))


class Client(messaging.Client):
    """The client, with the servers in the same process: their cost counts as the client's."""

    def make_transport(self, conf: Any) -> Any:
        """Start the servers, and return their transport."""
        self._copies = self.order["servers"] if self.operation == "fanout" else 1
        servers = [_Server(self.order, self.ledger) for _ in range(self._copies)]
        for server in servers:
            server.transport = servers[0].transport
            server.open()
        return servers[0].transport

    def work(self, load: Load) -> dict[str, Any]:
        """Send the messages of a load, and wait until the servers have received them.

        Wait no longer than the timeout that the benchmark's command gives.

        :returns: the outcome, as ``load.drive`` returns it
        """
        before = self.ledger.warm + self.ledger.received
        done = super().work(load)
        # casts may wait in the executor of the servers
        expected = before + done["sent"] * self._copies
        until = time.monotonic() + self.order["timeout"]
        while self.ledger.warm + self.ledger.received < expected and time.monotonic() < until:
            time.sleep(0.002)
        return done

    def report(self) -> dict[str, Any]:
        """Return the servers' ledger, with no cost of their own."""
        return {"cpu_us": 0.0, "switches": 0, "peak_kib": 0, **self.ledger.dump()}
