# SPDX-License-Identifier: Apache-2.0
"""Where the parts of one cloud are, and the options that all its services share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: services with a public API
APIS = ("keystone", "placement", "glance", "nova", "neutron", "cinder")
#: what one option of a configuration file may be
Value = str | int | bool | Sequence[str]
Sections = dict[str, dict[str, Value]]

INSIDE = Path(__file__).with_name("inside")


@dataclass(frozen=True)
class Layout:
    """One cloud on this machine.

    :param run: folder of this run
    :param venv: virtual environment that the services are installed in
    :param site: folder that holds the driver, for PYTHONPATH
    :param ports: TCP port of each API on 127.0.0.1
    :param transport_url: of the message bus, for all but the cell
    :param cell_url: of the message bus for the cell
    :param computes: number of hosts that run servers
    :param eventlet: names of the services that run with eventlet instead of native threads
    """

    run: Path
    venv: Path
    site: Path
    ports: Mapping[str, int]
    transport_url: str
    cell_url: str
    computes: int
    eventlet: frozenset[str] = field(default_factory=frozenset)
    password: str = "secret"

    @property
    def etc(self) -> Path:
        """Configuration files."""
        return self.run / "etc"

    @property
    def logs(self) -> Path:
        """One file for each service."""
        return self.run / "logs"

    @property
    def state(self) -> Path:
        """What services keep on disk."""
        return self.run / "state"

    @property
    def socket(self) -> Path:
        """MariaDB listens here only."""
        return self.run / "database" / "socket"

    @property
    def recorder(self) -> Path:
        """Unix socket on which the recorder hears the services."""
        return self.run / "recorder"

    def host(self, number: int) -> str:
        """Return the name of the host that runs servers, from 1 on."""
        return f"compute-{number}"

    def hosts(self) -> list[str]:
        """Return the names of all hosts that run servers."""
        return [self.host(number) for number in range(1, self.computes + 1)]

    def database(self, name: str) -> str:
        """Return SQLAlchemy's URL of a database."""
        return f"mysql+pymysql://root@localhost/{name}?unix_socket={self.socket}&charset=utf8"

    def url(self, service: str) -> str:
        """Return the URL of an API, without version."""
        return f"http://127.0.0.1:{self.ports[service]}"

    def program(self, name: str) -> str:
        """Return the path of a program of the virtual environment."""
        return str(self.venv / "bin" / name)

    def uwsgi(self, module: str, port: int, *arguments: str) -> list[str]:
        """Return the command that serves a WSGI application: one process of eight threads."""
        return [
            self.program("uwsgi"),
            *("--http-socket", f"127.0.0.1:{port}", "--module", f"{module}:application"),
            *("--virtualenv", str(self.venv), "--processes", "1", "--threads", "8"),
            *("--enable-threads", "--lazy-apps", "--need-app", "--die-on-term", "--master"),
            *("--thunder-lock", "--buffer-size", "65535", "--disable-logging"),
            *("--hook-master-start", "unix_signal:15 gracefully_kill_them_all"),
            # it closes connections, but does not say so: the next request on one would be reset
            *("--add-header", "Connection: close", "--worker-reload-mercy", "20"),
            *arguments,
        ]

    def write(self, path: Path, sections: Sections) -> Path:
        """Write a configuration file; a value may be a list, for an option that may be repeated."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = []
        for section, options in sections.items():
            lines.append(f"[{section}]")
            for name, value in options.items():
                values = [value] if isinstance(value, str | int) else value
                lines += [f"{name} = {one}" for one in values]
        path.write_text("\n".join(lines) + "\n")
        return path

    def common(self) -> Sections:
        """Return what every service's configuration file holds."""
        return {
            "DEFAULT": {
                "transport_url": self.transport_url,
                "use_stderr": True,
                # a cloud's defaults, but for what only floods
                "debug": False,
                "rpc_response_timeout": 60,
            },
            "oslo_messaging_notifications": {"driver": "messagingv2"},
            "oslo_concurrency": {"lock_path": str(self.state / "locks")},
            "keystone_authtoken": {
                **self.credentials(),
                "www_authenticate_uri": self.url("keystone"),
            },
        }

    def credentials(self) -> dict[str, Value]:
        """Return the options of keystoneauth1 that log a service in."""
        return {
            "auth_type": "password",
            "auth_url": self.url("keystone") + "/v3",
            "username": "admin",
            "password": self.password,
            "project_name": "admin",
            "user_domain_id": "default",
            "project_domain_id": "default",
            "region_name": "RegionOne",
        }

    def environment(self) -> dict[str, str]:
        """Return the environment of all services."""
        kept = ("HOME", "LANG", "LC_ALL", "TMPDIR", "USER")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "PATH": f"{self.venv / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": f"{self.site}:{INSIDE}",
            "PYTHONUNBUFFERED": "1",
            "CLOUD_RECORDER": str(self.recorder),
            "OS_KEYSTONE_CONFIG_DIR": str(self.etc / "keystone"),
            "OS_PLACEMENT_CONFIG_DIR": str(self.etc / "placement"),
            "OS_GLANCE_CONFIG_DIR": str(self.etc / "glance"),
        }


def merged(*parts: Sections) -> Sections:
    """Return one configuration of several; what comes later wins."""
    sections: Sections = {}
    for part in parts:
        for name, options in part.items():
            sections.setdefault(name, {}).update(options)
    return sections
