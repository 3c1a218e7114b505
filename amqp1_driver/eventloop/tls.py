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

"""TLS without sockets: bytes in, bytes out, and errors that say what is wrong."""

import ssl
from dataclasses import dataclass, field
from typing import Any

from amqp1_driver.eventloop.errors import TlsError, describe

_MIN_VERSIONS = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}

# X509_V_ERR_* of OpenSSL -> what is wrong with the peer's certificate.
_VERIFY_CAUSES = {
    9: "the certificate of the peer is not yet valid",
    10: "the certificate of the peer has expired",
    18: "the certificate of the peer is self-signed and unknown",
    19: "the certificate of the peer comes from an unknown CA (self-signed)",
    20: "the certificate of the peer comes from an unknown CA",
    21: "the certificate of the peer comes from an unknown CA",
    23: "the certificate of the peer has been revoked",
    62: "wrong host name in the certificate of the peer",
    64: "wrong IP address in the certificate of the peer",
}

# SSLError.reason of OpenSSL -> what it means to whoever set this up.
_NOT_TLS = "the peer does not speak TLS (is this a clear port?)"
_VERSIONS = "no TLS version in common with the peer"
_REFUSED = "the peer refuses our client certificate"
_REASON_CAUSES = {
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "HTTP_REQUEST": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": _NOT_TLS,
    "UNSUPPORTED_PROTOCOL": _VERSIONS,
    "TLSV1_ALERT_PROTOCOL_VERSION": _VERSIONS,
    "VERSION_TOO_LOW": _VERSIONS,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the peer accepts none of our ciphers, or wants a client"
    " certificate",
    "TLSV1_UNRECOGNIZED_NAME": "the peer does not know the server name asked for",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer requires a client certificate",
    "TLSV1_ALERT_UNKNOWN_CA": _REFUSED + ": unknown CA",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _REFUSED + ": expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": _REFUSED + ": revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _REFUSED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _REFUSED,
    "TLSV1_ALERT_ACCESS_DENIED": _REFUSED + ": access denied",
}


