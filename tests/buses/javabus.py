# SPDX-License-Identifier: Apache-2.0
"""ActiveMQ Artemis and Qpid Broker-J through tools/javabus.sh."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.bars.ports import lasting_port

_TOOL = Path(__file__).resolve().parents[2] / "tools" / "javabus.sh"
#: bytes from which on a queue is full
FULL = 500_000


class JavaBus:
    """One node of its own on 127.0.0.1, guest/guest.

    :param name: "artemis" or "brokerj"
    :param log: file for what the tool prints
    :param expiry: milliseconds after which Artemis drops what nobody has fetched
    """

    def __init__(self, name: str, log: Path, expiry: int = 1_800_000) -> None:
        self.name = name
        self.log = log
        self._expiry = expiry
        self.port = lasting_port()

    def install(self) -> None:
        """Downloads and unpacks it, where that has not been done before."""
        self._run("install", self.name, timeout=300)

    def start(self) -> None:
        """Returns when it listens; what it stored before is there again."""
        self._run("start", self.name, str(self.port), timeout=90)

    def kill(self) -> None:
        """SIGKILL."""
        self._run("kill", self.name, str(self.port), timeout=30)

    def signal(self, name: str) -> None:
        """Send STOP or CONT."""
        self._run("signal", self.name, str(self.port), name, timeout=30)

    def wipe(self) -> None:
        """Stops it and forgets what it stored."""
        self._run("stop", self.name, str(self.port), "--wipe", timeout=60)

    def url(self, password: str = "guest") -> str:
        """As transport URL."""
        return f"amqp://guest:{password}@127.0.0.1:{self.port}"

    def queues(self) -> set[str]:
        """Names of the queues that the driver has made: replies' too, nothing of the bus itself."""
        if self.name == "brokerj":
            found = json.loads(self._run("ctl", self.name, str(self.port), "queue", timeout=60))
            return {queue["name"] for queue in found}
        table = self._run(
            "ctl", self.name, str(self.port), "queue", "stat", "--maxColumnSize", "-1", timeout=60
        )
        rows = [line.split("|") for line in table.splitlines() if line.startswith("|")]
        names = {row[1].strip() for row in rows[1:] if len(row) > 9}
        return {n for n in names if n and n != "DLQ" and not n.startswith(("$", "activemq."))}

    def left(self, prefix: str, expected: Callable[[set[str]], bool]) -> set[str]:
        """Names of queues that begin so, when they are as expected, or else after ten looks."""
        found: set[str] = set()
        for _ in range(10):
            found = {name for name in self.queues() if name.startswith(prefix)}
            if expected(found):
                break
        return found

    def _run(self, *arguments: str, timeout: float) -> str:
        environment = {
            **os.environ,
            "JAVABUS_FULL": str(FULL),
            "JAVABUS_ARGS": f"-Dartemis.scan=200 -Dopenstack.expiry={self._expiry}",
        }
        with self.log.open("ab") as sink:
            done = subprocess.run(
                ["bash", str(_TOOL), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=sink,
                timeout=timeout,
                check=False,
                env=environment,
                text=True,
            )
        if done.returncode:
            raise RuntimeError(
                f"javabus.sh {' '.join(arguments)}: " + self.log.read_text(errors="replace")[-2000:]
            )
        return done.stdout
