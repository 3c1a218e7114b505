# SPDX-License-Identifier: Apache-2.0

"""Several senders and a receiver on one transport, each as fast as possible. See ``steps``."""

from __future__ import annotations

import importlib
import threading
import time
from typing import Any

import oslo_messaging

from . import messaging, usage
from .copies import DIGITS
from .ledger import Ledger
from .load import Load, drive, sleep_until


class Endpoint:
    """An endpoint that counts casts. Threads of the server's executor."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def take(self, ctxt: dict[str, Any], i: int, n: str, t: int, p: str) -> None:
        """Count a cast, which has sender, number, time and payload."""
        self._ledger.note(i, int(n), t, time.monotonic_ns())


class Worker:
    """One process of a service, with one transport. Main thread of a worker.

    :param order: the first order from the parent
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        conf = messaging.configuration(order)
        self._transport = oslo_messaging.get_rpc_transport(conf, url=order["url"])
        self._payload = "x" * order["size"]
        self._ledger = Ledger()
        self._server: Any = None

    def about(self) -> dict[str, Any]:
        """Return the driver that is measured, and the versions of its libraries."""
        return messaging.versions(self._transport)

    def load(self, topic: str, source: str, queue: str, first: int, count: int) -> dict[str, Any]:
        """Fill a queue with copies of a cast that the driver sends.

        :param topic: the topic of the cast; its queue is ``source``, which must be empty
        :param queue: the queue to fill
        :param first: number of the first message
        """
        self._sender(topic)(0, 0, 0)
        name = "load_" + self._order["url"].partition(":")[0].partition("+")[0]
        kind = importlib.import_module(f"{__package__}.{name}")
        kind.load(self._order["url"], source, queue, first, count, self._order["timeout"])
        return {}

    def send(self, at: int, seconds: float, senders: list[dict[str, Any]]) -> dict[str, Any]:
        """Run all senders at once, and count the messages that are received meanwhile.

        :param at: when to begin, monotonic nanoseconds
        :param senders: fields of each sender: ``name``, ``topic``, ``threads``, and ``first``: the
            number of its first thread
        :returns: ``senders``: outcomes by name; ``received``: number of messages; ``busy``:
            processor time of this process in relation to ``seconds``
        """
        found: dict[str, Any] = {}
        groups = [
            threading.Thread(target=self._group, args=(sender, at, seconds, found), daemon=True)
            for sender in senders
        ]
        for group in groups:
            group.start()
        before, used = self._count(at), usage.own()
        after = self._count(at + int(seconds * 1e9))
        cpu = usage.own().since(used).cpu_us
        for group in groups:
            group.join()
        return {"senders": found, "received": after - before, "busy": cpu / 1e6 / seconds}

    def listen(self, topic: str) -> dict[str, Any]:
        """Start to receive from a topic."""
        target = oslo_messaging.Target(topic=topic, server=self._order["server"])
        self._server = oslo_messaging.get_rpc_server(
            self._transport, target, [Endpoint(self._ledger)]
        )
        self._server.start()
        return {}

    def hush(self) -> dict[str, Any]:
        """Stop receiving; return the ledger of the received messages."""
        self._server.stop()
        self._server.wait()
        return self._ledger.dump()

    def close(self) -> dict[str, Any]:
        """Close all connections."""
        self._transport.cleanup()
        return {}

    def _group(
        self, sender: dict[str, Any], at: int, seconds: float, found: dict[str, Any]
    ) -> None:
        load = Load(at, seconds, 0, sender["threads"], sender["first"])
        found[sender["name"]] = drive(load, self._sender(sender["topic"]))

    def _sender(self, topic: str) -> Any:
        target = oslo_messaging.Target(topic=topic, server=self._order["server"])
        client = oslo_messaging.get_rpc_client(
            self._transport, target, timeout=self._order["timeout"]
        )
        payload = self._payload

        def send(sender: int, number: int, at: int) -> None:
            client.cast({}, "take", i=sender, n=f"{number:0{DIGITS}d}", t=at, p=payload)

        return send

    def _count(self, at: int) -> int:
        """Wait until ``at``; return how many messages have been received by then."""
        sleep_until(at)
        return self._ledger.received
