# SPDX-License-Identifier: Apache-2.0

"""An application as the tests of the contract have it: oslo.messaging's public API and no more."""

from __future__ import annotations

import concurrent.futures
import json
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import oslo_messaging
from oslo_config import cfg

from amqp1_driver import options
from amqp1_driver.testing import reactions
from amqp1_driver.testing.messages import Message, Properties
from amqp1_driver.testing.peer import Event, Link, ScriptedPeer

GROUP = "oslo_messaging_amqp"
#: no wait of a test is longer, seconds
PATIENCE = 10.0
#: what a busy machine may add to a deadline, seconds
SLACK = 0.5

#: short pauses, so that nothing takes long; the defaults of the driver have tests of their own
QUICK: dict[str, Any] = {
    "connection_retry_interval": 0.01,
    "connection_retry_interval_max": 0.05,
    "link_retry_delay": 0.1,
    "host_selection": "ordered",
}


class App:
    """A process's use of oslo.messaging: a ConfigOpts of its own, transports, servers, listeners.

    :param url: of the bus, for transports that are given no other
    :param settings: options of the group oslo_messaging_amqp
    """

    def __init__(self, url: str, **settings: Any) -> None:
        self.url = url
        self.conf = cfg.ConfigOpts()
        self.conf([], project="contract", default_config_files=[])
        options.register_opts(self.conf)
        for name, value in {**QUICK, **settings}.items():
            self.conf.set_override(name, value, group=GROUP)
        self._transports: list[Any] = []
        self._servers: list[Any] = []
        self._pool = concurrent.futures.ThreadPoolExecutor(64, "application")

    def set(self, **settings: Any) -> None:
        for name, value in settings.items():
            self.conf.set_override(name, value, group=GROUP)

    def transport(self, url: str | None = None, **more: Any) -> Any:
        transport = oslo_messaging.get_rpc_transport(self.conf, url=url or self.url, **more)
        self._transports.append(transport)
        return transport

    def notification_transport(self, url: str | None = None) -> Any:
        transport = oslo_messaging.get_notification_transport(self.conf, url=url or self.url)
        self._transports.append(transport)
        return transport

    def client(self, topic: str = "topic", transport: Any = None, **more: Any) -> Any:
        target = oslo_messaging.Target(
            topic=topic,
            **{name: more.pop(name) for name in ("exchange", "server", "fanout") if name in more},
        )
        more.setdefault("timeout", PATIENCE)
        return oslo_messaging.get_rpc_client(transport or self.transport(), target, **more)

    def server(
        self,
        *endpoints: Any,
        topic: str = "topic",
        server: str = "server",
        transport: Any = None,
        exchange: str | None = None,
    ) -> Any:
        # its executor has many threads: endpoints see concurrent messages in any order
        target = oslo_messaging.Target(topic=topic, server=server, exchange=exchange)
        found = oslo_messaging.get_rpc_server(
            transport or self.transport(), target, list(endpoints), executor="threading"
        )
        found.start()
        self._servers.append(found)
        return found

    def notifier(
        self, topic: str = "events", driver: str = "messagingv2", transport: Any = None, **more: Any
    ) -> Any:
        return oslo_messaging.Notifier(
            transport or self.notification_transport(),
            "publisher",
            driver=driver,
            topics=[topic],
            **more,
        )

    def listener(
        self,
        *endpoints: Any,
        topic: str = "events",
        exchange: str | None = None,
        pool: str | None = None,
        transport: Any = None,
        batch: int = 0,
        batch_timeout: float | None = None,
        requeue: bool = False,
    ) -> Any:
        targets = [oslo_messaging.Target(topic=topic, exchange=exchange)]
        transport = transport or self.notification_transport()
        if batch:
            found = oslo_messaging.get_batch_notification_listener(
                transport,
                targets,
                list(endpoints),
                executor="threading",
                pool=pool,
                allow_requeue=requeue,
                batch_size=batch,
                batch_timeout=batch_timeout,
            )
        else:
            found = oslo_messaging.get_notification_listener(
                transport,
                targets,
                list(endpoints),
                executor="threading",
                pool=pool,
                allow_requeue=requeue,
            )
        found.start()
        self._servers.append(found)
        return found

    def notify(
        self,
        payload: Any = None,
        ctxt: Any = None,
        *,
        topic: str = "events",
        priority: str = "info",
        version: float = 2.0,
        retry: int | None = None,
        transport: Any = None,
    ) -> None:
        """What a Notifier does, but that one logs errors and takes most out of the context."""
        message = {
            "publisher_id": "publisher",
            "event_type": "kind",
            "message_id": "1",
            "timestamp": "2026-01-01 00:00:00",
            "priority": priority.upper(),
            "payload": payload,
        }
        transport = transport or self.notification_transport()
        transport._send_notification(
            oslo_messaging.Target(topic=f"{topic}.{priority}"),
            {} if ctxt is None else ctxt,
            message,
            version=version,
            retry=retry,
        )

    def later(self, fn: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """A future for what ``fn`` returns, run in a thread of the application."""
        return self._pool.submit(fn, *args, **more)

    def close_servers(self) -> None:
        for server in self._servers:
            server.stop()
        for server in self._servers:
            server.wait()
        self._servers.clear()

    def close(self) -> None:
        self.close_servers()
        for transport in self._transports:
            transport.cleanup()
        self._transports.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Endpoint:
    """An RPC endpoint; ``seen`` gets every request, ``gate`` lets ``wait`` end."""

    def __init__(self) -> None:
        self.seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.contexts: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.gate = threading.Event()

    def echo(self, ctxt: Any, value: Any = None) -> Any:
        self.contexts.put(ctxt)
        self.seen.put(value)
        return value

    def wait(self, ctxt: Any, value: Any = None) -> Any:
        self.seen.put(value)
        self.gate.wait(PATIENCE)
        return value

    def fail(self, ctxt: Any) -> Any:
        raise OwnError("it went wrong")

    @oslo_messaging.expected_exceptions(KeyError)
    def expected(self, ctxt: Any) -> Any:
        """Not logged by the server: pytest would keep the record, and all that it refers to."""
        raise OwnKeyError("as expected")

    def take(self, timeout: float = PATIENCE) -> Any:
        """The next request, queue.Empty if there is none in time."""
        return self.seen.get(timeout=timeout)


class OwnError(Exception):
    """An exception of an application."""


class OwnKeyError(KeyError):
    """An exception that a method announces."""


class Unspeakable:
    """JSON can't carry it, and who tries learns of this error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def items(self) -> Any:
        raise self._error

    __iter__ = items


class Events:
    """A notification endpoint for the priorities info and error."""

    def __init__(self, result: Callable[[Any], Any] = lambda payload: None) -> None:
        self.seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._result = result

    def info(self, ctxt: Any, publisher: Any, kind: Any, payload: Any, metadata: Any) -> Any:
        self.seen.put(payload)
        return self._result(payload)

    def error(self, ctxt: Any, publisher: Any, kind: Any, payload: Any, metadata: Any) -> Any:
        self.seen.put(("error", payload))
        return self._result(payload)

    def take(self, timeout: float = PATIENCE) -> Any:
        return self.seen.get(timeout=timeout)


class Batches:
    """A batch endpoint for the priority info."""

    def __init__(self) -> None:
        self.seen: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def info(self, messages: list[Any]) -> Any:
        self.seen.put([message["payload"] for message in messages])

    def take(self) -> Any:
        return self.seen.get(timeout=PATIENCE)


class LogWatch(logging.Handler):
    """What the driver logs; ``wait`` for it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._records: list[tuple[int, str]] = []
        self._changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            self._records.append((record.levelno, record.getMessage()))
            self._changed.notify_all()

    def said(self, text: str = "", level: int = logging.ERROR) -> list[str]:
        """Messages of that level or above with the text in them."""
        return [message for at, message in list(self._records) if at >= level and text in message]

    def wait(self, text: str = "", level: int = logging.ERROR, count: int = 1) -> list[str]:
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self.said(text, level)) >= count, PATIENCE)
        assert enough, f"{count} x {text!r} not among {self._records}"
        return self.said(text, level)


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since


