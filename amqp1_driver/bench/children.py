# SPDX-License-Identifier: Apache-2.0

"""Worker processes, which one thread starts, orders and ends; every wait has a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from amqp1_driver.bench.workers.worker import EVENTS
from amqp1_driver.masking import scrubbed

WORKERS = Path(__file__).parent / "workers"
#: seconds that workers have for ending after the order "end"; then the crew kills them
END_SECONDS = 3.0
_TICK = 0.1
#: packages to install: for the AMQP 1.0 driver that oslo.messaging had up to 14.9, and for the
#: rabbit driver from the first release that does not sleep half a second in every call
REQUIREMENTS = {
    "removed": ("oslo.messaging==14.9.3", "pyngus", "python-qpid-proton"),
    "rabbit": ("oslo.messaging>=18.2",),
}
_INSTALL_SECONDS = 900.0


class Trouble(Exception):
    """The failure of a run or of its preparation; the text is for the user."""


class Worker:
    """A worker process. Used on the thread of its crew; two threads of its own read its output.

    :param name: name of the worker in error messages
    :param python: path of the interpreter
    :param order: the first order, which gives the process its role; see ``workers.worker``
    :param news: queue that gets an item for each event, and for the end of an output
    """

    def __init__(
        self, name: str, python: str, order: dict[str, Any], news: queue.SimpleQueue[None]
    ) -> None:
        self.name = name
        self.events: deque[dict[str, Any]] = deque()
        self.complaints: deque[str] = deque(maxlen=30)
        self.ended = False
        self._news = news
        self._url = str(order.get("url", ""))
        self.process = subprocess.Popen(
            [python, "-W", "ignore", str(WORKERS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(python),
        )
        self._readers = [
            threading.Thread(target=self._read, args=args, daemon=True)
            for args in (
                (self.process.stdout, lambda line: self.events.append(json.loads(line))),
                (self.process.stderr, self._complain),
            )
        ]
        for reader in self._readers:
            reader.start()
        self.tell(**order)

    def _read(self, stream: IO[bytes], handle: Callable[[str], None]) -> None:
        with stream:
            for line in stream:
                handle(line.decode(errors="replace"))
                self._news.put(None)
        self.ended = True
        self._news.put(None)

    def _complain(self, line: str) -> None:
        self.complaints.append(scrubbed(line.rstrip(), self._url))

    def tell(self, **order: Any) -> None:
        """Send an order to the process."""
        assert self.process.stdin is not None
        # BrokenPipeError: the process has ended; Crew.wait() reports that
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def take(self, event: str) -> dict[str, Any] | None:
        """Remove and return the first event of this name; return None if there is none yet."""
        for found in list(self.events):
            if found["event"] == event:
                self.events.remove(found)
                return found
        return None

    def obituary(self) -> str:
        """Describe how the process ended, with the last line of its standard error."""
        try:
            status = self.process.wait(1)
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        except subprocess.TimeoutExpired:
            how = "has closed its output, but still runs"
        for reader in self._readers:
            reader.join(1)
        words = [line for line in self.complaints if line.strip()]
        return f"{self.name} {how}: {words[-1].strip() if words else 'it says nothing'}"

    def end(self, deadline: float) -> None:
        """Wait until the process has ended; kill it at the deadline (monotonic seconds)."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join(1)
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


class Crew:
    """All workers of one run, as a context manager that ends every worker at its exit. One thread.

    :param tick: called repeatedly while the crew waits; in ``wait()`` at least ten times a second
    """

    def __init__(self, tick: Callable[[], None] = lambda: None) -> None:
        self.workers: list[Worker] = []
        self._tick = tick
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()

    def add(self, name: str, python: str, order: dict[str, Any]) -> Worker:
        """Start a worker."""
        worker = Worker(name, python, order, self._news)
        self.workers.append(worker)
        return worker

    def ask(
        self, step: str, workers: Sequence[Worker], seconds: float, /, **fields: Any
    ) -> list[dict[str, Any]]:
        """Order workers to take a step at the same time, and return their results; see ``wait``."""
        for worker in workers:
            worker.tell(do=step, **fields)
        return self.wait(EVENTS.get(step, step), workers, seconds)

    def wait(self, event: str, workers: Sequence[Worker], seconds: float) -> list[dict[str, Any]]:
        """Wait for an event of this name from each of these workers.

        :returns: the events, in the order of the workers
        :raises Trouble: any worker of the crew has ended, or an event does not arrive in time
        """
        deadline = time.monotonic() + seconds
        found: dict[str, dict[str, Any]] = {}
        while True:
            ended = [worker for worker in self.workers if worker.ended]
            for worker in workers:
                if worker.name not in found and (news := worker.take(event)) is not None:
                    found[worker.name] = news
            if len(found) == len(workers):
                return [found[worker.name] for worker in workers]
            if ended:
                raise Trouble(ended[0].obituary())
            left = deadline - time.monotonic()
            if left <= 0:
                late = [worker for worker in workers if worker.name not in found]
                words = f" ({late[0].complaints[-1]})" if late[0].complaints else ""
                names = ", ".join(worker.name for worker in late)
                raise Trouble(f"not {event} in {seconds:.0f} s: {names}{words}")
            self._listen(min(left, _TICK))

    def pause(self, seconds: float) -> None:
        """Wait for some seconds."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._listen(min(left, _TICK))

    def _listen(self, seconds: float) -> None:
        with contextlib.suppress(queue.Empty):
            self._news.get(timeout=seconds)
        self._tick()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: object, *_exc: object) -> None:
        deadline = time.monotonic() + (END_SECONDS if kind is None else 0.0)
        for worker in self.workers:
            worker.tell(do="end")
        for worker in self.workers:
            worker.end(deadline)


def environment(python: str) -> dict[str, str]:
    """Return the environment variables of a worker.

    Another interpreter does not get the ``PYTHONPATH``, ``PYTHONHOME`` and ``VIRTUAL_ENV`` of this
    one.
    """
    inherited = dict(os.environ)
    inherited["PYTHONWARNINGS"] = "ignore"
    if python != sys.executable:
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
            inherited.pop(name, None)
    return inherited


def make_venv(kind: str, folder: str) -> str:
    """Make a virtual environment, and install a driver with pip and the user's pip configuration.

    :param kind: key of ``REQUIREMENTS``
    :returns: absolute path of the environment
    :raises Trouble: the environment exists already, or a command fails
    """
    path = Path(folder).expanduser().absolute()
    if (path / "bin" / "python").exists():
        raise Trouble(f"there is a virtual environment in {path} already")
    pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check"]
    python = str(path / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", str(path)],
        [python, *pip, *REQUIREMENTS[kind]],
    ):
        try:
            subprocess.run(command, check=True, timeout=_INSTALL_SECONDS, stdin=subprocess.DEVNULL)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise Trouble(f"{' '.join(command)}: {error}") from error
    return str(path)
