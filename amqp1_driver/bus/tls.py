# SPDX-License-Identifier: Apache-2.0

"""TLS of the bus's listener: Python's ssl over memory buffers (sans-I/O), on the bus thread."""

from __future__ import annotations

import ssl
from typing import Any

_CHUNK = 65536


def server_context(cert_file: str, key_file: str, ca_file: str | None) -> ssl.SSLContext:
    """Build the TLS context.

    :param ca_file: a client must show a certificate signed by this CA; None = no client
        certificates
    :raises OSError: a file is not readable or not valid; the error names the file
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in (cert_file, key_file, ca_file):
        if path is not None:
            # OpenSSL's own errors name no file
            with open(path, "rb"):
                pass
    try:
        context.load_cert_chain(cert_file, key_file)
    except ssl.SSLError as exc:
        raise OSError(f"no certificate with its key in {cert_file} and {key_file}: {exc}") from exc
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except ssl.SSLError as exc:
            raise OSError(f"no certificate in {ca_file}: {exc}") from exc
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class TlsServer:
    """One TLS connection. :meth:`feed` ciphertext, :meth:`wrap` plaintext, send :attr:`output`."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._established = False  # True once the handshake is over
        self.output = bytearray()

    @property
    def subject(self) -> str | None:
        """Return the client's name from its certificate, None without a certificate.

        :returns: the common name; the whole subject if the certificate has no common name
        """
        certificate: Any = self._tls.getpeercert() if self._established else None
        if not certificate:
            return None
        names = [pair for rdn in certificate.get("subject", ()) for pair in rdn]
        for name, value in names:
            if name == "commonName":
                return str(value)
        return ",".join(f"{name}={value}" for name, value in names) or "unnamed"

    def feed(self, data: bytes) -> bytes:
        """Take ciphertext, return plaintext.

        :raises ssl.SSLError: the connection has failed; the output then contains the alert
        """
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
