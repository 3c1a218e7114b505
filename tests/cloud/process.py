# SPDX-License-Identifier: Apache-2.0
"""One service of the cloud as a process: started, awaited, measured, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import psutil

#: seconds until a service that got SIGTERM has to be gone
STOP_SECONDS = 30.0


class ServiceError(Exception):
    """A service does not start, or has ended on its own."""


@dataclass(frozen=True)
class Figures:
    """What a service has used; of all its processes together."""

    #: seconds, user and system
    cpu: float
    #: bytes of resident memory
    memory: int
    threads: int
    descriptors: int


@dataclass
class Service:
    """How one service is started.

    :param name: unique in the cloud, as "nova-compute-1"
    :param command: with its arguments
    :param ready: URL that answers when it is up, or a line of its log
    :param environment: beside that of the whole cloud
    :param needs: name of a service that has to be ready before, if any
    """

    name: str
    command: list[str]
    ready: str
    environment: dict[str, str] = field(default_factory=dict)
    needs: str = ""


class Process:
    """A service that runs or ran. One thread.

    :param log: file for standard output and standard error, which the service's log goes to
    """

    def __init__(self, service: Service, environment: dict[str, str], log: Path) -> None:
        self.service = service
        self.log = log
        self._environment = {
            **environment,
            **service.environment,
            "CLOUD_SERVICE": service.name,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._begin = 0
        #: CPU seconds of the runs that have ended
        self._before = 0.0

    def start(self) -> None:
        """Start it; do not wait until it is ready."""
        self.log.touch()
        self._begin = self.log.stat().st_size
        with self.log.open("ab") as sink:
            self._process = subprocess.Popen(
                self.service.command,
                cwd=self.log.parent,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                # a session of its own: ^C ends it by stop(), in the right order
                start_new_session=True,
            )

    def wait_ready(self, deadline: float) -> None:
        """Return when it is ready.

        :param deadline: of time.monotonic()
        :raises ServiceError: it has ended, or is not ready in time
        """
        while not self._ready():
            if not self.running():
                raise ServiceError(f"{self.service.name} ended at its start: {self.tail()}")
            if time.monotonic() > deadline:
                raise ServiceError(f"{self.service.name} is not ready in time: {self.tail()}")
            time.sleep(0.1)

    def _ready(self) -> bool:
        sign = self.service.ready
        if not sign.startswith("http"):
            with self.log.open("rb") as log:
                log.seek(self._begin)
                return sign.encode() in log.read()
        try:
            with urllib.request.urlopen(sign, timeout=5):
                return True
        except urllib.error.HTTPError as error:
            return error.code in (300, 401)
        except OSError:
            return False

    def running(self) -> bool:
        """Return whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def tail(self) -> str:
        """Return the last lines of its log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n  ".join([f"last lines of {self.log}", *lines[-12:]])

    def figures(self) -> Figures:
        """Return what it uses, with its children; zeros when it does not run."""
        cpu, memory, threads, descriptors = self._before, 0, 0, 0
        for process in self._family():
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    cpu += times.user + times.system
                    memory += process.memory_info().rss
                    threads += process.num_threads()
                    descriptors += process.num_fds()
            except psutil.Error:
                continue
        return Figures(cpu, memory, threads, descriptors)

    def _family(self) -> list[psutil.Process]:
        if not self.running():
            return []
        assert self._process is not None
        try:
            parent = psutil.Process(self._process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.Error:
            return []

    def terminate(self) -> None:
        """Ask it to end; do not wait."""
        if self.running():
            assert self._process is not None
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and its children as a crash would."""
        if self._process is not None and self.running():
            self._before = self.figures().cpu
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def wait_ended(self, deadline: float) -> bool:
        """Return whether it ended by then without being killed; it is gone in any case.

        :param deadline: of time.monotonic()
        """
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.1, deadline - time.monotonic()))
            return True
        except subprocess.TimeoutExpired:
            self.kill()
            return False
