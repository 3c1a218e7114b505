# SPDX-License-Identifier: Apache-2.0

"""The Python interface of the embedded bus; the command ``amqp1 bus`` uses it, too."""

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

    All methods may be called from any thread except the bus thread. :class:`Controls` has the
    methods for tests.

    :param mode: "router", "broker" or "servicebus"
    :param port: TCP port; 0 = any
    :param tls_cert: file with the server certificate
    :param tls_key: file with the private key; None = in ``tls_cert``
    :param tls_ca: file with the CA; clients must then show a certificate
    :param users: name -> password; SASL PLAIN is then required
    :param queue_capacity: high watermark of a queue in messages (broker); 0 = no limit
    :param queue_resume: low watermark of a queue in messages; default three quarters of the
        capacity
    :param queue_capacity_bytes: high watermark of a queue in bytes; 0 = no limit
    :param queue_resume_bytes: low watermark of a queue in bytes; default three quarters
    :param queue_limits: address (ADDRESS, ADDRESS::POOL or a topic's address) -> its own watermarks
    :param idle_timeout: seconds; the bus advertises half of it
    :param websocket_port: further port for AMQP over WebSocket, 0 = any; with TLS if ``port`` has
        TLS; needs wsproto
    :param namespace: entities, rules and limits; required for mode "servicebus" and only there
    :raises ValueError: the settings make no sense
    :raises OSError: the port is not available or a certificate file is not readable
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
        queue_capacity_bytes: int = 0,
        queue_resume_bytes: int | None = None,
        queue_limits: Mapping[str, Limits] | None = None,
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
        self._limits = Limits.of(
            queue_capacity, queue_resume, queue_capacity_bytes, queue_resume_bytes
        )
        self._queue_limits = dict(queue_limits or {})
        self._idle_timeout = idle_timeout
        self._trace = trace
        self._container = f"amqp1-bus-{secrets.token_hex(4)}"
        if namespace is not None:
            # As the real service does: an id and the number of the gateway.
            self._container = f"{secrets.token_hex(16)}_G1"
        self._context = None
        if tls_cert:
            self._context = server_context(tls_cert, tls_key or tls_cert, tls_ca)
        #: Callback with the exception that ended the bus thread, run on that thread. :meth:`stop`
        #: and :meth:`kill` do not call it. Set it before :meth:`start`.
        self.on_death: Callable[[BaseException], object] = bool
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    # -- life ----------------------------------------------------------------

    def start(self) -> Self:
        """Listen and serve on the bus thread; return self."""
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
            lambda error: self.on_death(error),
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
        """Close all connections with amqp:connection:forced and end the thread; idempotent.

        :param timeout: seconds
        :raises TimeoutError: the thread has not ended in time
        """
        self._finish(lambda server: server.stop(), timeout)

    def kill(self, timeout: float = 5.0) -> None:
        """Reset all sockets, including the listening ones, and end: as if the process had died.

        :param timeout: seconds
        :raises TimeoutError: the thread has not ended in time
        """
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
        broker = Broker(self.counters, limits=self._limits)
        for address, limits in self._queue_limits.items():
            broker.limit(address, limits)
        return broker

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
        """Return the port of the listener (after :meth:`start`)."""
        return self._port

    @property
    def address(self) -> str:
        """Return ``amqp://HOST:PORT``, or ``amqps://HOST:PORT`` with TLS."""
        scheme = "amqps" if self._context is not None else "amqp"
        return f"{scheme}://{self._printed_host}:{self._port}"

    @property
    def websocket_port(self) -> int | None:
        """Return the port for AMQP over WebSocket (after :meth:`start`), None without WebSocket."""
        return self._websocket_port

    @property
    def websocket_address(self) -> str | None:
        """Return ``ws[s]://HOST:PORT/$servicebus/websocket``, None without WebSocket."""
        if self._websocket_port is None:
            return None
        scheme = "wss" if self._context is not None else "ws"
        return f"{scheme}://{self._printed_host}:{self._websocket_port}/$servicebus/websocket"

    @property
    def _printed_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def _websocket_layer() -> NewWebSocket:
    # The import is here because no other part of the bus needs wsproto.
    try:
        from .websocket import WebSocketServer
    except ImportError as exc:
        raise ValueError(f"WebSocket needs the extra amqp1-driver[websocket]: {exc}") from exc
    return WebSocketServer
