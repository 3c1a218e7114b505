# SPDX-License-Identifier: Apache-2.0
"""What the bars share: transports with options, a server in a thread, and a stop-watch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import oslo_messaging as om
from oslo_config import cfg

from amqp1_driver import options

TOPIC = "bars"


def configuration(**settings: Any) -> cfg.ConfigOpts:
    """An application's configuration with options of the driver."""
    conf = cfg.ConfigOpts()
    conf([], project="bars", default_config_files=[], default_config_dirs=[])
    options.register_opts(conf)
    for name, value in settings.items():
        conf.set_override(name, value, group=options.GROUP)
    return conf


class Echo:
    """An endpoint that gives back what it got."""

    def echo(self, ctxt: dict[str, Any], text: str) -> str:
        return text


class Transports:
    """Makes transports, clients and servers of oslo.messaging; cleanup() ends them all."""

    def __init__(self) -> None:
        self._transports: list[Any] = []
        self._servers: list[Any] = []

    def rpc(self, url: str, **settings: Any) -> Any:
        """An RPC transport with options of the driver."""
        transport = om.get_rpc_transport(configuration(**settings), url)
        self._transports.append(transport)
        return transport

    def notification(self, url: str, **settings: Any) -> Any:
        """A notification transport with options of the driver."""
        transport = om.get_notification_transport(configuration(**settings), url)
        self._transports.append(transport)
        return transport

    def client(
        self, url: str, timeout: float | None = None, retry: int | None = None, **settings: Any
    ) -> Any:
        """An RPC client on a transport of its own."""
        return om.get_rpc_client(
            self.rpc(url, **settings), om.Target(topic=TOPIC), timeout=timeout, retry=retry
        )

    def serve(
        self,
        url: str,
        topic: str = TOPIC,
        name: str = "server",
        endpoint: Any = None,
        pool: int | None = None,
        **settings: Any,
    ) -> None:
        """An RPC server, with an Echo unless told otherwise, and so many threads."""
        transport = self.rpc(url, **settings)
        if pool is not None:
            from oslo_messaging import server as upstream

            transport.conf.register_opts(upstream._pool_opts)
            transport.conf.set_override("executor_thread_pool_size", pool)
        server = om.get_rpc_server(
            transport,
            om.Target(topic=topic, server=name),
            [endpoint or Echo()],
            executor="threading",
        )
        server.start()
        self._servers.append(server)

    def cleanup(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.stop()
            # beside: the executor's pool takes a second to notice its end
            threading.Thread(target=server.wait, daemon=True).start()
        for transport in self._transports:
            transport.cleanup()


class Logged(logging.Handler):
    """Waits for a log record of the driver that contains a text. A context manager."""

    def __init__(self, text: str) -> None:
        super().__init__(logging.DEBUG)
        self._text = text
        self._seen = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self._seen.set()

    def wait(self, timeout: float) -> None:
        assert self._seen.wait(timeout), f"{self._text!r} was not logged"

    def __enter__(self) -> Self:
        logging.getLogger("amqp1_driver").addHandler(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        logging.getLogger("amqp1_driver").removeHandler(self)


@dataclass
class Outcome:
    """How something ended: the exception, and after how many seconds."""

    error: BaseException | None
    seconds: float
    value: Any = None

    @property
    def text(self) -> str:
        return str(self.error)


def outcome(work: Callable[[], Any]) -> Outcome:
    """Runs it and takes the time."""
    started = time.monotonic()
    try:
        value = work()
    except Exception as error:
        return Outcome(error, time.monotonic() - started)
    return Outcome(None, time.monotonic() - started, value)
