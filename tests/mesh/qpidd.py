# SPDX-License-Identifier: Apache-2.0

"""A qpidd of one's own: the program that AMQP1_TEST_QPIDD names, with the documented configuration.

    AMQP1_TEST_QPIDD=/usr/sbin/qpidd python -m tests.mesh.qpidd -- \\
        python -m tests.functional.run --bus qpidd

It needs its module for AMQP 1.0 (amqp.so), which packages keep where it looks for modules.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Self

from tests.bars.ports import lasting_port
from tests.mesh import config

VARIABLE = "AMQP1_TEST_QPIDD"
START_SECONDS = 20.0


def program() -> str | None:
    """The broker to test with, None if none is named."""
    return os.environ.get(VARIABLE) or None


class Qpidd:
    """A broker on the loopback interface. A context manager.

    :param nodes: whether it makes nodes by pattern
    :param users: database of Cyrus SASL; None: everyone may come
    """

    def __init__(
        self, binary: str, folder: Path, nodes: bool = True, users: Path | None = None
    ) -> None:
        self.port = lasting_port()
        text = config.qpidd(self.port, auth="no" if users is None else "yes")
        lines = text.splitlines(keepends=True)
        kept = [line for line in lines if nodes or "patterns" not in line]
        file = folder / "qpidd.conf"
        file.write_text("".join(kept))
        self._command = [binary, "--config", str(file), "--no-data-dir", "--interface", "127.0.0.1"]
        if users is not None:
            (folder / "sasl2").mkdir()
            (folder / "sasl2" / "qpidd.conf").write_text(config.sasl(str(users)))
            self._command += ["--sasl-config", str(folder / "sasl2")]
        self._process: subprocess.Popen[str] | None = None
        self._log: list[str] = []

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
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
            self.__exit__()
            raise RuntimeError("qpidd does not listen: " + "".join(self._log[-20:]))
        return self

    def _read(self, stream: IO[str], listens: threading.Event) -> None:
        for line in stream:
            self._log.append(line)
            if "Listening on TCP" in line:
                listens.set()

    def __exit__(self, *exc_info: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            self._reader.join(10)
            if process.stdout is not None:
                process.stdout.close()


def main() -> int:
    binary = program()
    if binary is None:
        raise SystemExit(f"{VARIABLE} names no program")
    command = sys.argv[2:] if sys.argv[1:2] == ["--"] else sys.argv[1:]
    with (
        tempfile.TemporaryDirectory(prefix="amqp1-qpidd-") as folder,
        Qpidd(binary, Path(folder)) as broker,
    ):
        return subprocess.call(
            command, env={**os.environ, "AMQP1_TEST_BUSES": f"qpidd={broker.url}"}
        )


if __name__ == "__main__":
    sys.exit(main())
