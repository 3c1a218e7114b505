# SPDX-License-Identifier: Apache-2.0

"""The way to a host, on the loop thread: name lookup, TCP, and a tunnel if there is a proxy."""

import enum
import functools
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp1_driver.eventloop import resolver
from amqp1_driver.eventloop.connector import Connector, format_address
from amqp1_driver.eventloop.errors import ConnectError, TlsError, describe, join_host_port
from amqp1_driver.eventloop.guard import Guard
from amqp1_driver.eventloop.tls import TlsParameters, make_context
from amqp1_driver.eventloop.tunnel import ProxyParameters, Tunnel, TunnelError

if TYPE_CHECKING:
    import socket

# Bytes of one read; a proxy's answer is smaller. The transport reads all that the host sends later.
_RECEIVE_SIZE = 64 * 1024

_Prepared = tuple[list[resolver.AddrInfo], ssl.SSLContext | None]


class Stage(enum.Enum):
    """The stages of a :class:`Dial`, which only moves forward."""

    RESOLVING = "looking up the host name"
    CONNECTING = "connecting"
    TUNNEL = "waiting for the proxy"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A byte stream to the host, in clear so far. The loop does not watch the socket.

    :param description: both ends, for logs
    :param address: address of the peer, or of the proxy if there is one
    :param context: the context for TLS; None without TLS
    :param rest: bytes that the host has sent already
    """

    sock: "socket.socket"
    description: str
    context: ssl.SSLContext | None
    address: str = ""
    rest: bytes = b""


class Dial:
    """The steps from the name of a host to a byte stream. Lives on the loop thread.

    The owner watches ``deadline``, which covers all steps, and calls abort() when it has passed.

    :param deadline: seconds of the loop's clock
    :param done: called once unless abort() comes first, and never from within start(); takes the
        arrival, or ConnectError or TlsError
    """

    def __init__(
        self,
        loop: Guard,
        host: str,
        port: int,
        tls: TlsParameters | None,
        proxy: ProxyParameters | None,
        deadline: float,
        done: Callable[[Arrival | ConnectError | TlsError], object],
    ) -> None:
        self._loop = loop
        self._host = host
        self._port = port
        self._tls = tls
        self._proxy = proxy
        self._deadline = deadline
        self._done = done
        self._stage = Stage.RESOLVING
        self._context: ssl.SSLContext | None = None
        self._connector: Connector | None = None
        self._socket: socket.socket | None = None  # to the proxy, until it lets us through
        self._description = ""
        self._address = ""

    @property
    def stage(self) -> Stage:
        """Return the stage that the dial has reached."""
        return self._stage

    @property
    def doing(self) -> str:
        """Return a description of the step under way, for errors."""
        if self._connector is not None:
            return f"{self._stage.value} to {self._connector.address}"
        return self._stage.value

    @property
    def failures(self) -> list[tuple[str, Exception]]:
        """Return (address, exception) of each failed attempt; empty in stages without attempts."""
        return list(self._connector.failures) if self._connector is not None else []

    def start(self) -> None:
        """Start the name lookup; the other steps follow."""
        next_hop = (self._host, self._port)
        if self._proxy is not None:
            next_hop = (self._proxy.host, self._proxy.port)
        work = functools.partial(_prepare, *next_hop, self._tls)
        try:
            resolver.offload(work, functools.partial(self._loop.post, self._on_prepared))
        except RuntimeError as exc:  # out of threads
            self._loop.call_later(0, functools.partial(self._fail, describe(exc)))

    def abort(self) -> None:
        """Stop and close the socket without a call of ``done``."""
        self._stage = Stage.OVER
        if self._connector is not None:
            self._connector.abort()
            self._connector = None
        sock, self._socket = self._socket, None
        if sock is not None:
            if self._loop.is_registered(sock.fileno()):
                self._loop.unregister(sock.fileno())
            sock.close()

    def abandon(self) -> None:
        """Close the socket in the child of a fork, and leave the loop alone."""
        self._stage = Stage.OVER
        if self._connector is not None:
            self._connector.abandon()
        if self._socket is not None:
            self._socket.close()

    # -- name and TCP ----------------------------------------------------------------------

    def _on_prepared(self, result: "_Prepared | Exception") -> None:
        if self._stage is not Stage.RESOLVING:
            return  # too late
        if isinstance(result, TlsError):
            self._finish(result.at(self._host, self._port))
        elif isinstance(result, Exception):
            reason = f"the host name does not resolve: {describe(result)}"
            if self._proxy is not None:
                reason = f"the name of proxy {self._proxy} does not resolve: {describe(result)}"
            self._fail(reason, cause=result)
        else:
            addresses, self._context = result
            self._stage = Stage.CONNECTING
            self._connector = Connector(
                self._loop, self._host, self._port, addresses, self._deadline, self._on_socket
            )
            self._connector.start()

    def _on_socket(self, result: "socket.socket | ConnectError") -> None:
        connector = self._connector
        assert connector is not None
        if isinstance(result, ConnectError):
            self._connector = None
            if self._proxy is not None:
                reason = f"{result.reason} to proxy {self._proxy}"
                result = ConnectError(self._host, self._port, reason, result.failures)
            self._finish(result)
            return
        self._socket, self._connector = result, None
        self._address = connector.address
        # The text is made now: a peer that hangs up during the handshake has no address any more.
        self._description = (
            f"{join_host_port(self._host, self._port)} at {connector.address}"
            f" from {format_address(result.getsockname())}"
        )
        if self._proxy is not None:
            self._ask_proxy(self._proxy, result)
        else:
            self._deliver(result)

    def _deliver(self, sock: "socket.socket", rest: bytes = b"") -> None:
        """Pass the socket to ``done``. Until ``done`` returns, abort() still closes the socket."""
        self._stage = Stage.OVER
        self._done(Arrival(sock, self._description, self._context, self._address, rest))
        self._socket = None

    # -- the proxy -------------------------------------------------------------------------

    def _ask_proxy(self, proxy: ProxyParameters, sock: "socket.socket") -> None:
        self._stage = Stage.TUNNEL
        try:
            tunnel = Tunnel(proxy, self._host, self._port)
        except TunnelError as exc:
            self._fail(str(exc))
            return
        self._socket = sock
        self._description += f" through proxy {proxy}"
        read = functools.partial(self._read_answer, tunnel)
        self._loop.register(sock.fileno(), read, read)
        try:
            sock.send(tunnel.request)  # a new socket takes a request this small at once
        except OSError as exc:
            # The proxy's last answer may still be in the socket. It says more than this error.
            self._loop.call_later(0, functools.partial(self._read_last, tunnel, exc))

    def _read_answer(self, tunnel: Tunnel) -> bool:
        """Read once from the proxy, and pass the data to the tunnel.

        :returns: False if nothing more can be read now
        """
        sock = self._socket
        if sock is None:
            return False
        try:
            data = sock.recv(_RECEIVE_SIZE)
        except BlockingIOError:
            return False
        except OSError as exc:
            self._proxy_lost(exc)
            return False
        try:
            if not data:
                raise tunnel.feed_eof()
            rest = tunnel.feed(data)
        except TunnelError as exc:
            self._fail(str(exc))
            return False
        if tunnel.established:
            self._loop.unregister(sock.fileno())
            self._deliver(sock, rest)
        return True

    def _read_last(self, tunnel: Tunnel, exc: OSError) -> None:
        """Read what is left after sending has failed with ``exc``, then fail."""
        while self._read_answer(tunnel):
            pass
        if self._socket is not None:
            self._proxy_lost(exc)

    def _proxy_lost(self, exc: OSError) -> None:
        self._fail(f"connection to proxy {self._proxy} lost: {describe(exc)}")

    # -- the end ---------------------------------------------------------------------------

    def _fail(self, reason: str, cause: Exception | None = None) -> None:
        error = ConnectError(self._host, self._port, reason)
        error.__cause__ = cause
        self._finish(error)

    def _finish(self, result: ConnectError | TlsError) -> None:
        if self._stage is Stage.OVER:
            return
        self.abort()
        self._done(result)


def _prepare(host: str, port: int, tls: TlsParameters | None) -> _Prepared:
    """Make the TLS context and look up the host; both may block, so no loop runs this.

    :raises OSError: the host name does not resolve
    :raises TlsError: see make_context()
    """
    context = make_context(tls) if tls is not None else None
    return resolver.lookup(host, port), context
