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
"""The thread of a FaultProxy: moves bytes between clients and the upstream."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

UP, DOWN = "up", "down"  # client -> upstream, upstream -> client
BUFFER = 65536  # bytes held per direction and connection at most


class _Pipe:
    """One direction of one connection; proxy thread."""

    def __init__(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        self.source = source
        self.sink = sink
        self.direction = direction
        self.buffer = bytearray()
        self.ended = False  # the source has closed its side
        self.shut = False  # and the sink was told


class _Pair:
    """A client's connection and the one to the upstream; proxy thread."""

    def __init__(self, client: socket.socket, upstream: socket.socket) -> None:
        self.client = client
        self.upstream = upstream
        self.connecting = True
        self.pipes = (_Pipe(client, upstream, UP), _Pipe(upstream, client, DOWN))


class Forwarder:
    """Moves the bytes of a FaultProxy; its own thread, but for `call` and `end`.

    `changed` guards everything and is notified after every turn.
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
        """Has the thread run it, and waits for that; any other thread."""
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
        """Ends the thread; any other thread."""
        with self.changed:
            if not self._stopping:
                self._stopping = True
                self._wake_out.send(b"w")
        self._thread.join(10)

    def cut(self) -> None:
        """Resets all."""
        for pair in list(self.pairs):
            self._close(pair, reset=True)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._select()
        finally:
            with self.changed:
                self._stopping = True
                for pair in list(self.pairs):
                    self._close(pair, reset=False)
                self.stop_listening()
                for call in self._calls:
                    call()
            self._selector.close()
            self._wake_in.close()
            self._wake_out.close()

    def _select(self) -> None:
        ready = self._selector.select()
        with self.changed:
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
        pipe.buffer += data
        pipe.ended = not data

    def _pump(self, pair: _Pair) -> None:
        """Writes what may be written and says what to wait for."""
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
        while len(pipe.buffer) > keep:
            size = min(len(pipe.buffer) - keep, max(1, self.chunk_size))
            left = self.cut_at.get(pipe.direction)
            try:
                sent = pipe.sink.send(pipe.buffer[: size if left is None else min(size, left)])
            except BlockingIOError:
                return
            del pipe.buffer[:sent]
            self.forwarded[pipe.direction] += sent
            if left is not None and self._spend(pair, pipe.direction, left - sent):
                return
        if pipe.ended and not pipe.shut:
            pipe.shut = True
            pipe.sink.shutdown(socket.SHUT_WR)

    def _spend(self, pair: _Pair, direction: str, left: int) -> bool:
        """Counts down `cut_after`; True if it struck."""
        self.cut_at[direction] = left
        if left > 0:
            return False
        del self.cut_at[direction]
        self.cuts += 1
        self._close(pair, reset=True)
        return True

    def _watch(self, pair: _Pair, reading: _Pipe, writing: _Pipe) -> None:
        """Registers `reading.source`, which is `writing.sink`."""
        events = 0
        if not (reading.ended or reading.direction in self.frozen):
            events |= selectors.EVENT_READ if len(reading.buffer) < BUFFER else 0
        keep = 0 if writing.ended else self.held_back[writing.direction]
        if len(writing.buffer) > keep and writing.direction not in self.frozen:
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
                linger = struct.pack("ii", 1, 0)
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            sock.close()

    def stop_listening(self) -> None:
        """Closes the port."""
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def start_listening(self) -> None:
        """Opens the port again."""
        if self._listener is None:
            self._listener = _listen(self.port)
            self._selector.register(self._listener, selectors.EVENT_READ)


def _listen(port: int) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", port))
    listener.setblocking(False)
    return listener


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
