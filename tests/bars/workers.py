# SPDX-License-Identifier: Apache-2.0
"""Applications in processes of their own, told what to do by lines of JSON: see `application`."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

_TOP = Path(__file__).resolve().parents[2]


class WorkerError(AssertionError):
    """A command failed in the process, or the process has ended."""


@contextlib.contextmanager
def log_folder(kept: Path) -> Iterator[Path]:
    """A folder in memory for the logs of workers; at the end they are moved to ``kept``.

    A disk lets a writer wait for seconds now and then, above all while a bus syncs its journal.
    That would count as a late operation, because oslo.messaging logs how a notification ended.
    """
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as memory:
        try:
            yield Path(memory)
        finally:
            for log in Path(memory).glob("*.log"):
                shutil.copy(log, kept)


class Worker:
    """One application. Any thread.

    :param name: for messages
    :param log: file for its standard error
    :param module: has the commands
    :param environment: further variables of the process
    """

    def __init__(
        self,
        name: str,
        log: Path,
        module: str = "tests.bars.application",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._log = log
        path = os.pathsep.join(filter(None, (str(_TOP), os.environ.get("PYTHONPATH"))))
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", module],
                cwd=_TOP,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                bufsize=1,
                env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            )
        self.pid = self._process.pid
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._pending: dict[int, Future[Any]] = {}
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def begin(self, command: str, **arguments: Any) -> Future[Any]:
        """Starts a command: a method of `Application`."""
        future: Future[Any] = Future()
        number = next(self._ids)
        with self._lock:
            if self._ended:
                raise WorkerError(self._epitaph(command))
            self._pending[number] = future
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([number, command, arguments]) + "\n")
        return future

    def do(self, command: str, within: float = 30.0, **arguments: Any) -> Any:
        """Starts a command and waits for its result, for so many seconds."""
        try:
            return self.begin(command, **arguments).result(within)
        except TimeoutError:
            raise WorkerError(
                f"{self.name}: {command} took more than {within} s; " + self._tail()
            ) from None

    def stop(self) -> None:
        """Ends it; SIGKILL if it does not listen."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._reader.join(10)
        self._process.stdout.close()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait(10)

    @property
    def log(self) -> str:
        """What it wrote to standard error so far."""
        return self._log.read_text(errors="replace")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, error, value = json.loads(line)
            with self._lock:
                future = self._pending.pop(number)
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(WorkerError(f"{self.name}: {error}\n{self._tail()}"))
        with self._lock:
            self._ended = True
            pending, self._pending = self._pending, {}
        for future in pending.values():
            future.set_exception(WorkerError(self._epitaph("it")))

    def _epitaph(self, command: str) -> str:
        return f"{self.name}: {command} can't be done, the process has ended; {self._tail()}"

    def _tail(self) -> str:
        return "its last words:\n" + self.log[-3000:]
