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

"""The Python interface of the embedded bus (the command ``amqp1 bus`` uses it, too)."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Self

from .behaviour import Behaviour
from .broker import Broker
from .controls import Controls
from .counters import Counters
from .engine import Engine
from .namespace import Namespace
from .queues import Limits
from .router import Router
from .server import NewWebSocket, Server
from .servicebus import ServiceBus
from .tls import server_context

MODES = ("router", "broker", "servicebus")
VERSION = "1.0"


class Bus(Controls):
    """An AMQP 1.0 bus in a thread of this process; for development and tests only.

    ``mode`` "router", "broker" or "servicebus" (which needs a ``namespace``); ``port`` 0 = any;
    ``users`` name -> password: SASL PLAIN is then required; ``tls_ca``: client certificates are
    required; ``queue_capacity`` / ``queue_resume`` are watermarks in messages (broker), 0 = no
    limit, resume defaults to three quarters; ``idle_timeout`` in seconds (half of it is
    advertised). ``websocket_port`` (0 = any): AMQP over WebSocket is spoken there, too, and with
    TLS if the other port has it (needs wsproto).

    All methods may be called from any thread but the bus's own; what is for tests is in
    :class:`Controls`. Raises ValueError for settings
    that make no sense, OSError if the port cannot be had or a certificate not be read.
    """

    def __init__(
        self,
        mode: str = "router",
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        tls_ca: str | None = None,
        users: Mapping[str, str] | None = None,
        queue_capacity: int = 0,
        queue_resume: int | None = None,
        idle_timeout: float = 16.0,
        trace: bool = False,
        websocket_port: int | None = None,
        namespace: Namespace | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
        if (mode == "servicebus") is (namespace is None):
            raise ValueError("the mode servicebus, and no other, needs a namespace")
        if tls_ca and not tls_cert:
            raise ValueError("client certificates (tls_ca) need a server certificate (tls_cert)")
        if queue_resume is None:
            queue_resume = queue_capacity * 3 // 4
        if queue_capacity < 0 or not 0 <= queue_resume <= queue_capacity:
            raise ValueError("0 <= queue_resume <= queue_capacity must hold")
        if queue_capacity and queue_resume == queue_capacity:
            raise ValueError("queue_resume must be less than queue_capacity")
        self.mode = mode
        self.host = host
        self.counters = Counters()
        self._port = port
        self._websocket_port = websocket_port
        self._namespace = namespace
        self._users = dict(users or {})
        if namespace is not None:
            if users:
                raise ValueError("the users of a namespace are its rules")
            self._users = {name: rule.key for name, rule in namespace.known_rules.items()}
        self._limits = Limits(queue_capacity, queue_resume)
        self._idle_timeout = idle_timeout
        self._trace = trace
        self._container = f"amqp1-bus-{secrets.token_hex(4)}"
        if namespace is not None:
            # As the service's own: an id and the number of the gateway.
            self._container = f"{secrets.token_hex(16)}_G1"
        self._context = None
        if tls_cert:
            self._context = server_context(tls_cert, tls_key or tls_cert, tls_ca)
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    # -- life ----------------------------------------------------------------

    def start(self) -> Self:
        """Listen and serve; returns self."""
        if self._server is not None:
            raise RuntimeError("the bus has been started already")
        listeners = self._listen()
        behaviour = self._behaviour()
        self._server = Server(
            listeners,
            behaviour,
            self.counters,
            lambda touched, user: self._engine(behaviour, touched, user),
            self._users,
            self._context,
        )
        self._thread = threading.Thread(target=self._server.run, name="amqp1-bus", daemon=True)
        self._thread.start()
        return self

    def _listen(self) -> dict[socket.socket, NewWebSocket | None]:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET

        def listen(port: int) -> socket.socket:
            return socket.create_server((self.host, port), family=family, backlog=512)

        new_websocket = _websocket_layer() if self._websocket_port is not None else None
        listener = listen(self._port)
        self._port = listener.getsockname()[1]
        listeners: dict[socket.socket, NewWebSocket | None] = {listener: None}
        if self._websocket_port is not None:
            try:
                second = listen(self._websocket_port)
            except OSError:
                listener.close()
                raise
            self._websocket_port = second.getsockname()[1]
            listeners[second] = new_websocket
        return listeners

    def stop(self, timeout: float = 5.0) -> None:
        """Close all connections with amqp:connection:forced, end; idempotent."""
        self._finish(lambda server: server.stop(), timeout)

    def kill(self, timeout: float = 5.0) -> None:
        """Reset all sockets, the listening one too, and end: as if the process had died."""
        self._finish(lambda server: server.kill(), timeout)

    def _finish(self, how: Callable[[Server], None], timeout: float) -> None:
        server, thread = self._server, self._thread
        if server is not None and thread is not None:
            server.post(lambda: how(server))
            thread.join(timeout)
            if thread.is_alive():
                raise TimeoutError(f"the bus has not ended within {timeout} s")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _behaviour(self) -> Behaviour:
        if self.mode == "router":
            return Router(self.counters)
        if self._namespace is not None:
            return ServiceBus(self.counters, self._namespace)
        return Broker(self.counters, limits=self._limits)

    def _engine(
        self, behaviour: Behaviour, touched: Callable[[], None], user: str | None
    ) -> Engine:
        return Engine(
            behaviour,
            self.counters,
            container=self._container,
            version=VERSION,
            idle_timeout=self._idle_timeout,
            touched=touched,
            trace=self._trace,
            user=user,
        )

    # -- where ---------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port it listens on (after :meth:`start`)."""
        return self._port

    @property
    def address(self) -> str:
        """``amqp://HOST:PORT``, or ``amqps://`` with TLS."""
        scheme = "amqps" if self._context is not None else "amqp"
        return f"{scheme}://{self._printed_host}:{self._port}"

    @property
    def websocket_port(self) -> int | None:
        """The port for AMQP over WebSocket (after :meth:`start`); None = there is none."""
        return self._websocket_port

    @property
    def websocket_address(self) -> str | None:
        """``ws[s]://HOST:PORT/$servicebus/websocket``; None = there is none."""
        if self._websocket_port is None:
            return None
        scheme = "wss" if self._context is not None else "ws"
        return f"{scheme}://{self._printed_host}:{self._websocket_port}/$servicebus/websocket"

    @property
    def _printed_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def _websocket_layer() -> NewWebSocket:
    # Imported here only: nothing else of the bus needs wsproto.
    try:
        from .websocket import WebSocketServer
    except ImportError as exc:
        raise ValueError(f"WebSocket needs the extra amqp1-driver[websocket]: {exc}") from exc
    return WebSocketServer
