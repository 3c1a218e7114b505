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

"""TLS of the bus's listener: Python's ssl over memory buffers (sans-I/O), on the bus thread."""

from __future__ import annotations

import ssl
from typing import Any

_CHUNK = 65536


def server_context(cert_file: str, key_file: str, ca_file: str | None) -> ssl.SSLContext:
    """Build the context; with ``ca_file`` a client must show a certificate signed by that CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert_file, key_file)
    if ca_file is not None:
        context.load_verify_locations(ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class TlsServer:
    """One TLS connection. :meth:`feed` ciphertext, :meth:`wrap` plaintext, send :attr:`output`."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._established = False
        self.output = bytearray()

    @property
    def subject(self) -> str | None:
        """Common name of the client's certificate (its whole subject without one), or None."""
        certificate: Any = self._tls.getpeercert() if self._established else None
        if not certificate:
            return None
        names = [pair for rdn in certificate.get("subject", ()) for pair in rdn]
        for name, value in names:
            if name == "commonName":
                return str(value)
        return ",".join(f"{name}={value}" for name, value in names) or "unnamed"

    @property
    def established(self) -> bool:
        """True once the handshake is over."""
        return self._established

    def feed(self, data: bytes) -> bytes:
        """Take ciphertext, return plaintext; raises ssl.SSLError (its alert is in the output)."""
        self._incoming.write(data)
        try:
            if not self._established:
                self._tls.do_handshake()
                self._established = True
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        finally:
            self._collect()

    def _read(self) -> bytes:
        plain = bytearray()
        try:
            while chunk := self._tls.read(_CHUNK):
                plain += chunk
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return bytes(plain)

    def wrap(self, data: bytes | bytearray) -> None:
        """Encrypt ``data`` into the output."""
        self._tls.write(data)
        self._collect()

    def close(self) -> None:
        """Append close_notify to the output, as far as the state of the connection allows."""
        try:
            self._tls.unwrap()
        except (ssl.SSLError, ValueError):
            pass
        self._collect()

    def _collect(self) -> None:
        self.output += self._outgoing.read()
