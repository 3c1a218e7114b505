# SPDX-License-Identifier: Apache-2.0
"""One cloud: its database, its bus, its services, in the order in which they start and end."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import openstack

from tests.cloud import cinder, glance, keystone, neutron, nova, placement
from tests.cloud.bus import Bus
from tests.cloud.database import Database
from tests.cloud.layout import Layout
from tests.cloud.notifications import Listener
from tests.cloud.process import STOP_SECONDS, Process, Service, ServiceError
from tests.cloud.recorder import Recorder

#: in the order in which they start
PROJECTS: tuple[ModuleType, ...] = (keystone, placement, glance, neutron, cinder, nova)

#: seconds
START_SECONDS = 180.0
#: for each host, beside that
HOST_SECONDS = 10.0
SCHEMA_SECONDS = 300.0

Say = Callable[[str], None]


class Cloud:
    """A cloud that runs between :meth:`start` and :meth:`stop`.

    :param layout: where its parts are
    :param bus: that the transport URLs lead to, which runs
    :param cache: folder for what does not change from run to run
    :param say: is told what goes on
    """

    def __init__(self, layout: Layout, bus: Bus, cache: Path, say: Say) -> None:
        self.layout = layout
        self.bus = bus
        self.say = say
        self._cache = cache
        self.database = Database(layout.run / "database")
        self.processes: dict[str, Process] = {}
        for folder in (layout.etc, layout.logs, layout.state, layout.state / "locks"):
            folder.mkdir(parents=True, exist_ok=True)
        self.recorder = Recorder(layout.recorder, layout.run / "events.jsonl")
        self.listener = Listener([layout.transport_url, layout.cell_url])
        #: as the first user, an administrator
        self.api = self._connection()

    def _connection(self) -> openstack.connection.Connection:
        return openstack.connection.Connection(
            auth={
                "auth_url": self.layout.url("keystone") + "/v3",
                "username": "admin",
                "password": self.layout.password,
                "project_name": "admin",
                "user_domain_id": "default",
                "project_domain_id": "default",
            },
            region_name="RegionOne",
            compute_default_microversion="2.95",
            app_name="cloud",
        )

    # --- set-up

    def prepare(self) -> None:
        """Write all configuration, and fill the database: from the cache, or by the services' own
        commands the first time.
        """
        for project in PROJECTS:
            project.configure(self.layout)
        folder = self._cache / f"state-{self._key()}"
        self._cache.mkdir(parents=True, exist_ok=True)
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "complete").exists():
                self._make_state(folder)
        Database(folder).copy(self.database.folder)
        shutil.copytree(folder / "keystone", self.layout.state / "keystone", dirs_exist_ok=True)
        self.database.start()
        self.database.sql(keystone.relocate(self.layout) + nova.relocate(self.layout))

    def _key(self) -> str:
        """Return a name for the state that the services' commands make."""
        commands = repr([project.schema(self.layout) for project in PROJECTS])
        for changing in (self.layout.run, self.layout.cell_url, self.layout.venv):
            commands = commands.replace(str(changing), "")
        versions = Path(__file__).with_name("requirements.txt").read_text()
        return hashlib.sha256((versions + commands).encode()).hexdigest()[:12]

    def _make_state(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.database.start()
        try:
            self.database.create()
            for project in PROJECTS:
                since = time.monotonic()
                for command in project.schema(self.layout):
                    self._run(command)
                name = project.__name__.rpartition(".")[2]
                self.say(f"tables of {name} made in {time.monotonic() - since:.0f} s")
            self.database.grant_service_role()
        finally:
            self.database.stop()
        self.database.copy(folder)
        shutil.rmtree(self.database.folder / "data")
        shutil.copytree(self.layout.state / "keystone", folder / "keystone")
        (folder / "complete").touch()

    def _run(self, command: list[str]) -> None:
        """Run one command of the services to its end.

        :raises ServiceError: it fails
        """
        log = self.layout.logs / "schema"
        environment = {
            **self.layout.environment(),
            "CLOUD_RECORDER": "",
            # nobody listens yet
            "OS_OSLO_MESSAGING_NOTIFICATIONS__DRIVER": "noop",
        }
        with log.open("ab") as sink:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                timeout=SCHEMA_SECONDS,
                check=False,
            )
        if done.returncode:
            lines = log.read_text(errors="replace").splitlines()[-15:]
            raise ServiceError(f"{' '.join(command)} failed:\n  " + "\n  ".join(lines))

    # --- life

    def start(self) -> None:
        """Start all services, and wait until each is ready and each host is mapped and up."""
        deadline = time.monotonic() + START_SECONDS + HOST_SECONDS * self.layout.computes
        # on a router, a notification waits for somebody who listens
        self.listener.start()
        for project in PROJECTS:
            started = []
            for service in project.services(self.layout):
                if service.needs:
                    self.processes[service.needs].wait_ready(deadline)
                started.append(self._start(service))
            for process in started:
                process.wait_ready(deadline)
            if project is placement:
                # Keystone refuses one of two first requests for its rules, if they come together
                self.providers()
        self.wait_up(deadline)
        self._run(nova.discover(self.layout))

    def _start(self, service: Service) -> Process:
        process = Process(service, self.layout.environment(), self.layout.logs / service.name)
        self.processes[service.name] = process
        process.start()
        return process

    def wait_up(self, deadline: float) -> None:
        """Return when Nova sees all its services up, and Placement knows all hosts.

        :raises ServiceError: one is not up in time
        """
        expected = self.layout.computes + 3
        while True:
            found = list(self.api.compute.services())
            down = [f"{s.binary} on {s.host}" for s in found if s.state != "up"]
            absent = set(self.layout.hosts()) - self.providers()
            if len(found) == expected and not down and not absent:
                return
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"{len(found)} of {expected} services known; down: {down}; "
                    f"not in Placement: {sorted(absent)}"
                )
            time.sleep(0.5)

    def providers(self) -> set[str]:
        """Return the hosts that Placement knows."""
        return {provider.name for provider in self.api.placement.resource_providers()}

    def stop_services(self) -> list[str]:
        """End all services; return the names of those that had to be killed."""
        deadline = time.monotonic() + STOP_SECONDS
        for process in reversed(self.processes.values()):
            process.terminate()
        return [
            name for name, process in self.processes.items() if not process.wait_ended(deadline)
        ]

    def close(self) -> None:
        """End what the services needed: listener, database, recorder."""
        with contextlib.suppress(Exception):
            self.listener.close()
        with contextlib.suppress(Exception):
            self.database.stop()
        self.recorder.close()

    def ended(self) -> list[str]:
        """Return the names of services that have ended on their own."""
        return [name for name, process in self.processes.items() if not process.running()]
