# SPDX-License-Identifier: Apache-2.0
"""Certificates for the bars, made by trustme, in PEM files."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """Paths of a certificate and of its key."""

    cert: str
    key: str


class Authority:
    """A CA. `folder` is where the files go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ca = trustme.CA(organization_name="bars")
        self._count = 0
        self.ca_file = str(folder / "ca.pem")
        self._ca.cert_pem.write_to_path(self.ca_file)

    def server(self, *names: str, expired: bool = False) -> Certificate:
        """For a server with these host names or IP addresses."""
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        times = {"not_before": now - 2 * _DAY, "not_after": now - _DAY} if expired else {}
        return self._write(self._ca.issue_cert(*names, **times))

    def client(self, name: str, password: str | None = None) -> Certificate:
        """For a client with this common name; the key encrypted with the password, if any."""
        leaf = self._ca.issue_cert(f"{name}@bars.test", common_name=name)
        found = self._write(leaf)
        if password is not None:
            key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
            Path(found.key).write_bytes(
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.BestAvailableEncryption(password.encode()),
                )
            )
        return found

    def another(self) -> Authority:
        """A CA that has nothing to do with this one."""
        self._count += 1
        folder = self._folder / f"other-{self._count}"
        folder.mkdir()
        return Authority(folder)

    def _write(self, leaf: trustme.LeafCert) -> Certificate:
        self._count += 1
        cert = str(self._folder / f"{self._count}.pem")
        key = str(self._folder / f"{self._count}.key")
        for index, blob in enumerate(leaf.cert_chain_pems):
            blob.write_to_path(cert, append=index > 0)
        leaf.private_key_pem.write_to_path(key)
        return Certificate(cert, key)
