# SPDX-License-Identifier: Apache-2.0

"""The Python interface of the embedded bus; the command ``amqp1 bus`` uses it, too."""

from __future__ import annotations

import functools
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from .addresses import normalise
from .behaviour import Behaviour
from .broker import Broker
from .counters import Counters
from .engine import Engine
from .links import Consumer, Link, Producer
from .namespace import Namespace
from .queues import Limits
from .router import Router
from .server import NewWebSocket, Server
from .servicebus import ServiceBus
from .tls import server_context

MODES = ("router", "broker", "servicebus")
VERSION = "1.0"
T = TypeVar("T")


@dataclass(frozen=True)
class LinkInfo:
    """A link attached to the bus.

    ``receiving``: the client is the receiver; ``credit``: the credit left now.
    """

    name: str
    address: str | None
    receiving: bool
    credit: int
    unsettled: int


@dataclass(frozen=True)
class ConnectionInfo:
    """A connection to the bus; ``container`` and ``hostname`` come from the peer's Open."""

    peer: str
    container: str | None
    hostname: str | None
    user: str | None
    mechanism: str | None
    links: tuple[LinkInfo, ...]


class Bus:
    """An AMQP 1.0 bus in a thread of this process; for development and tests only.

    All methods may be called from any thread except the bus thread, unless a method says otherwise.

    :param mode: "router", "broker" or "servicebus"
    :param port: TCP port; 0 = any
    :param tls_cert: file with the server certificate
    :param tls_key: file with the private key; None = ``tls_cert`` also contains the key
    :param tls_ca: file with the CA; clients must then show a certificate
    :param users: name -> password; SASL PLAIN is then required
    :param queue_capacity: high watermark of a queue in messages (broker); 0 = no limit
    :param queue_resume: low watermark of a queue in messages; default three quarters of the
        capacity
    :param queue_capacity_bytes: high watermark of a queue in bytes; 0 = no limit
    :param queue_resume_bytes: low watermark of a queue in bytes; default three quarters of
        ``queue_capacity_bytes``
    :param queue_limits: address (ADDRESS, ADDRESS::POOL or a topic's address) -> its own watermarks
    :param idle_timeout: idle time-out in seconds that the bus enforces; the bus advertises half of
        this time
    :param websocket_port: further port for AMQP over WebSocket, 0 = any; with TLS if ``port`` has
        TLS; needs wsproto
    :param namespace: entities, rules and limits; required in mode "servicebus", not allowed in the
        other modes
    :raises ValueError: a setting is not valid, or two settings contradict each other
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
            # A container-id like that of the real service: an id and the number of the gateway.
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
        new_engine = functools.partial(
            Engine,
            behaviour,
            container=self._container,
            version=VERSION,
            idle_timeout=self._idle_timeout,
            trace=self._trace,
        )
        self._server = Server(
            listeners,
            behaviour,
            new_engine,
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
        self._finish(Server.stop, timeout)

    def kill(self, timeout: float = 5.0) -> None:
        """Close the listening sockets, reset all connections and end: as if the process had died.

        :param timeout: seconds
        :raises TimeoutError: the thread has not ended in time
        """
        self._finish(Server.kill, timeout)

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

    # -- for tests ------------------------------------------------------------

    def _running(self) -> Server:
        if self._server is None:
            raise RuntimeError("the bus has not been started")
        return self._server

    def _call(self, function: Callable[[Server], T]) -> T:
        """Run a function on the bus thread and return its result."""
        server = self._running()
        return server.call(lambda: function(server))

    @property
    def connections(self) -> list[ConnectionInfo]:
        """Return the connections that are past SASL; the Open of a peer may still be missing."""
        return self._call(_connections)

    def queue_depth(self, address: str) -> int:
        """Return the number of messages held for an address.

        A held message waits, or is delivered and has no outcome.
        """
        return self._call(lambda server: server.behaviour.depth(address))

    def wait_until(self, condition: Callable[[Self], bool], timeout: float = 10.0) -> None:
        """Block until ``condition(bus)`` holds.

        The bus thread evaluates the condition after each pass of its loop. The condition may use
        :attr:`counters`, :meth:`peek` and :meth:`peek_connections`.

        :param timeout: seconds
        :raises TimeoutError: the condition did not hold in time
        """
        self._running().wait_until(lambda: condition(self), timeout)

    def peek(self, address: str) -> int:
        """Return :meth:`queue_depth`, for use in a condition of :meth:`wait_until`."""
        return self._running().behaviour.depth(address)

    def peek_connections(self) -> list[ConnectionInfo]:
        """Return :attr:`connections`, for use in a condition of :meth:`wait_until`."""
        return _connections(self._running())

    def freeze(self) -> None:
        """Stop polling sockets and timers, like a stopped process; the sockets stay open."""
        self._call(lambda server: server.freeze(True))

    def thaw(self) -> None:
        """Undo :meth:`freeze`."""
        self._call(lambda server: server.freeze(False))

    def pause_credit(self, address: str | None = None) -> None:
        """Withhold and withdraw credit from the producers of an address; None = from all."""
        self._change_credit(lambda behaviour: behaviour.pause(address))

    def resume_credit(self, address: str | None = None) -> None:
        """Undo :meth:`pause_credit` for an address; None undoes every pause."""
        self._change_credit(lambda behaviour: behaviour.resume(address))

    def _change_credit(self, change: Callable[[Behaviour], None]) -> None:
        def work(server: Server) -> None:
            change(server.behaviour)
            for link in _links(server):
                if isinstance(link, Producer):
                    link.adjust()

        self._call(work)

    def limit_queue(self, address: str | None, limits: Limits | None) -> None:
        """Change watermarks while the broker runs, with effect at once; see :class:`Limits`.

        :param address: ADDRESS, ADDRESS::POOL or the address of a topic; None: all addresses
            without watermarks of their own
        :param limits: the new watermarks; None: the common watermarks apply to the address again;
            with ``address`` None: there is no common limit
        :raises ValueError: the bus is not a broker
        """
        behaviour = self._running().behaviour
        if not isinstance(behaviour, Broker):
            raise ValueError(f"a bus as {behaviour.mode} has no watermarks")
        self._call(lambda server: behaviour.limit(address, limits))

    def drop_connections(self) -> None:
        """Reset all connections; the bus still listens."""
        self._call(lambda server: server.drop_all())

    def close_connections(
        self,
        condition: str = "amqp:connection:forced",
        description: str = "closed by the administrator",
    ) -> None:
        """Close all connections cleanly with an error; the bus still listens."""
        self._call(lambda server: server.close_all(condition, description))

    def detach_links(
        self,
        address: str,
        condition: str = "amqp:resource-deleted",
        description: str = "the node has been deleted",
    ) -> int:
        """Detach all links at an address with an error; return the number of links."""

        def work(server: Server) -> int:
            wanted = normalise(address)
            links = [x for x in _links(server) if normalise(x.address or "") == wanted]
            for link in links:
                link.detach(condition, description)
            return len(links)

        return self._call(work)


def _link_info(link: Link) -> LinkInfo:
    if isinstance(link, Consumer):
        return LinkInfo(link.name, link.address, True, link.credit, len(link.unsettled))
    assert isinstance(link, Producer)
    return LinkInfo(link.name, link.address, False, link.credit, link.held)


def _links(server: Server) -> list[Link]:
    return [link for c in server.connections if c.engine for link in c.engine.links]


def _connections(server: Server) -> list[ConnectionInfo]:
    return [
        ConnectionInfo(
            c.peer,
            c.engine.connection.remote_container,
            c.engine.connection.remote_hostname,
            c.sasl.user,
            c.sasl.mechanism,
            tuple(_link_info(link) for link in c.engine.links),
        )
        for c in server.connections
        if c.engine is not None
    ]


def _websocket_layer() -> NewWebSocket:
    # The import is here because no other part of the bus needs wsproto.
    try:
        from .websocket import WebSocketServer
    except ImportError as exc:
        raise ValueError(f"WebSocket needs the extra amqp1-driver[websocket]: {exc}") from exc
    return WebSocketServer
