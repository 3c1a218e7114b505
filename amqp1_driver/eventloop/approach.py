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

"""The way to a host: name lookup, TCP, and the tunnel through a proxy if there is one."""

import enum
import functools
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp1_driver.eventloop import resolver
from amqp1_driver.eventloop.connector import Connector, format_address
from amqp1_driver.eventloop.errors import ConnectError, TlsError, describe, join_host_port
from amqp1_driver.eventloop.loop import EventLoop
from amqp1_driver.eventloop.tls import TlsParameters, make_context
from amqp1_driver.eventloop.tunnel import ProxyParameters, Tunnel, TunnelError

if TYPE_CHECKING:
    import socket

# A proxy's answer is small; what comes from behind it is left to the transport.
_RECEIVE_SIZE = 64 * 1024

_Prepared = tuple[list[resolver.AddrInfo], ssl.SSLContext | None]


class Stage(enum.Enum):
    """How far an approach has come; it only ever moves forward."""

    RESOLVING = "looking up the host name"
    CONNECTING = "connecting"
    TUNNEL = "waiting for the proxy"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A byte stream to the host, in clear so far. The socket is watched by nobody.

    description: both ends, for logs
    context: for TLS, if that was asked for
    rest: what the host has sent already
    """

    sock: "socket.socket"
    description: str
    context: ssl.SSLContext | None
    rest: bytes = b""


class Approach:
    """From the name of a host to a byte stream. Lives on the loop thread.

    The owner holds the deadline for the whole and calls abort() at it; ``done`` is called once
    otherwise, never from start(), with the arrival or with ConnectError or TlsError.
    """

    def __init__(
        self,
        loop: EventLoop,
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

    @property
    def stage(self) -> Stage:
        """How far it has come."""
        return self._stage

    @property
    def doing(self) -> str:
        """What is under way, for errors."""
        if self._connector is not None:
            return f"{self._stage.value} to {self._connector.address}"
        return self._stage.value

    @property
    def failures(self) -> list[tuple[str, Exception]]:
        """The addresses that were tried in vain; empty unless others are being tried."""
        return list(self._connector.failures) if self._connector is not None else []

    def start(self) -> None:
        """Set out."""
        next_hop = (self._host, self._port)
        if self._proxy is not None:
            next_hop = (self._proxy.host, self._proxy.port)
        work = functools.partial(_prepare, *next_hop, self._tls)
        try:
            resolver.offload(work, functools.partial(self._loop.post, self._on_prepared))
        except RuntimeError as exc:  # out of threads
            self._loop.call_later(0, functools.partial(self._fail, describe(exc)))

    def abort(self) -> None:
        """Go no further; ``done`` is not called."""
        self._stage = Stage.OVER
        if self._connector is not None:
            self._connector.abort()
            self._connector = None
        if self._socket is not None:
            self._loop.unregister(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def abandon(self) -> None:
        """As abort(), in the child of a fork: leave the loop alone."""
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
        connector, self._connector = self._connector, None
        assert connector is not None
        if isinstance(result, ConnectError):
            if self._proxy is not None:
                reason = f"{result.reason} to proxy {self._proxy}"
                result = ConnectError(self._host, self._port, reason, result.failures)
            self._finish(result)
            return
        # Asked for now: a peer that hangs up during the handshake has no address any more.
        self._description = (
            f"{join_host_port(self._host, self._port)} at {connector.address}"
            f" from {format_address(result.getsockname())}"
        )
        if self._proxy is not None:
            self._ask_proxy(self._proxy, result)
        else:
            self._finish(Arrival(result, self._description, self._context))

    # -- the proxy -------------------------------------------------------------------------

    def _ask_proxy(self, proxy: ProxyParameters, sock: "socket.socket") -> None:
        self._stage = Stage.TUNNEL
        try:
            tunnel = Tunnel(proxy, self._host, self._port)
        except TunnelError as exc:
            sock.close()
            self._fail(str(exc))
            return
        self._socket = sock
        self._description += f" through proxy {proxy}"
        read = functools.partial(self._read_answer, tunnel)
        self._loop.register(sock.fileno(), read, read)
        try:
            sock.send(tunnel.request)  # a new socket takes so little at once
        except OSError as exc:
            # What the proxy said before it went tells more than this error.
            self._loop.call_later(0, functools.partial(self._read_last, tunnel, exc))

    def _read_answer(self, tunnel: Tunnel) -> bool:
        """Read once; False if nothing more can come now."""
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
            self._socket = None
            self._finish(Arrival(sock, self._description, self._context, rest))
        return True

    def _read_last(self, tunnel: Tunnel, exc: OSError) -> None:
        """Sending has failed: read what is left, then end."""
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

    def _finish(self, result: Arrival | ConnectError | TlsError) -> None:
        if self._stage is Stage.OVER:
            return
        self.abort()
        self._done(result)


def _prepare(host: str, port: int, tls: TlsParameters | None) -> _Prepared:
    """All that may block. Runs on a thread of its own."""
    context = make_context(tls) if tls is not None else None
    return resolver.lookup(host, port), context
