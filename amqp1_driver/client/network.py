# SPDX-License-Identifier: Apache-2.0

"""The bridge from the protocol, without I/O, to the event loop, without AMQP; on the I/O thread."""

import math
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import proton

from amqp1_driver import exceptions
from amqp1_driver.addressing.peer import forced_profile
from amqp1_driver.addressing.profiles import WEBSOCKET_SUBPROTOCOL
from amqp1_driver.client.credentials import KeySource, ProviderSource
from amqp1_driver.connection.connection import Connection
from amqp1_driver.engine import cyrus
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.sasl_external import ExternalSasl
from amqp1_driver.engine.security import (
    anonymous,
    engine_properties,
    external,
    mechanisms,
)
from amqp1_driver.eventloop import (
    ConnectError,
    EventLoop,
    ProxyParameters,
    TlsError,
    TlsParameters,
    Transport,
    TransportHandler,
)
from amqp1_driver.eventloop.errors import describe
from amqp1_driver.eventloop.guard import Guard
from amqp1_driver.eventloop.iteration import NAP_SECONDS
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.interfaces import TokenSource
from amqp1_driver.options import Host, Settings, parse_proxy
from amqp1_driver.policy import tokens
from amqp1_driver.telemetry.observer import Observer

if TYPE_CHECKING:
    from amqp1_driver.eventloop.websocket import WebSocket

LOG = exceptions.logger(__name__)


