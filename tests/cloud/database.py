# SPDX-License-Identifier: Apache-2.0
"""MariaDB through tools/mariadb.sh, and the tables of all services, which are made once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_TOOL = Path(__file__).resolve().parents[2] / "tools" / "mariadb.sh"

#: names of the databases
NAMES = (
    *("keystone", "placement", "glance"),
    *("nova_api", "nova_cell0", "nova_cell1", "neutron", "cinder"),
)

#: gives the first user the role that services need when they act for a user
_SERVICE_ROLE = """
INSERT INTO keystone.assignment (type, actor_id, target_id, role_id, inherited)
SELECT given.type, given.actor_id, given.target_id, role.id, 0
FROM keystone.assignment AS given JOIN keystone.role AS role ON role.name = 'service'
WHERE given.type = 'UserProject';
"""


class DatabaseError(Exception):
    """MariaDB, or a command that makes tables, has failed."""


class Database:
    """One server with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self) -> None:
        """Return when it answers."""
        self._run("start", str(self.folder))

    def stop(self) -> None:
        """Shut it down."""
        self._run("stop", str(self.folder))

    def sql(self, text: str) -> str:
        """Run statements; return what they print."""
        return self._run("sql", str(self.folder), "--batch", "--skip-column-names", "-e", text)

    def create(self) -> None:
        """Make all databases, without tables."""
        self.sql("".join(f"CREATE DATABASE {name} CHARACTER SET utf8;" for name in NAMES))

    def grant_service_role(self) -> None:
        """Make the first user a service user too."""
        self.sql(_SERVICE_ROLE)

    def copy(self, other: Path) -> None:
        """Copy the data of a server that has been shut down into another's folder."""
        shutil.copytree(self.folder / "data", other / "data")
        (other / "tmp").mkdir(exist_ok=True)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            ["bash", str(_TOOL), *arguments],
            stdin=subprocess.DEVNULL,
            # a file, since the server inherits it: the end of a pipe would never come
            capture_output=arguments[0] != "start",
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            said = (done.stderr or "").strip()
            raise DatabaseError(f"mariadb.sh {' '.join(arguments[:2])} failed: {said}")
        return done.stdout or ""
