# SPDX-License-Identifier: Apache-2.0

"""TLS without sockets, as bytes in and bytes out, with errors that name the cause.

The engine lives on the loop thread; make_context() blocks and runs on another thread.
"""

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

# SSLError.reason of OpenSSL -> what the reason means to the operator.
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
    """The parameters of TLS for a client. All files are PEM.

    :param ca_file: trusted CAs; None trusts the CAs of the system
    :param server_name: sent as SNI and looked for in the certificate; None stands for the host to
        which the transport connects
    :param verify: False skips all checks of the peer's certificate
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    min_version: str = "TLSv1.2"
    server_name: str | None = None
    verify: bool = True


def make_context(parameters: TlsParameters) -> ssl.SSLContext:
    """Return the context for a client. Reads files, so do not call it on the loop thread.

    :raises TlsError: a file is missing or unusable, the key password is wrong or missing, or the
        minimum version is unknown.
    """
    if parameters.min_version not in _MIN_VERSIONS:
        raise TlsError(f"unknown minimum TLS version {parameters.min_version!r}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _MIN_VERSIONS[parameters.min_version]
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

    The owner calls feed() with bytes from the peer, then sends the bytes from take_output(). The
    owner sends them after an error too, as they then hold the alert for the peer.

    :raises TlsError: ``server_name`` is no valid name, or is missing although the context checks
        the name
    """

    def __init__(self, context: ssl.SSLContext, server_name: str | None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        # The dot of the root label belongs to DNS; SNI and certificates do not have it.
        name = (server_name or "").rstrip(".") or None
        self._name = name
        if context.check_hostname and not name:
            # wrap_bio() would accept a missing name and then check no name at all.
            raise TlsError("no server name to look for in the certificate")
        try:
            self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        except (ValueError, UnicodeError) as exc:
            raise TlsError(f"bad server name {name!r}: {describe(exc)}") from exc
        #: True once the handshake is over
        self.established = False
        #: True once the peer has announced that it sends no more data
        self.closed = False
        #: The failure that came after the plaintext returned by the last feed(); None if none came.
        self.error: TlsError | None = None

    def describe(self) -> str:
        """Return the version and cipher in use, for logs."""
        cipher = self._object.cipher()
        return f"{self._object.version()} {cipher[0] if cipher else '?'}"

    def feed(self, data: bytes | memoryview) -> bytes:
        """Take bytes from the peer and return the plaintext in them, which may be empty.

        The first call, without data, puts the first flight of the handshake into the output.

        :raises TlsError: the handshake or the record layer has failed for good. If there was
            plaintext before a failure of the record layer, this call returns the plaintext
            instead, and the failure is in ``error``.
        """
        self._incoming.write(data)
        chunks: list[bytes] = []
        try:
            if not self.established:
                self._object.do_handshake()
                self.established = True
            while chunk := self._object.read(65536):
                chunks.append(chunk)
            self.closed = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.closed = True
        except ssl.SSLError as exc:
            self.error = TlsError(self._cause(exc))
            self.error.__cause__ = exc
            if not chunks:
                raise self.error from exc
        return b"".join(chunks)

    def wrap(self, data: bytes | memoryview) -> int:
        """Encrypt plaintext to the output.

        :returns: the number of bytes taken; 0 if TLS needs more input first
        :raises TlsError: TLS has failed for good
        """
        try:
            return self._object.write(data)
        except ssl.SSLWantReadError:
            return 0
        except ssl.SSLError as exc:
            raise TlsError(self._cause(exc)) from exc

    def take_output(self) -> bytes:
        """Take and return the bytes to send to the peer now; may be empty."""
        return self._outgoing.read()

    def close_notify(self) -> None:
        """Put close_notify (no more data follows) into the output, without waiting."""
        if self.established:
            try:
                self._object.unwrap()
            except (ssl.SSLError, ValueError):
                pass  # WantRead: the peer's answer is of no interest; others: TLS is broken anyway

    def _cause(self, exc: ssl.SSLError) -> str:
        if isinstance(exc, ssl.SSLCertVerificationError):
            cause = _VERIFY_CAUSES.get(exc.verify_code, "the certificate of the peer is no good")
            detail: Any = exc.verify_message
            if exc.verify_code == 62:
                detail = f"expected {self._name} in subjectAltName"
            elif exc.verify_code == 64:
                detail = f"expected {self._name} in subjectAltName; no common name counts for it"
            return f"{cause} ({detail})"
        cause = _REASON_CAUSES.get(exc.reason or "", "")
        if cause is _NOT_TLS and self.established:
            cause = "the peer sent a broken record"
        return f"{cause} ({exc.reason})" if cause else str(exc.reason or exc)
