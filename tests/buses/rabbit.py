# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ nodes for tests: rabbitmqctl, its management over AMQP, and the events it tells."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import oslo_messaging as om
from proton import Message, symbol
from proton.reactor import LinkOption
from proton.utils import BlockingConnection

from amqp1_driver import codec
from tests.bars.rabbitmq import RabbitMQ
from tests.bars.support import Transports

_TOOL = Path(__file__).resolve().parents[2] / "tools" / "rabbitmq.sh"
WAIT = 20.0
#: exchanges that every virtual host has
BUILT_IN = {
    "",
    "amq.direct",
    "amq.fanout",
    "amq.headers",
    "amq.match",
    "amq.topic",
    "amq.rabbitmq.trace",
    "amq.rabbitmq.log",
    "amq.rabbitmq.event",
}


class Node(RabbitMQ):
    """A node that tells its events on the exchange amq.rabbitmq.event."""

    def _run(self, *arguments: str, timeout: float) -> str:
        before = os.environ.get("RMQ_PLUGINS")
        os.environ["RMQ_PLUGINS"] = "rabbitmq_event_exchange"
        try:
            return super()._run(*arguments, timeout=timeout)
        finally:
            if before is None:
                del os.environ["RMQ_PLUGINS"]
            else:
                os.environ["RMQ_PLUGINS"] = before

    def ctl(self, *arguments: str) -> str:
        """rabbitmqctl."""
        done = subprocess.run(
            ["bash", str(_TOOL), "ctl", self.suite, str(self.port), "-q", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"rabbitmqctl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def listed(self, what: str, *columns: str, vhost: str = "/") -> list[list[str]]:
        """Rows of ``list_queues`` and the like."""
        out = self.ctl("--no-table-headers", what, "-p", vhost, *columns)
        return [line.split("\t") for line in out.splitlines()]

    def holds(self) -> tuple[set[str], set[str], set[str]]:
        """Names of queues, of exchanges that are not built in, and of bound queues."""
        with ThreadPoolExecutor(3) as pool:
            queues = pool.submit(self.listed, "list_queues", "name")
            exchanges = pool.submit(self.listed, "list_exchanges", "name")
            bindings = pool.submit(self.listed, "list_bindings", "source_name", "destination_name")
        return (
            {row[0] for row in queues.result()},
            {row[0] for row in exchanges.result()} - BUILT_IN,
            {row[1] for row in bindings.result() if row[0]},
        )


class _Paired(LinkOption):
    """RabbitMQ's management wants its two links so."""

    def apply(self, link: Any) -> None:
        link.properties = {symbol("paired"): True}
        link.snd_settle_mode = 1
        terminus = link.source if link.is_sender else link.target
        terminus.address = "$me"


class _Raw:
    """A message as bytes: proton writes no body for None, which RabbitMQ does not take."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def send(self, sender: Any, tag: Any = None) -> Any:
        delivery = sender.delivery(tag or sender.delivery_tag())
        sender.stream(self._data)
        sender.advance()
        delivery.settle()
        return delivery


def plain_client(node: RabbitMQ) -> BlockingConnection:
    """Connect with proton's own client."""
    return BlockingConnection(
        f"127.0.0.1:{node.port}",
        timeout=WAIT,
        user="guest",
        password="guest",
        sasl_enabled=True,
        allowed_mechs="PLAIN",
    )


class Management:
    """Asks the node's management over AMQP. A context manager."""

    def __init__(self, node: RabbitMQ) -> None:
        self.connection = plain_client(node)
        self._receiver = self.connection.create_receiver(
            "/management", name="management", credit=100, options=_Paired()
        )
        self._sender = self.connection.create_sender(
            "/management", name="management", options=_Paired()
        )

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[str, Any]:
        self._sender.send(
            _Raw(
                bytes(
                    codec.encode_message(
                        body, message_id="1", to=path, subject=method, reply_to="$me"
                    )
                )
            )
        )
        answer: Message = self._receiver.receive(timeout=WAIT)
        return answer.subject, answer.body

    def declare(self, name: str, exclusive: bool = False, **arguments: Any) -> str:
        """A queue; arguments with underscores for dashes."""
        status, _ = self(
            "PUT",
            f"/queues/{quoted(name)}",
            {
                "durable": not exclusive,
                "exclusive": exclusive,
                "auto_delete": False,
                "arguments": {key.replace("_", "-"): value for key, value in arguments.items()},
            },
        )
        return status

    def delete(self, name: str) -> None:
        assert self("DELETE", f"/queues/{quoted(name)}")[0] == "200"

    def queue(self, name: str) -> dict[str, Any]:
        """What the node says of it; empty if there is no such queue."""
        status, body = self("GET", f"/queues/{quoted(name)}")
        return dict(body) if status == "200" else {}

    def __enter__(self) -> Management:
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()


class Events(Management):
    """What the node tells of one kind, for example ``queue.deleted``. A context manager."""

    def __init__(self, node: RabbitMQ, kind: str) -> None:
        super().__init__(node)
        self.declare("events", exclusive=True)
        self(
            "POST",
            "/bindings",
            {
                "source": "amq.rabbitmq.event",
                "destination_queue": "events",
                "binding_key": kind,
                "arguments": {},
            },
        )
        self._events = self.connection.create_receiver("/queues/events", credit=100)

    def wait_for(self, names: set[str]) -> None:
        """Until the node has told it of all of these."""
        missing = set(names)
        while missing:
            message = self._events.receive(timeout=WAIT)
            self._events.accept()
            missing.discard((message.properties or {}).get("name"))


def quoted(name: str) -> str:
    return name.replace("%", "%25").replace(":", "%3A")


class Apps:
    """Servers, clients, listeners and notifiers, each with a transport of its own."""

    def __init__(self, node: RabbitMQ, transports: Transports, **settings: Any) -> None:
        self.node = node
        self.transports = transports
        self.settings = settings

    def server(self, topic: str, endpoint: Any, name: str = "s", **settings: Any) -> Any:
        server = om.get_rpc_server(
            self.transports.rpc(self.node.url(), **(self.settings | settings)),
            om.Target(exchange="tests", topic=topic, server=name),
            [endpoint],
            executor="threading",
        )
        server.start()
        self.transports._servers.append(server)
        return server

    def client(
        self, topic: str, timeout: float = WAIT, retry: int | None = None, **settings: Any
    ) -> Any:
        return om.get_rpc_client(
            self.transports.rpc(self.node.url(), **(self.settings | settings)),
            om.Target(exchange="tests", topic=topic),
            timeout=timeout,
            retry=retry,
        )

    def listener(
        self,
        topic: str,
        endpoint: Any,
        pool: str | None = None,
        allow_requeue: bool = False,
        **settings: Any,
    ) -> Any:
        listener = om.get_notification_listener(
            self.transports.notification(self.node.url(), **(self.settings | settings)),
            [om.Target(exchange="tests", topic=topic)],
            [endpoint],
            executor="threading",
            pool=pool,
            allow_requeue=allow_requeue,
        )
        listener.start()
        self.transports._servers.append(listener)
        return listener

    def notifier(self, topic: str, retry: int = -1, **settings: Any) -> Any:
        return om.Notifier(
            self.transports.notification(
                self.node.url(), default_notification_exchange="tests", **(self.settings | settings)
            ),
            publisher_id="p",
            driver="messaging",
            topics=[topic],
            retry=retry,
        )
