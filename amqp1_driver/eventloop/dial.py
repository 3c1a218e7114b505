# SPDX-License-Identifier: Apache-2.0

"""The way to a host, on the loop thread: name lookup, TCP, and a tunnel if there is a proxy."""

import enum
import errno
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from amqp1_driver.eventloop import runtime
from amqp1_driver.eventloop.errors import ConnectError, TlsError, describe, join_host_port
from amqp1_driver.eventloop.guard import Guard
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.eventloop.tls import TlsParameters, make_context
from amqp1_driver.eventloop.tunnel import ProxyParameters, Tunnel, TunnelError

if TYPE_CHECKING:
    import socket

# Bytes of one read; a proxy's answer is smaller. The transport reads all that the host sends later.
_RECEIVE_SIZE = 64 * 1024
# Seconds of silence before the kernel's first probe, seconds between probes, and the number of
# unanswered probes after which the kernel gives up. AMQP's idle time-out is what normally finds a
# dead peer; these probes serve connections without an idle time-out.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))

AddrInfo = tuple[int, int, int, str, tuple[Any, ...]]
_Prepared = tuple[list[AddrInfo], ssl.SSLContext | None]


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

    The dial tries one address after the other until one accepts. Each address gets an equal share
    of the time that is left, so that an address that swallows packets leaves time for the others.
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
        self._context: ssl.SSLContext | None = None
        #: the addresses that are left to try
        self._addresses: list[AddrInfo] = []
        #: the address of the present attempt, or of the last one
        self._address = ""
        self._socket: socket.socket | None = None
        #: ends the present attempt
        self._timer: Timer | None = None
        self._description = ""
        self.stage = Stage.RESOLVING
        #: (address, exception) of each failed attempt; empty again once an attempt has succeeded
        self.failures: list[tuple[str, Exception]] = []

    @property
    def doing(self) -> str:
        """Return a description of the step under way, for errors."""
        to = f" to {self._address}" if self.stage is Stage.CONNECTING else ""
        return f"{self.stage.value}{to}"

    def start(self) -> None:
        """Start the name lookup; the other steps follow."""
        hop = (self._host, self._port)
        if self._proxy is not None:
            hop = (self._proxy.host, self._proxy.port)
        try:
            runtime.offload(
                partial(_prepare, *hop, self._tls), partial(self._loop.post, self._on_prepared)
            )
        except RuntimeError as exc:  # out of threads
            self._loop.call_later(0, partial(self._fail, describe(exc)))

    def abort(self) -> None:
        """Stop and close the socket without a call of ``done``."""
        self.stage = Stage.OVER
        self._drop()

    def abandon(self) -> None:
        """Close the socket in the child of a fork, and leave the loop alone."""
        self.stage = Stage.OVER
        if self._socket is not None:
            self._socket.close()

    # -- name and TCP ----------------------------------------------------------------------

    def _on_prepared(self, result: "_Prepared | Exception") -> None:
        if self.stage is not Stage.RESOLVING:
            return  # too late
        if isinstance(result, TlsError):
            self._finish(result.at(self._host, self._port))
        elif isinstance(result, Exception):
            reason = f"the host name does not resolve: {describe(result)}"
            if self._proxy is not None:
                reason = f"the name of proxy {self._proxy} does not resolve: {describe(result)}"
            self._fail(reason, result)
        else:
            addresses, self._context = result
            self._addresses = list(dict.fromkeys(addresses))
            self.stage = Stage.CONNECTING
            self._try_next()

    def _try_next(self) -> None:
        """Try the next address; fail if none is left."""
        while self._addresses:
            info = self._addresses.pop(0)
            self._address = format_address(info[4])
            try:
                self._attempt(info)
                return
            except OSError as exc:
                self._drop()
                self.failures.append((self._address, exc))
        self._fail("cannot connect" + (f" to proxy {self._proxy}" if self._proxy else ""))

    def _attempt(self, info: AddrInfo) -> None:
        family, kind, protocol, _, address = info
        # Not eventlet's socket class: these calls never block, and the loop does the waiting.
        # Close-on-exec by default.
        sock = self._socket = runtime.native("socket").socket(family, kind, protocol)
        sock.setblocking(False)
        set_options(sock)
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        self._loop.register(sock.fileno(), self._on_event, self._on_event)
        self._loop.set_writable(sock.fileno(), True)
        if self._addresses:
            now = self._loop.now()
            share = (self._deadline - now) / (len(self._addresses) + 1)
            timeout = TimeoutError(errno.ETIMEDOUT, "no answer")
            self._timer = self._loop.call_at(now + share, partial(self._refused, timeout))

    def _on_event(self) -> None:
        sock = self._socket
        assert sock is not None
        module = runtime.native("socket")
        code = sock.getsockopt(module.SOL_SOCKET, module.SO_ERROR)
        if not code:
            try:
                peer = sock.getpeername()
            except OSError:
                return  # neither connected nor failed so far
            if peer != sock.getsockname():
                self._connected(sock)
                return
            # TCP can connect a socket to itself: if the destination is a free local port, the
            # system may have chosen that very port for this end.
            code = errno.ECONNREFUSED
        self._refused(OSError(code, os.strerror(code)))

    def _refused(self, exc: OSError) -> None:
        self._drop()
        self.failures.append((self._address, exc))
        self._try_next()

    def _connected(self, sock: "socket.socket") -> None:
        self._unwatch(sock)
        self.failures.clear()
        # The text is made now: a peer that hangs up during the handshake has no address any more.
        self._description = (
            f"{join_host_port(self._host, self._port)} at {self._address}"
            f" from {format_address(sock.getsockname())}"
        )
        if self._proxy is not None:
            self._ask_proxy(self._proxy, sock)
        else:
            self._deliver(sock)

    def _unwatch(self, sock: "socket.socket") -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.unregister(sock.fileno())

    def _drop(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._unwatch(sock)
            sock.close()

    # -- the proxy -------------------------------------------------------------------------

    def _ask_proxy(self, proxy: ProxyParameters, sock: "socket.socket") -> None:
        self.stage = Stage.TUNNEL
        self._socket = sock
        tunnel = Tunnel(proxy, self._host, self._port)
        self._description += f" through proxy {proxy}"
        read = partial(self._read_answer, tunnel)
        self._loop.register(sock.fileno(), read, read)
        try:
            sock.send(tunnel.request)  # a new socket takes a request this small at once
        except OSError as exc:
            # The proxy's last answer may still be in the socket. It says more than this error.
            self._loop.call_later(0, partial(self._read_last, tunnel, exc))

    def _read_answer(self, tunnel: Tunnel) -> bool:
        """Read once from the proxy, and pass the data to the tunnel.

        :returns: False if nothing more can be read now
        """
        sock = self._socket
        if sock is None:
            return False
        try:
            data = sock.recv(_RECEIVE_SIZE)
            if not data:
                raise tunnel.feed_eof()
            rest = tunnel.feed(data)
        except BlockingIOError:
            return False
        except OSError as exc:
            self._proxy_lost(exc)
            return False
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

    def _deliver(self, sock: "socket.socket", rest: bytes = b"") -> None:
        """Pass the socket to ``done``. Until ``done`` returns, abort() still closes the socket."""
        self.stage = Stage.OVER
        self._done(Arrival(sock, self._description, self._context, self._address, rest))
        self._socket = None

    def _fail(self, reason: str, cause: Exception | None = None) -> None:
        error = ConnectError(self._host, self._port, reason, self.failures)
        error.__cause__ = cause
        self._finish(error)

    def _finish(self, result: ConnectError | TlsError) -> None:
        if self.stage is not Stage.OVER:
            self.abort()
            self._done(result)


def _prepare(host: str, port: int, tls: TlsParameters | None) -> _Prepared:
    """Make the TLS context and look up the host; both may block, so no loop runs this.

    :raises OSError: the host name does not resolve
    :raises TlsError: see make_context()
    """
    context = make_context(tls) if tls is not None else None
    return lookup(host, port), context


def lookup(host: str, port: int) -> list[AddrInfo]:
    """Return all TCP addresses of a host in the system's order of preference. Blocks.

    :raises OSError: the name does not resolve (socket.gaierror), or is no valid host name.
    """
    socket = runtime.native("socket")
    try:
        found: list[AddrInfo] = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    except UnicodeError as exc:  # a label that is empty or too long
        raise OSError(f"not a host name: {exc}") from exc
    return found


def set_options(sock: "socket.socket") -> None:
    """Send small frames without delay, and have the kernel probe a peer that is silent."""
    module: Any = runtime.native("socket")
    sock.setsockopt(module.IPPROTO_TCP, module.TCP_NODELAY, 1)
    sock.setsockopt(module.SOL_SOCKET, module.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(module, name):
            sock.setsockopt(module.IPPROTO_TCP, getattr(module, name), value)


def format_address(address: tuple[Any, ...]) -> str:
    """Return ``host:port`` of a socket address, with brackets around an IPv6 address."""
    return join_host_port(str(address[0]), address[1])
