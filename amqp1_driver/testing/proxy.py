# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy on loopback that injects faults into its connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition
from typing import Any, Literal, Self

from amqp1_driver.testing.loop_thread import LoopThread, reset_on_close

UP, DOWN = "up", "down"  # client -> upstream, upstream -> client
Direction = Literal["up", "down", "both"]
BUFFER = 65536  # maximum number of bytes held per direction and connection
BURST = 0.05  # seconds; a throttled connection passes at once what its rate allows in this time


@dataclass
class _Direction:
    """The faults and the counters of one direction, common to all connections."""

    frozen: bool = False
    latency: float = 0.0  # seconds to hold each byte
    rate: int = 0  # bytes per second on each connection, 0 for no limit
    held_back: int = 0  # last bytes of each stream that wait until more bytes follow
    chunk_size: int = BUFFER  # maximum number of bytes per write
    cut_after: int | None = None  # bytes to forward until the next cut
    cuts: int = 0
    forwarded: int = 0  # bytes

    def count(self, sent: int) -> None:
        """Count forwarded bytes.

        :raises ConnectionAbortedError: ``cut_after`` is reached
        """
        self.forwarded += sent
        if self.cut_after is not None:
            self.cut_after -= sent
            if self.cut_after <= 0:
                self.cut_after = None
                self.cuts += 1
                raise ConnectionAbortedError


class _Pipe:
    """One direction of one connection; lives on the proxy thread."""

    def __init__(self, source: socket.socket, sink: socket.socket, direction: _Direction) -> None:
        self.source = source
        self.sink = sink
        self.buffer = bytearray()
        self.shut = False  # the source has closed its side, and the proxy has shut down the sink
        self.blocked = False  # the sink accepts no more bytes
        self._direction = direction
        self._ended = False  # the source has closed its side
        self._arrivals: deque[tuple[float, int]] = deque()  # (arrival time, bytes) still delayed
        self._ripe = 0  # bytes of the buffer whose delay is over
        self._budget = 0.0  # bytes that the rate allows now
        self._budgeted = 0.0  # time of the last computation of the budget

    @property
    def reading(self) -> bool:
        """Return whether the pipe takes bytes from the source now."""
        return not (self._ended or self._direction.frozen) and len(self.buffer) < BUFFER

    def move(self, now: float) -> float | None:
        """Read and write what the faults and the sockets allow.

        :returns: seconds until the faults allow more; None if an event has to come first
        :raises OSError: the connection has failed, or a fault ends it
        """
        if self.reading:
            self._read(now)
        self.blocked = False
        if self._direction.frozen:
            return None
        allowed, again = self._allowed(now)
        try:
            self._write(allowed)
        except BlockingIOError:
            self.blocked = True
        if self._ended and not self.shut and not self.buffer:
            self.shut = True
            self.sink.shutdown(socket.SHUT_WR)
        return again

    def _read(self, now: float) -> None:
        with contextlib.suppress(BlockingIOError):
            data = self.source.recv(BUFFER - len(self.buffer))
            self.buffer += data
            self._arrivals.append((now, len(data)))
            self._ended = not data

    def _allowed(self, now: float) -> tuple[int, float | None]:
        """Compute how many bytes the faults allow now, and in how many seconds they allow more."""
        direction = self._direction
        while self._arrivals and self._arrivals[0][0] + direction.latency <= now:
            self._ripe += self._arrivals.popleft()[1]
        again = self._arrivals[0][0] + direction.latency - now if self._arrivals else None
        allowed = min(self._ripe, len(self.buffer) - (0 if self._ended else direction.held_back))
        if direction.rate:
            budget = self._budget + (now - self._budgeted) * direction.rate
            self._budget = min(direction.rate * BURST, budget)
            self._budgeted = now
            if self._ripe > self._budget:
                again = BURST
            allowed = min(allowed, int(self._budget))
        return allowed, again

    def _write(self, allowed: int) -> None:
        direction = self._direction
        while allowed > 0:
            size = min(allowed, max(1, direction.chunk_size))
            if direction.cut_after is not None:
                size = min(size, direction.cut_after)
            sent = self.sink.send(self.buffer[:size])
            del self.buffer[:sent]
            allowed -= sent
            self._ripe -= sent
            self._budget = max(0.0, self._budget - sent)
            direction.count(sent)