@dataclass(frozen=True, slots=True)
class TlsParameters:
    """How to speak TLS. Files are PEM; without ``ca_file`` the system's CAs are trusted.

    ``server_name`` is sent as SNI and looked for in the certificate; None stands for the host
    that is connected to. Without ``verify`` the certificate is not looked at.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    min_version: str = "TLSv1.2"
    server_name: str | None = None
    verify: bool = True


def make_context(parameters: TlsParameters) -> ssl.SSLContext:
    """The context for a client; reads files, so not on the loop thread.

    :raises TlsError: a file is missing or no good, the key password is wrong or missing, or
        the minimum version is unknown.
    """
    minimum = _MIN_VERSIONS.get(parameters.min_version)
    if minimum is None:
        raise TlsError(f"unknown minimum TLS version {parameters.min_version!r}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = minimum
    if not parameters.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif parameters.ca_file:
        try:
            context.load_verify_locations(parameters.ca_file)
        except (OSError, ValueError) as exc:
            raise TlsError(f"CA file {parameters.ca_file}: {_file_cause(exc)}") from exc
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if parameters.cert_file:
        _load_certificate(context, parameters)
    return context


def _load_certificate(context: ssl.SSLContext, parameters: TlsParameters) -> None:
    assert parameters.cert_file is not None
    asked = False

    def password() -> str:
        # Given a function, OpenSSL never asks on the terminal, which would block the process.
        nonlocal asked
        asked = True
        return parameters.key_password or ""

    files = parameters.cert_file + (f", key {parameters.key_file}" if parameters.key_file else "")
    try:
        context.load_cert_chain(parameters.cert_file, parameters.key_file or None, password)
    except (OSError, ValueError) as exc:
        cause = _file_cause(exc)
        if asked:
            given = parameters.key_password is not None
            cause = "the key password is wrong" if given else "the key needs a password"
        raise TlsError(f"client certificate {files}: {cause}") from exc


def _file_cause(exc: Exception) -> str:
    if isinstance(exc, ssl.SSLError) and exc.reason == "KEY_VALUES_MISMATCH":
        return "certificate and key do not belong together"
    if isinstance(exc, ssl.SSLError):
        return f"no usable PEM file ({exc.reason or exc})"
    return describe(exc)


class TlsEngine:
    """A client's TLS connection between two byte streams in memory. Lives on the loop thread.

    Feed what the peer sent, send what take_output() gives, in that order, also after an error:
    the output then holds the alert that tells the peer.
    """

    def __init__(self, context: ssl.SSLContext, server_name: str | None) -> None:
        """:raises TlsError: ``server_name`` is no valid name, or missing where it is checked."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        # The root label's dot belongs to DNS; neither SNI nor certificates have it.
        name = (server_name or "").rstrip(".") or None
        self._name = name
        if context.check_hostname and not name:
            # wrap_bio() would take this, and then check no name at all.
            raise TlsError("no server name to look for in the certificate")
        try:
            self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        except (ValueError, UnicodeError) as exc:
            raise TlsError(f"bad server name {name!r}: {describe(exc)}") from exc
        self._established = False
        self._closed = False
        #: What broke after the plaintext that the last feed() returned; None: nothing.
        self.error: TlsError | None = None

    @property
    def established(self) -> bool:
        """True once the handshake is over."""
        return self._established

    @property
    def closed(self) -> bool:
        """True once the peer has said that it sends no more."""
        return self._closed

    def describe(self) -> str:
        """Version and cipher in use, for logs."""
        cipher = self._object.cipher()
        return f"{self._object.version()} {cipher[0] if cipher else '?'}"

    def start(self) -> None:
        """Make the first flight of the handshake."""
        self._handshake()

    def feed(self, data: bytes | memoryview) -> bytes:
        """Take bytes from the peer; the plaintext that they bring, maybe empty.

        :raises TlsError: handshake or record layer failed; nothing works any more. Plaintext
            from before the failure is returned first: the failure is then in ``error``.
        """
        self._incoming.write(data)
        if not self._established:
            self._handshake()
            if not self._established:
                return b""
        return self._read()

    def feed_eof(self) -> None:
        """The peer closed its side.

        :raises TlsError: in the middle of the handshake.
        """
        self._incoming.write_eof()
        if not self._established:
            raise TlsError("the peer closed the connection during the handshake")

    def wrap(self, data: bytes | memoryview) -> int:
        """Encrypt plaintext to the output; how much was taken (0: only after more input)."""
        try:
            return self._object.write(data)
        except ssl.SSLWantReadError:
            return 0
        except ssl.SSLError as exc:
            raise TlsError(self._cause(exc)) from exc

    def take_output(self) -> bytes:
        """What is to be sent to the peer now, maybe empty."""
        return self._outgoing.read()

    def close_notify(self) -> None:
        """Tell the peer that no more data follows; goes to the output, waits for nothing."""
        if self._established:
            try:
                self._object.unwrap()
            except (ssl.SSLError, ValueError):
                pass  # WantRead: its answer is not waited for; others: broken anyway

    def _handshake(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as exc:
            raise TlsError(self._cause(exc)) from exc
        self._established = True

    def _read(self) -> bytes:
        chunks: list[bytes] = []
        try:
            while not self._closed:
                chunk = self._object.read(65536)
                if not chunk:
                    self._closed = True
                chunks.append(chunk)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._closed = True
        except ssl.SSLError as exc:
            self.error = TlsError(self._cause(exc))
            self.error.__cause__ = exc
            if not chunks:
                raise self.error from exc
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _cause(self, exc: ssl.SSLError) -> str:
        if isinstance(exc, ssl.SSLCertVerificationError):
            cause = _VERIFY_CAUSES.get(exc.verify_code)
            detail: Any = exc.verify_message
            if exc.verify_code in (62, 64):
                detail = f"expected {self._name}"
            return f"{cause or 'the certificate of the peer is no good'} ({detail})"
        cause = _REASON_CAUSES.get(exc.reason or "")
        if cause is _NOT_TLS and self._established:
            cause = "the peer sent a broken record"
        return f"{cause} ({exc.reason})" if cause else str(exc.reason or exc)
