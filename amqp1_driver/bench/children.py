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

"""Workers: started, listened to and ended by one thread, everything with a deadline."""

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

WORKERS = Path(__file__).parent / "workers"
#: seconds in which a worker may end by itself
END_SECONDS = 3.0
_TICK = 0.1


class Trouble(Exception):
    """A run that came to nothing, in words for the user."""


class Worker:
    """One process. The thread of its crew.

    :param name: in messages
    :param order: what it is to be; see ``workers.main``
    """

    def __init__(self, name: str, python: str, order: dict[str, Any]) -> None:
        self.name = name
        self.events: deque[dict[str, Any]] = deque()
        self.complaints: deque[str] = deque(maxlen=30)
        self.ended = False
        self.process = subprocess.Popen(
            [python, "-W", "ignore", str(WORKERS)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(python),
        )  # fmt: skip
        assert self.process.stdout is not None and self.process.stderr is not None
        self.streams: dict[IO[bytes], Callable[[str], None]] = {
            self.process.stdout: lambda line: self.events.append(json.loads(line)),
            self.process.stderr: lambda line: self.complaints.append(line.rstrip()),
        }
        self._partial: dict[IO[bytes], list[bytes]] = {stream: [] for stream in self.streams}
        self.tell(**order)

    def tell(self, **order: Any) -> None:
        """Give an order."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: waiting for it says so
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def read(self, stream: IO[bytes]) -> bool:
        """Take in what is there; False at its end."""
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
        """The first event of this name, if it has come."""
        for found in self.events:
            if found["event"] == event:
                self.events.remove(found)
                return found
        return None

    def obituary(self) -> str:
        """How it ended, and its last words."""
        try:
            status = self.process.wait(1)
        except subprocess.TimeoutExpired:
            status = 0
        words = [line for line in self.complaints if line.strip()]
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"{self.name} {how}: {words[-1].strip() if words else 'it says nothing'}"


class Crew:
    """All workers of one run. A context manager: whatever happens, none is left. One thread.

    :param tick: called about ten times a second while there is something to wait for
    """

    def __init__(self, tick: Callable[[], None] = lambda: None) -> None:
        self.workers: list[Worker] = []
        self._tick = tick
        self._selector = selectors.DefaultSelector()

    def add(self, name: str, python: str, order: dict[str, Any]) -> Worker:
        """Start one."""
        worker = Worker(name, python, order)
        self.workers.append(worker)
        for stream in worker.streams:
            self._selector.register(stream, selectors.EVENT_READ, worker)
        return worker

    def wait(self, event: str, workers: Sequence[Worker], seconds: float) -> list[dict[str, Any]]:
        """An event of this name from each of these.

        :raises Trouble: a worker has ended, or not all of them are heard in time
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
        """Let a little time pass."""
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
    """For a worker: another virtual environment gets nothing of this one's ``PYTHONPATH``."""
    inherited = dict(os.environ)
    inherited["PYTHONWARNINGS"] = "ignore"
    if python != sys.executable:
        for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"):
            inherited.pop(name, None)
    return inherited
