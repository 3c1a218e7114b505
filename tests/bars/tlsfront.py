# SPDX-License-Identifier: Apache-2.0
"""A TLS server in front of a peer that speaks none; takes down what clients showed it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from types import TracebackType
from typing import Any, Self

from tests.bars.certificates import Certificate


class TlsFront:
    """Listens on 127.0.0.1 and passes the plaintext on to a port there.

    Threads of its own; a context manager.

    :param port: of the peer behind it
    :param certificate: to show
    :param client_ca: CA of the certificates that clients have to show, if any
    :param maximum: highest TLS version it speaks
    """

    def __init__(
        self,
        port: int,
        certificate: Certificate,
        *,
        client_ca: str | None = None,
        maximum: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED,
    ) -> None:
        self.server_names: list[str | None] = []
        self.versions: list[str | None] = []
        self.clients: list[Any] = []
        self._upstream = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.cert, certificate.key)
        self._context.maximum_version = maximum
        self._context.sni_callback = self._named
        if client_ca is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(client_ca)
        self._lock = threading.Lock()
        self._stopped = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._run(self._accept)

    def _named(self, sock: Any, name: str | None, context: ssl.SSLContext) -> None:
        self.server_names.append(name)

    def _run(self, target: Any, *arguments: Any) -> None:
        threading.Thread(target=target, args=arguments, name="tls-front", daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._run(self._serve, self._listener.accept()[0])

    def _keep(self, sock: socket.socket) -> bool:
        """Have stop() close it; False if that was before: it is closed."""
        with self._lock:
            if not self._stopped:
                self._sockets.append(sock)
                return True
        sock.close()
        return False

    def _serve(self, client: socket.socket) -> None:
        if not self._keep(client):
            return
        try:
            secure = self._context.wrap_socket(client, server_side=True)
        except OSError:
            client.close()
            return
        self.versions.append(secure.version())
        self.clients.append(secure.getpeercert())
        if not self._keep(secure):
            return
        try:
            upstream = socket.create_connection(("127.0.0.1", self._upstream))
        except OSError:  # the bus has gone before
            secure.close()
            return
        if self._keep(upstream):
            self._run(self._copy, upstream, secure)
            self._copy(secure, upstream)

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Closes everything."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._stopped = True
        for sock in [self._listener, *self._sockets]:
            sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
