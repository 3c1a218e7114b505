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

"""Any driver of oslo.messaging, through the public interface, as a service uses it."""

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
from .pace import Stint, drive

quiet.before_import()

import oslo_messaging  # noqa: E402
from oslo_config import cfg  # noqa: E402

#: distributions that may be the one with the driver, or that it stands on
_DISTRIBUTIONS = ("oslo.messaging", "amqp1-driver", "python-qpid-proton", "pyngus", "kombu", "amqp")


def configuration(order: dict[str, Any]) -> Any:
    """A service's configuration; options are "group.name=value"."""
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
        # the global one, as services: oslo.messaging registers some of its options nowhere else
        conf = cfg.CONF
        conf(["--config-file", path], project="amqp1-bench", default_config_dirs=[])
    finally:
        os.unlink(path)
    return conf


def versions(transport: Any) -> dict[str, Any]:
    """Which driver it is, and the versions around it."""
    kind = type(transport._driver)
    found = {}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {"driver": f"{kind.__module__}.{kind.__qualname__}", "versions": found}


class Peer:
    """What clients and servers have in common. Main thread of a worker.

    :param order: the first one from the parent
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.operation: str = order["operation"]
        conf = configuration(order)
        self.transport = self.make_transport(conf)
        quiet.after_import()

    def make_transport(self, conf: Any) -> Any:
        """For RPC or notifications, by the transport URL."""
        if self.operation == "notify":
            return oslo_messaging.get_notification_transport(conf, url=self.order["url"])
        return oslo_messaging.get_rpc_transport(conf, url=self.order["url"])

    def about(self) -> dict[str, Any]:
        """What is measured."""
        return versions(self.transport)


class Endpoint:
    """What servers offer. Threads of the server's executor."""

    def __init__(self, ledger: Ledger, reply: str | None) -> None:
        self._ledger = ledger
        self._reply = reply

    def echo(self, ctxt: dict[str, Any], i: int, n: int, t: int, p: str) -> str:
        """A call: sender, number, time and payload, which goes back or is replaced."""
        self._ledger.note(i, n, t, time.monotonic_ns())
        return p if self._reply is None else self._reply

    def take(self, ctxt: dict[str, Any], i: int, n: int, t: int, p: str) -> None:
        """A cast, or a fanout cast."""
        self._ledger.note(i, n, t, time.monotonic_ns())

    def info(self, ctxt: dict[str, Any], publisher_id: str, event_type: str,
             payload: dict[str, Any], metadata: dict[str, Any]) -> None:  # fmt: skip
        """A notification."""
        self._ledger.note(payload["i"], payload["n"], payload["t"], time.monotonic_ns())


class Server(Peer):
    """One RPC server or notification listener."""

    def __init__(self, order: dict[str, Any], ledger: Ledger) -> None:
        super().__init__(order)
        reply = order["reply"]
        self._endpoint = Endpoint(ledger, None if reply is None else "r" * reply)
        self._server: Any = None

    def open(self) -> None:
        """Returns when the driver says that it listens."""
        topic = self.order["topic"]
        if self.operation == "notify":
            self._server = oslo_messaging.get_notification_listener(
                self.transport, [oslo_messaging.Target(topic=topic)], [self._endpoint]
            )
        else:
            target = oslo_messaging.Target(topic=topic, server=self.order["name"])
            self._server = oslo_messaging.get_rpc_server(
                self.transport, target, [self._endpoint]
            )
        self._server.start()

    def close(self) -> None:
        """Stops listening."""
        self._server.stop()
        self._server.wait()
        self.transport.cleanup()


class Client(Peer):
    """One process that sends, from any number of threads."""

    def open(self) -> None:
        """Nothing connects as yet."""
        self._payload = "x" * self.order["size"]
        target = oslo_messaging.Target(topic=self.order["topic"])
        if self.operation == "notify":
            self._refused = _Refused()
            self._notifier = oslo_messaging.Notifier(
                self.transport, publisher_id="bench", driver="messagingv2",
                topics=[self.order["topic"]],
            )  # fmt: skip
            return
        client = oslo_messaging.get_rpc_client(
            self.transport, target, timeout=self.order["timeout"]
        )
        self._client = client.prepare(fanout=True) if self.operation == "fanout" else client

    def work(self, stint: Stint) -> dict[str, Any]:
        """Send; returns what became of it."""
        return drive(stint, getattr(self, "_" + self.operation))

    def extra(self) -> dict[str, Any]:
        """Nothing more to report."""
        return {}

    def close(self) -> None:
        """Closes the connection."""
        self.transport.cleanup()

    def _call(self, sender: int, number: int, at: int) -> None:
        self._client.call({}, "echo", i=sender, n=number, t=at, p=self._payload)

    def _cast(self, sender: int, number: int, at: int) -> None:
        self._client.cast({}, "take", i=sender, n=number, t=at, p=self._payload)

    _fanout = _cast

    def _notify(self, sender: int, number: int, at: int) -> None:
        self._notifier.info(
            {}, "bench", {"i": sender, "n": number, "t": at, "p": self._payload}
        )
        self._refused.check()


class _Refused(logging.Handler):
    """oslo.messaging's notifier logs the errors of drivers, and raises none: raises them.

    The record is made in the thread that sends.
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
