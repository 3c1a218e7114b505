# SPDX-License-Identifier: Apache-2.0
"""The thread of a FaultProxy: it moves bytes between clients and the upstream."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

UP, DOWN = "up", "down"  # client -> upstream, upstream -> client
BUFFER = 65536  # maximum number of bytes held per direction and connection
BURST = 0.05  # seconds; a throttled connection passes this much of its rate at once


class _Pipe:
    """One direction of one connection; lives on the proxy thread."""

    def __init__(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        self.source = source
        self.sink = sink
        self.direction = direction
        self.buffer = bytearray()
        self.ended = False  # the source has closed its side
        self.shut = False  # and the proxy has shut down the sink
        self.arrivals: deque[tuple[float, int]] = deque()  # (arrival time, bytes) still delayed
        self.ripe = 0  # bytes of the buffer whose delay is over
        self.budget = 0.0  # bytes that the rate allows now
        self.budgeted = 0.0  # time of the last computation of the budget
        self.blocked = False  # the sink accepts no more bytes

    def add(self, data: bytes, now: float) -> None:
        """Buffer bytes from the source."""
        self.buffer += data
        self.arrivals.append((now, len(data)))

    def allowed(self, latency: float, rate: int, now: float) -> tuple[int, float | None]:
        """Compute how many bytes the pipe may write now, and when to ask again if that is too few.

        :param latency: seconds to hold each byte
        :param rate: bytes per second, 0 for no limit
        """
        while self.arrivals and self.arrivals[0][0] + latency <= now:
            self.ripe += self.arrivals.popleft()[1]
        again = self.arrivals[0][0] + latency if self.arrivals else None
        if not rate:
            return self.ripe, again
        self.budget = min(rate * BURST, self.budget + (now - self.budgeted) * rate)
        self.budgeted = now
        if self.ripe > self.budget:
            again = now + BURST
        return min(self.ripe, int(self.budget)), again

    def written(self, count: int) -> None:
        """Remove bytes that the sink has accepted."""
        del self.buffer[:count]
        self.ripe -= count
        self.budget = max(0.0, self.budget - count)


class _Pair:
    """A client's connection and its upstream connection; lives on the proxy thread."""

    def __init__(self, client: socket.socket, upstream: socket.socket) -> None:
        self.client = client
        self.upstream = upstream
        self.connecting = True
        self.pipes = (_Pipe(client, upstream, UP), _Pipe(upstream, client, DOWN))


