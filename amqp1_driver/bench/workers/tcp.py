# SPDX-License-Identifier: Apache-2.0

"""TCP between two processes, a connection for each thread: the bound that no driver can beat."""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import Any

from .load import Load, drive
from .worker import Worker

#: sender, number, time, length of the payload that follows
_HEAD = struct.Struct("!qqqI")


def read(sock: socket.socket, length: int) -> bytes:
    """Read exactly ``length`` bytes.

    :raises EOFError: the peer closes the connection before
    """
    data = sock.recv(length)
    if len(data) == length:
        return data
    parts, left = [data], length - len(data)
    while left:
        if not parts[-1]:
            raise EOFError("the peer has closed the connection")
        parts.append(sock.recv(left))
        left -= len(parts[-1])
    return b"".join(parts)


class Server(Worker):
    """A listener at the URL's address, which echoes calls. It has a thread for each connection."""

    driver = "tcp"

    def open(self) -> None:
        """Start to listen, and to accept connections."""
        listener = socket.create_server(address(self.order["url"]), backlog=1024)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        answers = self.order["operation"] == "call"
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                head = read(sock, _HEAD.size)
            except (EOFError, OSError):
                return
            sender, number, at, length = _HEAD.unpack(head)
            payload = read(sock, length) if length else b""
            self.ledger.note(sender, number, at, time.monotonic_ns())
            if answers:
                sock.sendall(head + payload)


class Client(Worker):
    """A sender that waits for each call's echo."""

    driver = "tcp"

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__(order)
        self._local = threading.local()
        self._payload = b"x" * order["size"]
        self._calls = order["operation"] == "call"

    def work(self, load: Load) -> dict[str, Any]:
        """Send; return the outcome as ``load.drive`` does."""
        return drive(load, self._send)

    def _send(self, sender: int, number: int, at: int) -> None:
        sock = getattr(self._local, "sock", None)
        if sock is None:
            sock = self._local.sock = socket.create_connection(
                address(self.order["url"]), self.order["timeout"]
            )
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        payload = self._payload
        sock.sendall(_HEAD.pack(sender, number, at, len(payload)) + payload)
        if self._calls:
            read(sock, _HEAD.size + len(payload))


def address(url: str) -> tuple[str, int]:
    """Return host and port of ``tcp://host:port``."""
    host, _, port = url.partition("://")[2].rstrip("/").rpartition(":")
    return host, int(port)
