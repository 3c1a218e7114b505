# SPDX-License-Identifier: Apache-2.0

"""The way from a list of addresses to one connected TCP socket, on the loop thread."""

import errno
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from amqp1_driver.eventloop import runtime
from amqp1_driver.eventloop.errors import ConnectError, join_host_port
from amqp1_driver.eventloop.guard import Guard
from amqp1_driver.eventloop.resolver import AddrInfo
from amqp1_driver.eventloop.timers import Timer

if TYPE_CHECKING:
    import socket

# Seconds of silence before the kernel's first probe, seconds between probes, and the number of
# unanswered probes after which the kernel gives up. AMQP's idle time-out is what normally finds a
# dead peer; these probes serve connections without an idle time-out.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


class Connector:
    """A sequence of attempts, one address after the other, until one accepts. Loop thread.

    Each address gets an equal share of the time that is left, so that an address that swallows
    packets leaves time for the others. The owner watches ``deadline``, which covers all attempts,
    and calls abort() when it has passed.

    :param deadline: seconds of the loop's clock
    :param done: called once unless abort() comes first; takes the socket or the error
    """

    def __init__(
        self,
        loop: Guard,
        host: str,
        port: int,
        addresses: Sequence[AddrInfo],
        deadline: float,
        done: "Callable[[socket.socket | ConnectError], object]",
    ) -> None:
        self._loop = loop
        self._host = host
        self._port = port
        self._addresses = list(dict.fromkeys(addresses))
        self._deadline = deadline
        self._done = done
        self._socket: socket.socket | None = None
        self._address = ""
        self._timer: Timer | None = None
        self.failures: list[tuple[str, Exception]] = []

    @property
    def address(self) -> str:
        """Return the address of the present attempt, or of the last one."""
        return self._address

    def start(self) -> None:
        """Try the first address, or the next one. Call ``done`` with an error if none is left."""
        while self._addresses:
            info = self._addresses.pop(0)
            self._address = format_address(info[4])
            try:
                self._attempt(info)
            except OSError as exc:
                self._drop()
                self.failures.append((self._address, exc))
            else:
                return
        self._done(ConnectError(self._host, self._port, "cannot connect", self.failures))

    def abort(self) -> None:
        """Stop trying and close the socket without a call of ``done``."""
        self._addresses.clear()
        self._drop()

    def abandon(self) -> None:
        """Close the socket in the child of a fork, and leave the loop alone."""
        if self._socket is not None:
            self._socket.close()

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
            self._timer = self._loop.call_at(now + share, self._on_timeout)

    def _on_event(self) -> None:
        sock = self._socket
        assert sock is not None
        module = runtime.native("socket")
        code = sock.getsockopt(module.SOL_SOCKET, module.SO_ERROR)
        if code:
            self._failed(OSError(code, os.strerror(code)))
            return
        try:
            peer = sock.getpeername()
        except OSError:
            return  # neither connected nor failed so far
        if peer == sock.getsockname():
            # TCP can connect a socket to itself: if the destination is a free local port, the
            # system may have chosen that very port for this end.
            self._failed(OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)))
            return
        self._unwatch(sock)
        self._done(sock)
        self._socket = None  # until done() returns, abort() still closes it

    def _on_timeout(self) -> None:
        self._timer = None
        self._failed(TimeoutError(errno.ETIMEDOUT, "no answer"))

    def _failed(self, exc: OSError) -> None:
        self._drop()
        self.failures.append((self._address, exc))
        self.start()

    def _drop(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._unwatch(sock)
            sock.close()

    def _unwatch(self, sock: "socket.socket") -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._loop.is_registered(sock.fileno()):
            self._loop.unregister(sock.fileno())


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
