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

"""What ``amqp1 demo`` plays on: buses and RPC servers in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple

from amqp1_driver.testing.fixture import BusProcess

#: seconds that processes may take to come up, and to end
START_SECONDS = 25.0
END_SECONDS = 5.0
#: how long the errors of a process are read when it did not come up
LAST_WORDS_SECONDS = 1.0


class Event(NamedTuple):
    """Something that a server or listener has told; ``at`` in monotonic seconds."""

    kind: str
    fields: dict[str, Any]
    at: float


class Inbox:
    """Events as they come in, from any thread, and somebody who waits for them."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def put(self, kind: str, fields: dict[str, Any]) -> None:
        """Note an event and wake who waits."""
        with self._changed:
            self._events.append(Event(kind, fields, time.monotonic()))
            self._changed.notify_all()

    def wait(self, kind: str, count: int, seconds: float, numbers: set[int] | None = None,
             unless: str = "") -> list[Event]:  # fmt: skip
        """The events of a kind once there are so many, or after so many seconds.

        :param numbers: only those whose field ``number`` is one of these
        :param unless: after an event of this kind there is nothing to wait for
        """

        def over() -> bool:
            return len(found()) >= count or any(event.kind == unless for event in self._events)

        def found() -> list[Event]:
            return [
                event
                for event in self._events
                if event.kind == kind and (numbers is None or event.fields.get("number") in numbers)
            ]

        with self._changed:
            self._changed.wait_for(over, seconds)
            return found()


class Worker:
    """One RPC server. Created and used on the main thread; its output is read on another.

    :param name: of the server
    :param inbox: where its events go
    :param verbose: its log goes to standard error
    """

    def __init__(self, name: str, inbox: Inbox, verbose: bool) -> None:
        self.name = name
        self._inbox = inbox
        self._verbose = verbose
        self._errors: deque[str] = deque(maxlen=20)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "amqp1_driver.cli.demo_worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.PIPE, text=True, env=_environment(),
        )  # fmt: skip
        self._readers = [self._read(self._process.stdout, self._event)]
        if not verbose:
            self._readers.append(self._read(self._process.stderr, self._errors.append))

    @property
    def pid(self) -> int:
        return self._process.pid

    def last_words(self) -> str:
        """The last line it wrote to standard error, without the prefix of the log."""
        # its output may have come to an end before its errors were read
        self._readers[-1].join(LAST_WORDS_SECONDS)
        last = self._errors[-1].strip() if self._errors else "it says nothing"
        return last.removeprefix(f"[{self.pid}] ")

    def serve(self, url: str, exchange: str, topic: str) -> None:
        """Tell it what to serve; it was importing its modules until now."""
        order = {"url": url, "exchange": exchange, "topic": topic, "server": self.name,
                 "verbose": self._verbose}  # fmt: skip
        self._write(json.dumps(order))

    def release(self) -> None:
        """Let the calls go that it holds."""
        self._write("release")

    def hang_up(self) -> None:
        """Have it end by itself."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass

    def end(self, deadline: float) -> None:
        """Wait for its end until then, in monotonic seconds; at the deadline it is killed."""
        self.hang_up()
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(END_SECONDS)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # it has ended: whoever waits for its events will say so

    def _event(self, line: str) -> None:
        fields = json.loads(line)
        self._inbox.put(fields.pop("event"), fields)

    def _read(self, stream: IO[str] | None, take: Callable[[str], object]) -> threading.Thread:
        assert stream is not None

        def run() -> None:
            for line in stream:
                take(line)
            self._inbox.put("ended", {"server": self.name})

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


class Stage:
    """Buses and servers. A context manager: what was started is ended. Main thread.

    :param mode: of the embedded buses
    :param url: of a bus that is there already, instead of them
    :param servers: how many RPC servers
    """

    def __init__(self, mode: str, url: str | None, servers: int, verbose: bool) -> None:
        self.inbox = Inbox()
        self.buses: list[BusProcess] = []
        self.workers: list[Worker] = []
        self.url = url or ""
        self._mode = mode
        self._servers = servers
        self._verbose = verbose
        self._complete = False

    def __enter__(self) -> Stage:
        return self

    def start(self, exchange: str, topic: str) -> None:
        """Start everything, side by side; returns when the servers serve.

        :raises RuntimeError: with what a process that did not come up has to say
        """
        for number in range(1, self._servers + 1):
            self.workers.append(Worker(f"server-{number}", self.inbox, self._verbose))
        if not self.url:
            self.buses = [BusProcess(self._mode), BusProcess(self._mode)]
            with ThreadPoolExecutor(len(self.buses)) as pool:
                list(pool.map(BusProcess.start, self.buses))
            hosts = ",".join(bus.address.partition("://")[2] for bus in self.buses)
            # all begin at the first, so that all have to come over
            self.url = f"amqp://{hosts}/?host_selection=ordered"
        for worker in self.workers:
            worker.serve(self.url, exchange, topic)
        ready = self.inbox.wait("ready", self._servers, START_SECONDS, unless="ended")
        if len(ready) < self._servers:
            up = {event.fields["server"] for event in ready}
            missing = [worker for worker in self.workers if worker.name not in up]
            ended = {event.fields["server"] for event in self.inbox.wait("ended", 1, 0)}
            worst = next((w for w in missing if w.name in ended), missing[0])
            raise RuntimeError(f"{worst.name} did not come up: {worst.last_words()}")
        self._complete = True

    def release(self) -> None:
        """Let all held calls go."""
        for worker in self.workers:
            worker.release()

    def __exit__(self, *exc_info: object) -> None:
        deadline = time.monotonic() + (END_SECONDS if self._complete else 0.0)
        for worker in self.workers:
            worker.hang_up()
        for worker in self.workers:
            worker.end(deadline)
        for bus in self.buses:
            bus.terminate()


def _environment() -> dict[str, str]:
    """Lets a process import this package from where it was imported here."""
    root = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH")
    # upstream's modules warn of eventlet at import, which nobody uses here
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (root, inherited))),
        "PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS", "ignore"),
    }
