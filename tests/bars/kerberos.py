# SPDX-License-Identifier: Apache-2.0

"""A Kerberos realm for a test: Debian's KDC, unpacked into a private folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.bars.ports import lasting_port

REALM = "TEST.EXAMPLE"
PACKAGES = (
    "krb5-kdc",
    "krb5-user",
    "krb5-admin-server",
    "libsasl2-modules-gssapi-mit",
    "libkdb5-10",
    "libkadm5srv-mit12",
    "libkadm5clnt-mit12",
    "libgssrpc4",
    "libverto1",
    "libverto-libev1",
    "libev4",
)
_LIBRARIES = "usr/lib/x86_64-linux-gnu"

_CLIENT = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 rdns = false
 dns_canonicalize_hostname = false
 udp_preference_limit = 1
 ignore_acceptor_hostname = true
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""
_SERVER = """\
[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
 }}
[dbmodules]
 db_module_dir = {root}/{libraries}/krb5/plugins/kdb
"""


class Realm:
    """A KDC with one user and one service; a context manager.

    :param folder: private to this realm
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder / "root"
        self._kdc: subprocess.Popen[bytes] | None = None
        libraries = self._root / _LIBRARIES
        #: of processes that take part
        self.environment = {
            **os.environ,
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "LD_LIBRARY_PATH": str(libraries),
            "KRB5CCNAME": str(folder / "tickets"),
            "KRB5_KTNAME": str(folder / "service.keytab"),
            "SASL_PATH": f"{libraries}/sasl2:/{_LIBRARIES}/sasl2",
        }

    def __enter__(self) -> Self:
        self._unpack()
        port = lasting_port()
        names = {
            "realm": REALM,
            "port": port,
            "folder": self._folder,
            "root": self._root,
            "libraries": _LIBRARIES,
        }
        (self._folder / "krb5.conf").write_text(_CLIENT.format(**names))
        (self._folder / "kdc.conf").write_text(_SERVER.format(**names))
        self._run("sbin/kdb5_util", "create", "-s", "-P", "master")
        self._admin("addprinc -randkey user")
        self._admin("addprinc -randkey amqp/localhost")
        self._admin(f"ktadd -k {self._folder}/service.keytab amqp/localhost")
        self._admin(f"ktadd -k {self._folder}/user.keytab user")
        self._kdc = subprocess.Popen(
            [self._root / "usr/sbin/krb5kdc", "-n"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self._kdc.stdout is not None
        assert b"starting" in self._kdc.stdout.readline()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._kdc is not None:
            self._kdc.kill()
            self._kdc.communicate()

    def log_in(self) -> None:
        """Get a ticket for the user."""
        self._run("bin/kinit", "-k", "-t", str(self._folder / "user.keytab"), "user")

    def log_out(self) -> None:
        """Destroy the user's tickets."""
        self._run("bin/kdestroy")

    def _unpack(self) -> None:
        packages = self._folder / "packages"
        packages.mkdir()
        subprocess.run(
            ["apt-get", "download", "-qq", *PACKAGES],
            cwd=packages,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for package in packages.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, self._root], check=True)

    def _admin(self, command: str) -> None:
        self._run("sbin/kadmin.local", "-q", command)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._root / "usr" / program, *arguments],
            check=True,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