class Forwarder:
    """The thread of a FaultProxy. Call the methods on this thread, except ``call`` and ``end``.

    ``changed`` guards all state; every iteration notifies it.
    """

    def __init__(self, upstream: tuple[str, int], port: int) -> None:
        self.upstream = upstream
        self.changed = threading.Condition()
        self.chunk_size = BUFFER
        self.pairs: list[_Pair] = []
        self.accepted = 0
        self.cuts = 0
        self.frozen: set[str] = set()
        self.held_back = {UP: 0, DOWN: 0}
        self.latency = {UP: 0.0, DOWN: 0.0}
        self.rate = {UP: 0, DOWN: 0}
        self._abandoned: list[socket.socket] = []
        self._again: float | None = None
        self.cut_at: dict[str, int] = {}
        self.forwarded = {UP: 0, DOWN: 0}
        self._listener: socket.socket | None = _listen(port)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._calls: list[Callable[[], object]] = []
        self._stopping = False
        self._wake_in, self._wake_out = socket.socketpair()
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], object]) -> None:
        """Run a function on the proxy thread and wait for its end; for any other thread.

        :raises TimeoutError: the proxy thread does not answer within 10 seconds
        """
        done = threading.Event()

        def run() -> None:
            try:
                function()
            finally:
                done.set()

        with self.changed:
            if self._stopping:
                return
            self._calls.append(run)
            self._wake_out.send(b"w")
        if not done.wait(10):
            raise TimeoutError("the proxy's thread does not answer")

    def end(self) -> None:
        """End the proxy thread; for any other thread."""
        with self.changed:
            if not self._stopping:
                self._stopping = True
                self._wake_out.send(b"w")
        self._thread.join(10)

    def cut(self) -> None:
        """Reset all connections."""
        for pair in list(self.pairs):
            self._close(pair, reset=True)

    def abandon(self) -> None:
        """Reset all upstream connections; leave client connections open, without FIN or RST."""
        for pair in list(self.pairs):
            self.pairs.remove(pair)
            for sock in (pair.client, pair.upstream):
                with contextlib.suppress(KeyError):
                    self._selector.unregister(sock)
            _reset(pair.upstream)
            self._abandoned.append(pair.client)

    def bury(self) -> None:
        """Reset the client connections left open by ``abandon``."""
        while self._abandoned:
            _reset(self._abandoned.pop())

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._select()
        finally:
            with self.changed:
                self._stopping = True
                for pair in list(self.pairs):
                    self._close(pair, reset=False)
                self.bury()
                self.stop_listening()
                for call in self._calls:
                    call()
            self._selector.close()
            self._wake_in.close()
            self._wake_out.close()

    def _select(self) -> None:
        wait = None if self._again is None else max(0.0, self._again - time.monotonic())
        ready = self._selector.select(wait)
        with self.changed:
            self._again = None
            for key, events in ready:
                if key.fileobj is self._wake_in:
                    self._wake_in.recv(4096)
                elif key.fileobj is self._listener:
                    with contextlib.suppress(OSError):
                        self._accept()
                elif key.data in self.pairs:
                    self._serve(key.data, key.fileobj, events)
            calls, self._calls = self._calls, []
            for call in calls:
                call()
            for pair in list(self.pairs):
                self._pump(pair)
            self.changed.notify_all()

    def _accept(self) -> None:
        assert self._listener is not None
        client, _ = self._listener.accept()
        self.accepted += 1
        upstream = socket.socket(_family(self.upstream[0]))
        for sock in (client, upstream):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        upstream.connect_ex(self.upstream)
        pair = _Pair(client, upstream)
        self.pairs.append(pair)
        self._selector.register(upstream, selectors.EVENT_WRITE, pair)

    def _serve(self, pair: _Pair, sock: Any, events: int) -> None:
        if pair.connecting:
            if pair.upstream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                return self._close(pair, reset=True)
            pair.connecting = False
        if events & selectors.EVENT_READ:
            pipe = pair.pipes[0] if sock is pair.client else pair.pipes[1]
            self._read(pair, pipe)
        return None

    def _read(self, pair: _Pair, pipe: _Pipe) -> None:
        if pipe.direction in self.frozen or len(pipe.buffer) >= BUFFER:
            return
        try:
            data = pipe.source.recv(BUFFER - len(pipe.buffer))
        except BlockingIOError:
            return
        except OSError:
            return self._close(pair, reset=True)
        pipe.add(data, time.monotonic())
        pipe.ended = not data

    def _pump(self, pair: _Pair) -> None:
        """Write what the limits allow and register for the next events."""
        if pair.connecting:
            return
        for pipe in pair.pipes:
            try:
                self._write(pair, pipe)
            except OSError:
                return self._close(pair, reset=True)
            if pair not in self.pairs:
                return
        if all(pipe.shut for pipe in pair.pipes):
            return self._close(pair, reset=False)
        for reading, writing in (pair.pipes, pair.pipes[::-1]):
            self._watch(pair, reading, writing)

    def _write(self, pair: _Pair, pipe: _Pipe) -> None:
        if pipe.direction in self.frozen:
            return
        keep = 0 if pipe.ended else self.held_back[pipe.direction]
        allowed = self._allowed(pipe)
        pipe.blocked = False
        while allowed and len(pipe.buffer) > keep:
            size = min(len(pipe.buffer) - keep, max(1, self.chunk_size), allowed)
            left = self.cut_at.get(pipe.direction)
            try:
                sent = pipe.sink.send(pipe.buffer[: size if left is None else min(size, left)])
            except BlockingIOError:
                pipe.blocked = True
                return
            pipe.written(sent)
            allowed -= sent
            self.forwarded[pipe.direction] += sent
            if left is not None and self._spend(pair, pipe.direction, left - sent):
                return
        if pipe.ended and not pipe.shut and not pipe.buffer:
            pipe.shut = True
            pipe.sink.shutdown(socket.SHUT_WR)

    def _allowed(self, pipe: _Pipe) -> int:
        count, again = pipe.allowed(
            self.latency[pipe.direction], self.rate[pipe.direction], time.monotonic()
        )
        if again is not None and (self._again is None or again < self._again):
            self._again = again
        return count

    def _spend(self, pair: _Pair, direction: str, left: int) -> bool:
        """Count down ``cut_after``; return True if it has reset the connection."""
        self.cut_at[direction] = left
        if left > 0:
            return False
        del self.cut_at[direction]
        self.cuts += 1
        self._close(pair, reset=True)
        return True

    def _watch(self, pair: _Pair, reading: _Pipe, writing: _Pipe) -> None:
        """Register ``reading.source``, which is also ``writing.sink``."""
        events = 0
        if not (reading.ended or reading.direction in self.frozen):
            events |= selectors.EVENT_READ if len(reading.buffer) < BUFFER else 0
        keep = 0 if writing.ended else self.held_back[writing.direction]
        waits = writing.blocked or not (
            self.latency[writing.direction] or self.rate[writing.direction]
        )
        if len(writing.buffer) > keep and writing.direction not in self.frozen and waits:
            events |= selectors.EVENT_WRITE
        known = self._selector.get_map().get(reading.source)
        if known is not None and (not events or known.events != events):
            self._selector.unregister(reading.source)
            known = None
        if events and known is None:
            self._selector.register(reading.source, events, pair)

    def _close(self, pair: _Pair, *, reset: bool) -> None:
        if pair not in self.pairs:
            return
        self.pairs.remove(pair)
        for sock in (pair.client, pair.upstream):
            with contextlib.suppress(KeyError):
                self._selector.unregister(sock)
            if reset:
                _reset(sock)
            else:
                sock.close()

    def stop_listening(self) -> None:
        """Close the port."""
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def start_listening(self) -> None:
        """Open the port again."""
        if self._listener is None:
            self._listener = _listen(self.port)
            self._selector.register(self._listener, selectors.EVENT_READ)


def _listen(port: int) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", port))
    listener.setblocking(False)
    return listener


def _reset(sock: socket.socket) -> None:
    """Close a socket with RST."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