class _Stream:
    """The handler of one transport; it ignores all events after :meth:`let_go`."""

    def __init__(self, port: "LoopNetwork", host: Host) -> None:
        self._port: LoopNetwork | None = port
        #: the engine behind the transport, from the beginning of AMQP to the end of the connection
        self._engine: Engine | None = None
        #: gets the input until SASL is over
        self._handshake: Callable[[bytes], None] | None = None
        self.host = host
        self.transport: Transport | WebSocket | None = None
        self._leaving = False

    def connected(self, description: str) -> None:
        """Begin AMQP: TCP and TLS are up."""
        if self._port is not None:
            LOG.debug("Transport up: %s", description)
            self._port.connection.transport_up()

    def serve(self, engine: Engine, data_received: Callable[[bytes], None]) -> None:
        """Connect the transport with a new engine, which makes the output from now on.

        :param data_received: gets the input until SASL is over; the engine gets all later input
        """
        self._engine, self._handshake = engine, data_received

    def data_received(self, data: bytes) -> None:
        """Give input to the engine; there is none before :meth:`serve`."""
        engine = self._engine
        if engine is None:
            return
        if self._handshake is None:
            engine.receive(data)
            return
        self._handshake(data)
        if engine.sasl_over:
            self._handshake = None
            if isinstance(self.transport, Transport):
                self.transport.serve(engine)

    def pending_output(self) -> memoryview | bytes | None:
        """Return the bytes to send next; None if there are none."""
        return self._engine.output() if self._engine is not None else None

    def output_written(self, count: int) -> None:
        """Drop the first ``count`` bytes of the output, which the transport has taken."""
        if self._engine is not None:
            self._engine.output_written(count)

    def _detach_engine(self) -> None:
        self._engine = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the transport, unless :meth:`let_go` has closed it."""
        port = self._port
        if port is not None and not self._leaving:
            port.guard.run(lambda: port.stream_lost(_translate(exc, self.host)))

    def let_go(self) -> None:
        """Close the transport, and ignore its events from now on."""
        self._leaving = True
        transport, self.transport = self.transport, None
        if transport is not None:
            # close() still takes the rest of the output, to send it
            transport.close()
            if isinstance(transport, Transport):
                transport.serve(None)
        self._port = None
        self._detach_engine()


class LoopNetwork:
    """The sockets, clock and timers of a :class:`Connection`.

    :param container: container-id
    :param virtual_host: hostname in the Open frame; None: the name of the host
    :param verify_name: name to expect in the server's certificate; None: the name of the host
    :param properties: properties of the Open frame
    """

    def __init__(
        self,
        loop: EventLoop,
        settings: Settings,
        container: str,
        virtual_host: str | None,
        verify_name: str | None,
        rng: random.Random,
        properties: dict[str, object],
    ) -> None:
        self.rng = rng
        self.observer: Observer | None = None
        self.connection: Connection
        self._loop = loop
        #: runs timers and operations; if one of them raises, the connection fails
        self.guard = Guard(loop, self._failed)
        self._settings = settings
        self._container = container
        self._properties = properties
        self.virtual_host = virtual_host
        self._verify_name = verify_name
        self._provider: tokens.Provider | None = None
        proxy = parse_proxy(settings.tunnel.proxy)
        self._proxy = (
            ProxyParameters(proxy.hostname, proxy.port, proxy.username, proxy.password)
            if proxy is not None
            else None
        )
        self._stream: _Stream | None = None
        self._tick: Timer | None = None
        self._tick_at = math.inf

    # -- Scheduler ---------------------------------------------------------------

    #: the loop's clock
    now = staticmethod(time.monotonic)

    def call_later(self, delay: float, fn: Callable[[], None]) -> Timer:
        """Call ``fn()`` after ``delay`` seconds; if it raises, the connection fails."""
        return self.guard.call_later(delay, fn)

    def linger(self) -> None:
        """Have the loop do another batch soon; see :attr:`Iteration.linger`."""
        self._loop.iteration.linger = NAP_SECONDS

    wall_clock = staticmethod(time.time)

    def _failed(self, error: Exception) -> None:
        """Fail the connection after a timer or an operation has raised; the loop goes on."""
        LOG.error(
            "Connection to %s is given up after an internal error",
            self.connection.host,
            exc_info=error,
        )
        self.connection.broken(error.with_traceback(None))

    # -- Network --------------------------------------------------------------------

    def connect(self, host: Host) -> None:
        """Open a transport to a host: TCP, with TLS or WebSocket as the options say."""
        stream = _Stream(self, host)
        if self._settings.tunnel.websocket(host.port):
            stream.transport = self._websocket(stream, host)
        else:
            tls = self._tls_parameters(host) if self._settings.tls else None
            stream.transport = self._transport(stream, host, tls)
        self._stream = stream
        stream.transport.start()

    def _transport(
        self, handler: TransportHandler, host: Host, tls: TlsParameters | None
    ) -> Transport:
        return Transport(
            self._loop,
            handler,
            host.network or host.hostname,
            host.port,
            tls=tls,
            proxy=self._proxy,
            timeout=self._settings.connection.connect_timeout,
        )

    def _websocket(self, stream: _Stream, host: Host) -> "WebSocket":
        # imported late: only users of WebSocket install the packages that it needs
        from amqp1_driver.eventloop.websocket import WebSocket

        profile = forced_profile(self._settings.addressing.addressing_mode)
        names = (profile.subprotocol if profile is not None else WEBSOCKET_SUBPROTOCOL,)
        socket = WebSocket(
            stream,
            host.hostname,
            host.port,
            self._settings.tunnel.websocket_path,
            names,
            self._settings.connection.connect_timeout,
        )
        socket.transport = self._transport(socket, host, self._tls_parameters(host))
        return socket

    def disconnect(self) -> None:
        """Close the transport, if there is one, and ignore its events from now on."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.let_go()

    def token_source(self, host: Host) -> TokenSource | None:
        """Return the source of tokens for a host.

        :returns: None if SASL authenticates the driver, so that the host needs no tokens
        """
        if not anonymous(self._settings, host):
            return None
        path = self._settings.servicebus.token_provider
        if not path:
            return KeySource(host, self._settings.servicebus.token_life)
        if self._provider is None:
            self._provider = tokens.provider(path)
        return ProviderSource(
            self.guard, self._provider, path, self._settings.connection.connect_timeout
        )

    def new_engine(self, host: Host, handler: Any) -> Any:
        """Make an engine, and connect the open transport with it.

        :param handler: gets the events of the engine
        :raises ConnectionFailed: there are no descriptors for the plug-ins of SASL
        """
        properties = engine_properties(self._settings, host, self.virtual_host)
        properties["properties"] = dict(self._properties)
        names = mechanisms(self._settings, host)
        if "x-sasl-mechs" in properties and proton.SASL.extended():
            try:
                cyrus.load()
            except OSError as error:
                raise exceptions.ConnectionFailed(
                    f"no descriptors for SASL's plug-ins: {error.strerror}",
                    host=str(host),
                ) from error
        engine: Any = Engine(self._container, properties, handler)
        if external(names):
            # proton does not know of the TLS session, which Python's ssl module makes
            engine = ExternalSasl(engine, handler, anonymous="ANONYMOUS" in names)
        if self._stream is not None:
            self._stream.serve(engine, self.connection.data_received)
        return engine

    def _tls_parameters(self, host: Host) -> TlsParameters:
        s = self._settings
        return TlsParameters(
            ca_file=s.security.ssl_ca_file or None,
            cert_file=s.security.ssl_cert_file or None,
            key_file=s.security.ssl_key_file or None,
            key_password=s.security.ssl_key_password,
            min_version=s.security.ssl_min_version,
            server_name=self._verify_name or host.hostname,
        )

    # -- loop ----------------------------------------------------------------------

    def before_sleep(self) -> None:
        """Process the events of the protocol, then send output, after each batch of the loop."""
        connection = self.connection
        if connection.engine is None:
            return
        try:
            deadline = connection.process(self._loop.iteration.now)
            if deadline and deadline < self._tick_at:
                self._schedule(deadline)
            stream = self._stream
            if stream is not None and stream.transport is not None:
                stream.transport.flush()
        except Exception as error:
            self._failed(error)

    def _schedule(self, deadline: float) -> None:
        """Wake the loop at ``deadline``; :meth:`before_sleep` then checks the idle time-out."""
        if self._tick is not None:
            self._tick.cancel()
        self._tick_at = deadline
        self._tick = self.guard.call_at(deadline, self._ticked)

    def _ticked(self) -> None:
        self._tick = None
        self._tick_at = math.inf

    def stream_lost(self, error: exceptions.AmqpError) -> None:
        """Report the loss of the transport to the connection."""
        self.connection.transport_lost(error)


def _translate(exc: Exception | None, host: Host) -> exceptions.AmqpError:
    """Translate an error of the event loop into one of the driver that names the host."""
    kind: type[exceptions.AmqpError] = exceptions.ConnectionLost
    if isinstance(exc, TlsError):
        kind = exceptions.TlsFailed
    elif isinstance(exc, ConnectError):
        kind = exceptions.ConnectionFailed
    reason = getattr(exc, "reason", None) or str(exc or "closed")
    tried = getattr(exc, "failures", ())
    if tried:
        # if the host is an IP address, the error names it already
        reason += (
            " ("
            + "; ".join(
                describe(error) if address == str(host) else f"{address}: {describe(error)}"
                for address, error in tried
            )
            + ")"
        )
    if not reason.startswith(kind.summary):
        reason = f"{kind.summary}: {reason}"
    error = kind(reason, host=str(host))
    error.__cause__ = exc
    return error
