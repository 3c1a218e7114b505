# SPDX-License-Identifier: Apache-2.0

"""The worker of ``bench-flow``: senders and a receiver on one transport, as fast as possible."""

from __future__ import annotations

import functools
import importlib
import time
from typing import Any

import oslo_messaging

from . import messaging
from .copies import DIGITS
from .ledger import Ledger
from .load import Load, drive, watched


class Endpoint:
    """An endpoint that counts casts. Threads of the server's executor."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def take(self, ctxt: dict[str, Any], i: int, n: str, t: int, p: str) -> None:
        """Count a cast, which has sender, number, time and payload."""
        self._ledger.note(i, int(n), t, time.monotonic_ns())


class Worker(messaging.Peer):
    """One process of a service, with one transport. Main thread of a worker."""

    def load(self, topic: str, source: str, queue: str, first: int, count: int) -> dict[str, Any]:
        """Fill a queue with copies of a cast that the driver sends.

        :param topic: the topic of the cast; its queue is ``source``, which must be empty
        :param queue: the queue to fill
        :param first: number of the first message
        """
        self._sender(topic)(0, 0, 0)
        url = self.order["url"]
        name = "amqp091" if url.startswith("rabbit") else "amqp10"
        client = importlib.import_module(f"{__package__}.{name}")
        client.load(url, source, queue, first, count, self.order["timeout"])
        return {}

    def send(self, at: int, seconds: float, senders: list[dict[str, Any]]) -> dict[str, Any]:
        """Run all senders at once, and count the messages that are received meanwhile.

        :param at: when to begin, monotonic nanoseconds
        :param senders: fields of each sender: ``name``, ``topic``, ``threads``, and ``first``: the
            number of its first thread
        :returns: as ``load.watched``
        """
        jobs = {
            sender["name"]: functools.partial(
                drive,
                Load(at, seconds, 0, sender["threads"], sender["first"]),
                self._sender(sender["topic"]),
            )
            for sender in senders
        }
        return watched(jobs, self.ledger, at, seconds)

    def listen(self, topic: str) -> dict[str, Any]:
        """Start to receive from a topic."""
        self._server = oslo_messaging.get_rpc_server(
            self.transport, self._target(topic), [Endpoint(self.ledger)]
        )
        self._server.start()
        return {}

    def hush(self) -> dict[str, Any]:
        """Stop receiving; return the ledger of the received messages."""
        self._server.stop()
        self._server.wait()
        return self.ledger.dump()

    def close(self) -> dict[str, Any]:
        """Close all connections."""
        self.transport.cleanup()
        return {}

    def _target(self, topic: str) -> Any:
        return oslo_messaging.Target(topic=topic, server=self.order["server"])

    def _sender(self, topic: str) -> Any:
        client = oslo_messaging.get_rpc_client(
            self.transport, self._target(topic), timeout=self.order["timeout"]
        )
        payload = "x" * self.order["size"]

        def send(sender: int, number: int, at: int) -> None:
            client.cast({}, "take", i=sender, n=f"{number:0{DIGITS}d}", t=at, p=payload)

        return send