class _Pair:
    """A client's connection and its upstream connection; lives on the proxy thread."""

    def __init__(self, proxy: FaultProxy, client: socket.socket) -> None:
        self._proxy = proxy
        self._loop = asyncio.get_running_loop()
        self.client = client
        host, _ = proxy._upstream
        self.upstream = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.connecting = True
        self.pipes = (
            _Pipe(self.client, self.upstream, proxy._directions[UP]),
            _Pipe(self.upstream, self.client, proxy._directions[DOWN]),
        )
        self._polled: dict[socket.socket, tuple[bool, bool]] = {}
        self._timer: asyncio.TimerHandle | None = None
        for sock in (self.client, self.upstream):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.upstream.connect_ex(proxy._upstream)
        self._poll(self.upstream, False, True)

    def _on_event(self) -> None:
        self._proxy._update(self._connected if self.connecting else self.step)

    def _connected(self) -> None:
        self.connecting = False
        if self.upstream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.close(reset=True)
        else:
            self.step()

    def step(self) -> None:
        """Move the bytes that may move now, and poll for the rest."""
        if self.connecting:
            return
        self._stop_timer()
        try:
            waits = [pipe.move(self._loop.time()) for pipe in self.pipes]
        except OSError:
            return self.close(reset=True)
        up, down = self.pipes
        if up.shut and down.shut:
            return self.close(reset=False)
        again = min((wait for wait in waits if wait is not None), default=None)
        if again is not None:
            self._timer = self._loop.call_later(again, self._on_event)
        self._poll(self.client, up.reading, down.blocked)
        self._poll(self.upstream, down.reading, up.blocked)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _poll(self, sock: socket.socket, reading: bool, writing: bool) -> None:
        if self._polled.get(sock, (False, False)) == (reading, writing):
            return
        self._polled[sock] = (reading, writing)
        if reading:
            self._loop.add_reader(sock, self._on_event)
        else:
            self._loop.remove_reader(sock)
        if writing:
            self._loop.add_writer(sock, self._on_event)
        else:
            self._loop.remove_writer(sock)

    def detach(self) -> None:
        """Stop moving bytes; the sockets stay open."""
        self._stop_timer()
        self._poll(self.client, False, False)
        self._poll(self.upstream, False, False)
        self._proxy._pairs.remove(self)

    def close(self, *, reset: bool) -> None:
        """Close both sockets."""
        self.detach()
        for sock in (self.client, self.upstream):
            _close(sock, reset=reset)


