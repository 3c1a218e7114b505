# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""Applications in processes of their own, told what to do by lines of JSON: see `application`."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

_TOP = Path(__file__).resolve().parents[2]


class WorkerError(AssertionError):
    """A command failed in the process, or the process has ended."""


class Worker:
    """One application. Any thread.

    :param name: for messages
    :param log: file for its standard error
    """

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self._log = log
        path = os.pathsep.join(filter(None, (str(_TOP), os.environ.get("PYTHONPATH"))))
        with log.open("wb") as sink:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.bars.application"], cwd=_TOP,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, text=True, bufsize=1,
                env={**os.environ, "PYTHONPATH": path})
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
            raise WorkerError(f"{self.name}: {command} took more than {within} s; "
                              + self._tail()) from None

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
