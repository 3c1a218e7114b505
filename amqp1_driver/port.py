#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Joins the protocol, which does no I/O, with the event loop, which knows no AMQP.

Lives on the I/O thread.
"""

import logging
import math
import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from amqp1_driver import exceptions
from amqp1_driver.addressing.peer import WEBSOCKET_SUBPROTOCOL, foretold
from amqp1_driver.credentials import KeySource, ProviderSource
from amqp1_driver.eventloop import (
    ConnectError,
    EventLoop,
    ProxyParameters,
    TlsError,
    TlsParameters,
    Transport,
    TransportHandler,
)
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.options import Host, Settings, tunnel
from amqp1_driver.policy import tokens
from amqp1_driver.protocol.cbs import TokenSource
from amqp1_driver.protocol.connection import Connection
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.external import ExternalSasl
from amqp1_driver.protocol.security import anonymous, engine_properties, mechanisms
from amqp1_driver.telemetry.observer import Observer

if TYPE_CHECKING:
    from amqp1_driver.eventloop.websocket import WebSocket

LOG = logging.getLogger(__name__)


def _ignore(_: Any) -> None:
    """What nobody listens to."""


def _nothing() -> None:
    """Of what is to be sent."""


class _Stream:
    """The handler of one transport; deaf once the port has let go of it."""

    #: These are called for every batch, so they are the engine's own once there is one.
    data_received: Callable[[bytes], None]
    pending_output: Callable[[], memoryview | bytes | None]
    output_written: Callable[[int], None]

    def __init__(self, port: "LoopPort", host: Host) -> None:
        self._port: LoopPort | None = port
        self._serve_nobody()
        self.host = host
        self.transport: Transport | WebSocket | None = None
        self._leaving = False

    def connected(self, description: str) -> None:
        if self._port is not None:
            LOG.debug("Transport up: %s", description)
            self._port.connection.transport_up()

    def serve(self, engine: Any, data_received: Callable[[bytes], None]) -> None:
        """There is an engine: it makes the output, and takes the input once
        ``data_received`` has seen how that begins.
        """
        def first(data: bytes) -> None:
            data_received(data)
            if self._port is not None:
                self.data_received = engine.receive

        self.data_received = first
        self.pending_output = engine.output
        self.output_written = engine.output_written

    def _serve_nobody(self) -> None:
        self.data_received = self.output_written = _ignore
        self.pending_output = _nothing

    def connection_lost(self, exc: Exception | None) -> None:
        if self._port is not None and not self._leaving:
            self._port.stream_lost(_translate(exc, self.host))

    def let_go(self) -> None:
        self._leaving = True
        transport, self.transport = self.transport, None
        if transport is not None:
            # sends what there is to send, which it asks us for
            transport.close()
        self._port = None
        self._serve_nobody()


class LoopPort:
    """Sockets, clock and timers for a :class:`Connection`.

    :param virtual_host: for the Open frame; None: the name of the host
    """

    def __init__(self, loop: EventLoop, settings: Settings, container: str,
                 virtual_host: str | None, verify_name: str | None,
                 rng: random.Random) -> None:
        self.rng = rng
        self.observer: Observer | None = None
        self.connection: Connection
        self._loop = loop
        self.linger = loop.linger
        self._settings = settings
        self._container = container
        self.virtual_host = virtual_host
        self._verify_name = verify_name
        self._provider: tokens.Provider | None = None
        proxy = tunnel.proxy(settings.proxy)
        self._proxy = ProxyParameters(proxy.hostname, proxy.port, proxy.username,
                                      proxy.password) if proxy is not None else None
        self._stream: _Stream | None = None
        self._tick: Timer | None = None
        self._tick_at = math.inf

    # -- Scheduler ---------------------------------------------------------------

    #: the loop's clock
    now = staticmethod(time.monotonic)
    wall_clock = staticmethod(time.time)

    def call_later(self, delay: float, fn: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay, partial(self._guarded, fn))

    def _guarded(self, fn: Callable[[], None]) -> None:
        """A timer that fails costs the connection, which is made anew, not the loop."""
        try:
            fn()
        except Exception as error:
            LOG.exception("Connection to %s is given up after an internal error",
                          self.connection.host)
            self.connection.give_up(
                exceptions.ConnectionLost(f"internal error: {error!r}", host=self.connection.host))

    # -- Port --------------------------------------------------------------------

    def connect(self, host: Host) -> None:
        stream = _Stream(self, host)
        if self._settings.websocket(host.port):
            stream.transport = self._websocket(stream, host)
        else:
            tls = self._tls_parameters(host) if self._settings.tls else None
            stream.transport = self._transport(stream, host, tls)
        self._stream = stream
        stream.transport.start()

    def _transport(self, handler: TransportHandler, host: Host,
                   tls: TlsParameters | None) -> Transport:
        return Transport(self._loop, handler, host.network or host.hostname, host.port, tls=tls,
                         proxy=self._proxy, timeout=self._settings.connect_timeout)

    def _websocket(self, stream: _Stream, host: Host) -> "WebSocket":
        # late: it needs packages that few want
        from amqp1_driver.eventloop.websocket import WebSocket

        profile = foretold(self._settings.addressing_mode)
        names = (profile.subprotocol if profile is not None else WEBSOCKET_SUBPROTOCOL,)
        socket = WebSocket(self._loop, stream, host.hostname, host.port,
                           self._settings.websocket_path, names, self._settings.connect_timeout)
        socket.transport = self._transport(socket, host, self._tls_parameters(host))
        return socket

    def disconnect(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.let_go()

    def token_source(self, host: Host) -> TokenSource | None:
        if not anonymous(self._settings, host):
            return None
        path = self._settings.token_provider
        if not path:
            return KeySource(host, self._settings.token_life)
        if self._provider is None:
            self._provider = tokens.provider(path)
        return ProviderSource(self._loop, self._provider, path, self._settings.connect_timeout)

    def new_engine(self, host: Host, handler: Any) -> Any:
        properties = engine_properties(self._settings, host, self.virtual_host)
        names = mechanisms(self._settings, host)
        engine: Any = Engine(self._container, properties, handler)
        if names == ("EXTERNAL",):
            # proton can't be told of TLS that is not its own
            engine = ExternalSasl(engine, handler)
        if self._stream is not None:
            self._stream.serve(engine, self.connection.data_received)
        return engine

    def _tls_parameters(self, host: Host) -> TlsParameters:
        s = self._settings
        return TlsParameters(
            ca_file=s.ssl_ca_file or None, cert_file=s.ssl_cert_file or None,
            key_file=s.ssl_key_file or None, key_password=s.ssl_key_password,
            min_version=s.ssl_min_version, server_name=self._verify_name or host.hostname)

    # -- loop ----------------------------------------------------------------------

    def before_sleep(self) -> None:
        """After each batch of input and operations: protocol, then output."""
        connection = self.connection
        if connection.engine is None:
            return
        deadline = connection.process()
        if deadline and deadline < self._tick_at:
            self._schedule(deadline)
        stream = self._stream
        if stream is not None and stream.transport is not None:
            stream.transport.flush()

    def _schedule(self, deadline: float) -> None:
        """Have the idle time-out looked after; the timer's own turn does it."""
        if self._tick is not None:
            self._tick.cancel()
        self._tick_at = deadline
        self._tick = self._loop.call_at(deadline, self._ticked)

    def _ticked(self) -> None:
        self._tick = None
        self._tick_at = math.inf

    def stream_lost(self, error: exceptions.AmqpError) -> None:
        self.connection.transport_lost(error)


def _translate(exc: Exception | None, host: Host) -> exceptions.AmqpError:
    """The event loop's errors in the driver's words, naming the host."""
    kind: type[exceptions.AmqpError] = exceptions.ConnectionLost
    if isinstance(exc, TlsError):
        kind = exceptions.TlsFailed
    elif isinstance(exc, ConnectError):
        kind = exceptions.ConnectionFailed
    reason = getattr(exc, "reason", None) or str(exc or "closed")
    tried = getattr(exc, "failures", ())
    if tried:
        reason += " (" + "; ".join(f"{address}: {error}" for address, error in tried) + ")"
    if not reason.startswith(kind.summary):
        reason = f"{kind.summary}: {reason}"
    error = kind(reason, host=str(host))
    error.__cause__ = exc
    return error