# -- what is on the wire -----------------------------------------------------------------


def peer(**defaults: Any) -> ScriptedPeer:
    """A bus that takes all and, where a test does not say otherwise, accepts it.

    It calls itself qpidd, so that addresses are the short ones.
    """
    return ScriptedPeer(auto=True, **{"product": "qpid-cpp", **defaults})


def request_of(transfer: Any) -> Any:
    """The JSON body of a request that the driver sent."""
    return json.loads(transfer.body)


def answer(event: Event, value: Any = None) -> None:
    """Reply to a request, as a server on the bus would."""
    assert event.transfer is not None
    asked = event.transfer.message.properties
    link = event.core.find_link(asked.reply_to)
    assert isinstance(link, Link), asked.reply_to
    reactions.transfer(
        link,
        Message(
            json.dumps({"response": value}),
            properties=Properties(to=asked.reply_to, correlation_id=asked.message_id),
        ),
    )


def request(
    method: str = "echo", message_id: Any = "id-1", reply_to: str | None = None, **args: Any
) -> Message:
    """A request as the removed driver and this one put it on the wire."""
    body = {
        "request": {"method": method, "args": args, "namespace": None, "version": "1.0"},
        "context": {},
    }
    return Message(
        json.dumps(body), properties=Properties(message_id=message_id, reply_to=reply_to)
    )


def is_request(address: Any) -> bool:
    """Whether an address is one of RPC requests in legacy syntax."""
    return str(address).startswith(("unicast.", "exclusive.", "broadcast."))
