# SPDX-License-Identifier: Apache-2.0
"""A RabbitMQ node through tools/rabbitmq.sh, which a test may kill and start again."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.bars.ports import lasting_port

_TOOL = Path(__file__).resolve().parents[2] / "tools" / "rabbitmq.sh"


class RabbitMQ:
    """One node of its own on 127.0.0.1, guest/guest.

    :param suite: Debian suite it comes from, "trixie" (4.0) or "sid" (4.3 or later)
    :param log: file for what the tool prints
    """

    mode = "rabbitmq"

    def __init__(self, suite: str, log: Path) -> None:
        self.suite = suite
        self.log = log
        self.port = lasting_port()

    def install(self) -> None:
        """Unpacks it, where that has not been done before."""
        self._run("install", self.suite, timeout=300)

    def start(self) -> None:
        """Returns when it listens; what it stored before is there again."""
        self._run("start", self.suite, str(self.port), timeout=90)

    def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl; what it prints."""
        return self._run("ctl", self.suite, str(self.port), *arguments, timeout=30)

    def signal(self, name: str) -> None:
        """Send STOP or CONT."""
        self._run("signal", self.suite, str(self.port), name, timeout=30)

    def kill(self) -> None:
        """SIGKILL."""
        self._run("kill", self.suite, str(self.port), timeout=30)

    def wipe(self) -> None:
        """Stops it and forgets what it stored."""
        self._run("stop", self.suite, str(self.port), "--wipe", timeout=60)

    def url(self, password: str = "guest") -> str:
        """As transport URL."""
        return f"amqp://guest:{password}@127.0.0.1:{self.port}"

    def _run(self, *arguments: str, timeout: float) -> str:
        with self.log.open("ab") as sink, tempfile.TemporaryFile("w+") as out:
            # not a pipe: the node inherits it, so that its end would be waited for
            done = subprocess.run(
                ["bash", str(_TOOL), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=sink,
                timeout=timeout,
                check=False,
            )
            out.seek(0)
            printed = out.read()
            sink.write(printed.encode())
        if done.returncode:
            raise RuntimeError(
                f"rabbitmq.sh {' '.join(arguments)}: "
                + self.log.read_text(errors="replace")[-2000:]
            )
        return printed
