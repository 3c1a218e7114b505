# SPDX-License-Identifier: Apache-2.0

"""Worker processes, which one thread starts, reads and ends; every wait has a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from amqp1_driver.masking import scrubbed

WORKERS = Path(__file__).parent / "workers"
#: seconds that workers have for ending after the order "end"; then the crew kills them
END_SECONDS = 3.0
_TICK = 0.1


class Trouble(Exception):
    """The failure of a run or of its preparation; the text is for the user."""


class Worker:
    """A worker process. Used on the thread of its crew.

    :param name: name of the worker in error messages
    :param python: path of the interpreter
    :param order: the first order, which gives the process its role; see ``workers.main``
    """

    def __init__(self, name: str, python: str, order: dict[str, Any]) -> None:
        self.name = name
        self.events: deque[dict[str, Any]] = deque()
        self.complaints: deque[str] = deque(maxlen=30)
        self.ended = False
        self.process = subprocess.Popen(
            [python, "-W", "ignore", str(WORKERS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(python),
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.streams: dict[IO[bytes], Callable[[str], None]] = {
            self.process.stdout: lambda line: self.events.append(json.loads(line)),
            self.process.stderr: lambda line: self.complaints.append(
                scrubbed(line.rstrip(), str(order.get("url", "")))
            ),
        }
        self._partial: dict[IO[bytes], list[bytes]] = {stream: [] for stream in self.streams}
        self.tell(**order)

    def tell(self, **order: Any) -> None:
        """Send an order to the process."""
        assert self.process.stdin is not None
        # BrokenPipeError: the process has ended; Crew.wait() reports that
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def read(self, stream: IO[bytes]) -> bool:
        """Read the available bytes of a stream, and handle all complete lines.

        :returns: False at the end of the stream
        """
        data = os.read(stream.fileno(), 1 << 18)
        lines = (b"".join(self._partial[stream]) + data).split(b"\n") if b"\n" in data else []
        if lines:
            self._partial[stream] = [lines.pop()]
            for line in lines:
                self.streams[stream](line.decode(errors="replace"))
        else:
            self._partial[stream].append(data)
        return bool(data)

    def take(self, event: str) -> dict[str, Any] | None:
        """Remove and return the first event of this name; return None if there is none yet."""
        for found in self.events:
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
        self._finish_errors()
        words = [line for line in self.complaints if line.strip()]
        return f"{self.name} {how}: {words[-1].strip() if words else 'it says nothing'}"

    def _finish_errors(self) -> None:
        """Handle a last line of standard error that has no newline."""
        stream = self.process.stderr
        assert stream is not None
        rest = b"".join(self._partial[stream])
        self._partial[stream] = []
        self.streams[stream](rest.decode(errors="replace"))


class Crew:
    """All workers of one run, as a context manager that ends every worker at its exit. One thread.

    :param tick: called repeatedly while the crew waits; in ``wait()`` at least ten times a second
    """

    def __init__(self, tick: Callable[[], None] = lambda: None) -> None:
        self.workers: list[Worker] = []
        self._tick = tick
        self._selector = selectors.DefaultSelector()

    def add(self, name: str, python: str, order: dict[str, Any]) -> Worker:
        """Start a worker."""
        worker = Worker(name, python, order)
        self.workers.append(worker)
        for stream in worker.streams:
            self._selector.register(stream, selectors.EVENT_READ, worker)
        return worker

    def wait(self, event: str, workers: Sequence[Worker], seconds: float) -> list[dict[str, Any]]:
        """Wait for an event of this name from each of these workers.

        :returns: the events, in the order of the workers
        :raises Trouble: any worker of the crew has ended, or an event does not arrive in time
        """
        deadline = time.monotonic() + seconds
        found: dict[str, dict[str, Any]] = {}
        while True:
            for worker in workers:
                if worker.name not in found and (news := worker.take(event)) is not None:
                    found[worker.name] = news
            if len(found) == len(workers):
                return [found[worker.name] for worker in workers]
            for worker in self.workers:
                if worker.ended:
                    raise Trouble(worker.obituary())
            left = deadline - time.monotonic()
            if left <= 0:
                late = [worker for worker in workers if worker.name not in found]
                words = f" ({late[0].complaints[-1]})" if late[0].complaints else ""
                names = ", ".join(worker.name for worker in late)
                raise Trouble(f"not {event} in {seconds:.0f} s: {names}{words}")
            self._listen(min(left, _TICK))

    def pause(self, seconds: float) -> None:
        """Wait for some seconds, and read the output of the workers meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._listen(left)

    def _listen(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            worker: Worker = key.data
            if not worker.read(key.fileobj):  # type: ignore[arg-type]
                self._selector.unregister(key.fileobj)
                worker.ended = True
        if not self._selector.get_map():
            time.sleep(min(seconds, _TICK))
        self._tick()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: object, *_exc: object) -> None:
        deadline = time.monotonic() + (END_SECONDS if kind is None else 0.0)
        for worker in self.workers:
            worker.tell(do="end")
        for worker in self.workers:
            self._end(worker, deadline)
        self._selector.close()

    def _end(self, worker: Worker, deadline: float) -> None:
        process = worker.process
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


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
