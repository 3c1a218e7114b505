# SPDX-License-Identifier: Apache-2.0

"""Certificates for the tests of TLS, made once in a session."""

import datetime
import pathlib
import ssl
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

KEY_PASSWORD = "open sesame"


class Certificates:
    """A CA, what it has issued, and files for the client."""

    def __init__(self, folder: pathlib.Path) -> None:
        past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        self.ca = trustme.CA()
        self.good = self.ca.issue_cert("localhost", "127.0.0.1", "bus.example.org")
        self.common_name = self.ca.issue_cert(common_name="127.0.0.1")
        self.host_as_common_name = _without_names(self.ca, "localhost")
        self.address_as_common_name = _without_names(self.ca, "127.0.0.1")
        self.address_and_common_name = self.ca.issue_cert("127.0.0.9", common_name="localhost")
        self.other_and_common_name = self.ca.issue_cert(
            "other.example.org", common_name="localhost"
        )
        self.other_name = self.ca.issue_cert("other.example.org", "127.0.0.9")
        self.expired = self.ca.issue_cert(
            "localhost", not_before=past, not_after=past + datetime.timedelta(days=1)
        )
        self.early = self.ca.issue_cert(
            "localhost",
            not_before=datetime.datetime(2200, 1, 1, tzinfo=datetime.UTC),
            not_after=datetime.datetime(2201, 1, 1, tzinfo=datetime.UTC),
        )
        self.foreign_ca = trustme.CA()
        self.foreign = self.foreign_ca.issue_cert("localhost")
        client = self.ca.issue_cert("client@example.org")
        foreign_client = self.foreign_ca.issue_cert("client@example.org")

        self.ca_file = _write(folder / "ca.pem", self.ca.cert_pem.bytes())
        self.cert_file = _write(folder / "client.pem", client.cert_chain_pems[0].bytes())
        self.key_file = _write(folder / "client.key", client.private_key_pem.bytes())
        self.locked_key_file = _write(folder / "locked.key", _encrypted(client))
        self.other_key_file = _write(folder / "other.key", foreign_client.private_key_pem.bytes())
        self.foreign_cert_file = _write(
            folder / "foreign.pem", foreign_client.cert_chain_pems[0].bytes()
        )
        self.garbage_file = _write(folder / "garbage.pem", b"not a certificate")
        self.missing_file = str(folder / "missing.pem")

    def server(self, cert: Any, *, ask_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        cert.configure_cert(context)
        if ask_client:
            context.verify_mode = ssl.CERT_REQUIRED
            self.ca.configure_trust(context)
        return context


def _write(path: pathlib.Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def _without_names(ca: trustme.CA, common_name: str) -> trustme.LeafCert:
    """A certificate that has no subjectAltName at all; trustme makes one, if only an empty one."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(ca.cert_pem.bytes())
    signer: Any = serialization.load_pem_private_key(ca.private_key_pem.bytes(), None)
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(signer, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return trustme.LeafCert(private, certificate.public_bytes(serialization.Encoding.PEM), [])


def _encrypted(cert: Any) -> bytes:
    key = serialization.load_pem_private_key(cert.private_key_pem.bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
    )