class FaultProxy:
    """A proxy to ``upstream_host``:``upstream_port`` that injects faults on command.

    The proxy listens on 127.0.0.1:``port`` from construction on. It is a context manager. A
    separate thread moves the bytes. Any other thread may call the methods; a method returns after
    it has taken effect. The ``wait_...`` methods raise TimeoutError after ``timeout`` seconds.

    :raises OSError: the port is not available
    """

    def __init__(self, upstream_host: str, upstream_port: int, port: int = 0) -> None:
        self._upstream = (upstream_host, upstream_port)
        #: Guards all state; every change notifies it.
        self._changed = Condition()
        self._pairs: list[_Pair] = []
        self._abandoned: list[socket.socket] = []
        self._directions = {UP: _Direction(), DOWN: _Direction()}
        self._accepted = 0
        self._listener: socket.socket | None = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._thread = LoopThread("fault-proxy")
        self._call(self._listen)

    def _call(self, function: Callable[[], object]) -> None:
        """Run a function on the proxy thread and wait for its end; for any other thread."""

        def run() -> None:
            function()
            for pair in list(self._pairs):
                pair.step()

        self._thread.call(lambda: self._update(run))

    def _update(self, function: Callable[[], object]) -> None:
        with self._changed:
            function()
            self._changed.notify_all()

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listener.setblocking(False)
        self._thread.loop.add_reader(self._listener, lambda: self._update(self._accept))

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._thread.loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):
            client, _ = self._listener.accept()
            self._accepted += 1
            self._pairs.append(_Pair(self, client))

    def _set(self, direction: Direction, **faults: Any) -> None:
        def work() -> None:
            for one in (UP, DOWN) if direction == "both" else (direction,):
                for name, value in faults.items():
                    setattr(self._directions[one], name, value)

        self._call(work)

    # -- faults ---------------------------------------------------------------------------

    def cut(self) -> None:
        """Reset all connections on both sides; the proxy still accepts new ones."""
        self._call(lambda: self._close_all(reset=True))

    def refuse(self) -> None:
        """Close the port to refuse new connections; existing connections stay up."""
        self._call(self._stop_listening)

    def accept_again(self) -> None:
        """Open the port again.

        :raises OSError: the port is not available
        """
        self._call(self._listen)

    def freeze(self, direction: Direction = "both") -> None:
        """Forward nothing in that direction; connections stay up and TCP buffers fill up."""
        self._set(direction, frozen=True)

    def thaw(self, direction: Direction = "both") -> None:
        """Resume forwarding, without loss of bytes."""
        self._set(direction, frozen=False)

    def delay(self, seconds: float, direction: Direction = "both") -> None:
        """Hold every byte for ``seconds``; 0 ends the delay. At most BUFFER bytes are in flight."""
        self._set(direction, latency=seconds)

    def throttle(self, rate: int, direction: Direction = "both") -> None:
        """Pass at most ``rate`` bytes per second on each connection; 0 removes the limit."""
        self._set(direction, rate=rate)

    def abandon(self) -> None:
        """Let the upstream of each connection vanish without a FIN or RST to the client.

        The proxy still forwards new connections.
        """

        def work() -> None:
            for pair in list(self._pairs):
                pair.detach()
                _close(pair.upstream, reset=True)
                self._abandoned.append(pair.client)

        self._call(work)

    def bury(self) -> None:
        """Reset the connections left open by ``abandon``."""
        self._call(self._bury)

    def _bury(self) -> None:
        while self._abandoned:
            _close(self._abandoned.pop(), reset=True)

    def delay_bytes(self, count: int, direction: Direction = "both") -> None:
        """Hold back the last ``count`` bytes of each stream until more bytes follow; 0 ends this.

        The peers thus receive frames cut at any byte.

        :param count: at most half of BUFFER
        :raises ValueError: ``count`` is out of range
        """
        if not 0 <= count <= BUFFER // 2:
            raise ValueError(f"count must be 0 to {BUFFER // 2}, not {count}")
        self._set(direction, held_back=count)

    def cut_after(self, count: int, direction: Literal["up", "down"] = "up") -> None:
        """Reset, once, the connection that forwards the ``count``-th byte from now on.

        The proxy still forwards this byte; ``wait_cut`` waits for the reset.
        """
        self._set(direction, cut_after=count)

    def stop(self) -> None:
        """Close all sockets and end the thread; idempotent."""
        self._thread.stop(lambda: self._update(self._close))

    def _close_all(self, *, reset: bool) -> None:
        for pair in list(self._pairs):
            pair.close(reset=reset)

    def _close(self) -> None:
        self._close_all(reset=False)
        self._bury()
        self._stop_listening()

    @property
    def chunk_size(self) -> int:
        """Return the maximum number of bytes per write; 1 delivers byte by byte."""
        return self._directions[UP].chunk_size

    @chunk_size.setter
    def chunk_size(self, size: int) -> None:
        self._set("both", chunk_size=size)

    # -- state and waits --------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """Return the number of connections that are up."""
        with self._changed:
            return sum(not pair.connecting for pair in self._pairs)

    @property
    def accepted(self) -> int:
        """Return the number of client connections so far."""
        with self._changed:
            return self._accepted

    @property
    def forwarded(self) -> dict[str, int]:
        """Return the number of bytes forwarded so far, by "up" and "down"."""
        with self._changed:
            return {name: one.forwarded for name, one in self._directions.items()}

    def wait_connections(self, count: int, timeout: float = 10.0) -> None:
        """Wait until at least ``count`` connections are up; for 0, until none is up."""
        self._wait(
            lambda: self.connections >= count if count else not self._pairs,
            timeout,
            f"{count} connections",
        )

    def wait_accepted(self, count: int, timeout: float = 10.0) -> None:
        """Wait until clients have connected ``count`` times in all."""
        self._wait(lambda: self._accepted >= count, timeout, f"{count} connections in all")

    def wait_cut(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until ``cut_after`` has reset ``count`` connections in all."""
        both = self._directions.values()
        self._wait(lambda: sum(one.cuts for one in both) >= count, timeout, f"{count} cuts")

    def wait_forwarded(
        self, count: int, direction: Literal["up", "down"] = "up", timeout: float = 10.0
    ) -> None:
        """Wait until the proxy has forwarded ``count`` bytes in all in that direction."""
        one = self._directions[direction]
        self._wait(lambda: one.forwarded >= count, timeout, f"{count} bytes")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _wait(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(ready, timeout):
                raise TimeoutError(f"{what}: not within {timeout} s")


def _close(sock: socket.socket, *, reset: bool) -> None:
    with contextlib.suppress(OSError):
        if reset:
            reset_on_close(sock)
    sock.close()
