# SPDX-License-Identifier: Apache-2.0

"""Clients and servers on any oslo.messaging driver, by the public interface, as in a service."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import tempfile
import threading
import time
from typing import Any

from . import quiet
from .ledger import Ledger
from .load import Load, drive
from .payload import payload
from .worker import Worker

quiet.before_import()

import oslo_messaging  # noqa: E402
from oslo_config import cfg  # noqa: E402

#: distributions that may contain the driver, or that drivers depend on
_DISTRIBUTIONS = ("oslo.messaging", "amqp1-driver", "python-qpid-proton", "pyngus", "kombu", "amqp")


def configuration(order: dict[str, Any]) -> Any:
    """Return a service's configuration.

    :param order: its ``options`` are texts "group.name=value"
    """
    sections: dict[str, list[str]] = {
        "DEFAULT": [
            f"control_exchange = {order['exchange']}",
            f"executor_thread_pool_size = {order['executor']}",
            f"rpc_response_timeout = {order['timeout']:.0f}",
        ]
    }
    for option in order["options"]:
        name, _, value = option.partition("=")
        group, _, name = name.strip().rpartition(".")
        sections.setdefault(group or "DEFAULT", []).append(f"{name} = {value.strip()}")
    text = "".join(f"[{group}]\n" + "\n".join(lines) + "\n" for group, lines in sections.items())
    descriptor, path = tempfile.mkstemp(prefix="amqp1-bench-", suffix=".conf")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        # the global object, as in services: oslo.messaging registers some options nowhere else
        conf = cfg.CONF
        conf(["--config-file", path], project="amqp1-bench", default_config_dirs=[])
    finally:
        os.unlink(path)
    return conf


class Peer(Worker):
    """A worker with a transport of oslo.messaging.

    :param order: the first order from the parent
    :param ledger: as for ``Worker``
    """

    def __init__(self, order: dict[str, Any], ledger: Ledger | None = None) -> None:
        super().__init__(order, ledger)
        self.operation: str = order["operation"]
        self.transport = self.make_transport(configuration(order))
        quiet.after_import()

    def make_transport(self, conf: Any) -> Any:
        """Return a transport for RPC or notifications, at the URL of the order."""
        if self.operation == "notify":
            return oslo_messaging.get_notification_transport(conf, url=self.order["url"])
        return oslo_messaging.get_rpc_transport(conf, url=self.order["url"])

    def about(self) -> dict[str, Any]:
        """Return the class of the driver, and the versions of the distributions around it."""
        kind = type(self.transport._driver)
        found = {}
        for name in _DISTRIBUTIONS:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
        return {"driver": f"{kind.__module__}.{kind.__qualname__}", "versions": found}


class Endpoint:
    """The endpoint of servers and listeners. Threads of the server's executor."""

    def __init__(self, ledger: Ledger, reply: str | None) -> None:
        self._ledger = ledger
        self._reply = reply

    def echo(self, ctxt: dict[str, Any], i: int, n: int, t: int, p: Any) -> Any:
        """Count a call; return its payload ``p``, or the reply of the size that was ordered."""
        self._ledger.note(i, n, t, time.monotonic_ns())
        return p if self._reply is None else self._reply

    def take(self, ctxt: dict[str, Any], i: int, n: int, t: int, p: Any) -> None:
        """Count a cast, or a fanout cast."""
        self._ledger.note(i, n, t, time.monotonic_ns())

    def info(
        self,
        ctxt: dict[str, Any],
        publisher_id: str,
        event_type: str,
        payload: dict[str, Any],
        metadata: dict[str, Any],
    ) -> None:
        """Count a notification."""
        self._ledger.note(payload["i"], payload["n"], payload["t"], time.monotonic_ns())


class Server(Peer):
    """One RPC server or notification listener."""

    def open(self) -> None:
        """Start the server; return when the driver reports that it listens."""
        topic, reply = self.order["topic"], self.order["reply"]
        endpoints = [Endpoint(self.ledger, None if reply is None else "r" * reply)]
        if self.operation == "notify":
            self._server = oslo_messaging.get_notification_listener(
                self.transport, [oslo_messaging.Target(topic=topic)], endpoints
            )
        else:
            target = oslo_messaging.Target(topic=topic, server=self.order["name"])
            self._server = oslo_messaging.get_rpc_server(self.transport, target, endpoints)
        self._server.start()

    def end(self) -> None:
        """Stop listening, and close the connection."""
        self._server.stop()
        self._server.wait()
        self.transport.cleanup()


class Client(Peer):
    """One process that sends, from any number of threads."""

    def open(self) -> None:
        """Make the RPC client or the notifier; neither connects yet."""
        kind = self.order.get("payload", "bytes")
        self._ctxt, self._payload = payload(kind, self.order["size"])
        target = oslo_messaging.Target(topic=self.order["topic"])
        if self.operation == "notify":
            self._refused = _Refused()
            self._notifier = oslo_messaging.Notifier(
                self.transport,
                publisher_id="bench",
                driver="messagingv2",
                topics=[self.order["topic"]],
            )
            return
        client = oslo_messaging.get_rpc_client(
            self.transport, target, timeout=self.order["timeout"]
        )
        self._client = client.prepare(fanout=True) if self.operation == "fanout" else client

    def work(self, load: Load) -> dict[str, Any]:
        """Send; return the outcome as ``load.drive`` does."""
        return drive(load, getattr(self, "_" + self.operation))

    def end(self) -> None:
        """Close the connection."""
        self.transport.cleanup()

    def _call(self, sender: int, number: int, at: int) -> None:
        self._client.call(self._ctxt, "echo", i=sender, n=number, t=at, p=self._payload)

    def _cast(self, sender: int, number: int, at: int) -> None:
        self._client.cast(self._ctxt, "take", i=sender, n=number, t=at, p=self._payload)

    _fanout = _cast

    def _notify(self, sender: int, number: int, at: int) -> None:
        info = {"i": sender, "n": number, "t": at, "p": self._payload}
        self._notifier.info(self._ctxt, "bench", info)
        self._refused.check()


class _Refused(logging.Handler):
    """A log handler that keeps errors of drivers, which oslo.messaging's notifier does not raise.

    The notifier logs such an error on the thread that sends; ``check`` raises it there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._local = threading.local()
        logger = logging.getLogger("oslo_messaging.notify.messaging")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the error for the thread that sent."""
        self._local.error = record.exc_info[1] if record.exc_info else None

    def check(self) -> None:
        """Raise the error of this thread's last message, if it has one."""
        error = getattr(self._local, "error", None)
        if error is not None:
            self._local.error = None
            raise error
