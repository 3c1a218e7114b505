# SPDX-License-Identifier: Apache-2.0

"""Routers as processes of their own: a mesh in which some may be killed or frozen.

The router is the program that AMQP1_TEST_ROUTER names: skrouterd or qdrouterd.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import IO, Self

from tests.bars.ports import lasting_port
from tests.mesh import config

VARIABLE = "AMQP1_TEST_ROUTER"
START_SECONDS = 20.0


def program() -> str | None:
    """The router to test with, None if none is named."""
    return os.environ.get(VARIABLE) or None


class Process:
    """A router that runs, or has been killed.

    :param settings: what it is to be
    :param others: routers that it connects to
    :param folder: for its configuration and log
    """

    def __init__(
        self, binary: str, settings: config.Router, others: list[config.Router], folder: Path
    ) -> None:
        self.settings = settings
        self.log = folder / f"{settings.name}.log"
        self._file = folder / f"{settings.name}.conf"
        self._file.write_text(config.text(settings, others))
        self._binary = binary
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Returns when it listens. RuntimeError if it does not."""
        self._process = subprocess.Popen(
            [self._binary, "-c", str(self._file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert self._process.stdout is not None
        listens = threading.Event()
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout, listens), daemon=True
        )
        self._reader.start()
        if not listens.wait(START_SECONDS):
            self.kill()
            raise RuntimeError(
                f"{self._binary} does not listen: " + self.log.read_text(errors="replace")[-2000:]
            )

    def _read(self, stream: IO[str], listens: threading.Event) -> None:
        """Keeps its log, and says when all its listeners are there."""
        ports = [self.settings.port, self.settings.mesh_port]
        missing = {f":{port}" for port in ports[: 2 if self.settings.mesh_host else 1]}
        with self.log.open("a") as sink:
            for line in stream:
                sink.write(line)
                sink.flush()
                if "Listening on" in line:
                    missing = {port for port in missing if port not in line}
                if not missing:
                    listens.set()

    def kill(self) -> None:
        """SIGKILL, and waits for its end."""
        process, self._process = self._process, None
        if process is not None and self._reader is not None:
            process.kill()
            process.wait()
            self._reader.join(10)
            if process.stdout is not None:
                process.stdout.close()

    def freeze(self) -> None:
        """It keeps its connections but does nothing any more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @property
    def address(self) -> str:
        return f"{self.settings.host}:{self.settings.port}"


class Mesh:
    """Routers each of which is connected to all others. A context manager.

    :param size: 1 is a router that stands alone
    :param idle: seconds without a frame after which a router gives a connection up
    """

    def __init__(self, binary: str, folder: Path, size: int = 3, idle: int | None = None) -> None:
        mesh_host = "127.0.0.1" if size > 1 else None
        settings = [
            config.Router(
                f"router{number}",
                "127.0.0.1",
                port=lasting_port(),
                idle=idle,
                mesh_host=mesh_host,
                mesh_port=lasting_port(),
            )
            for number in range(1, size + 1)
        ]
        self.routers = [
            Process(binary, one, settings[:index], folder) for index, one in enumerate(settings)
        ]

    def __enter__(self) -> Self:
        try:
            for router in self.routers:
                router.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        for router in self.routers:
            router.kill()

    def url(self, *order: int, scheme: str = "amqp") -> str:
        """The routers of these numbers, from 0, in this order; all of them unless given."""
        chosen = order or range(len(self.routers))
        return f"{scheme}://" + ",".join(self.routers[number].address for number in chosen)
