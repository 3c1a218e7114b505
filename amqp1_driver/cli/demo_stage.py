# SPDX-License-Identifier: Apache-2.0

"""The stage of ``amqp1 demo``: buses and RPC servers in processes of their own. Main thread."""

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
#: seconds in which the errors of a process that did not come up must have been read
LAST_WORDS_SECONDS = 1.0


class Event(NamedTuple):
    """An event that a server or listener has reported; it arrived at ``at``, monotonic seconds."""

    kind: str
    fields: dict[str, Any]
    at: float


class Inbox:
    """The events that have arrived, from any thread, for threads that wait for them."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def put(self, kind: str, fields: dict[str, Any]) -> None:
        """Add an event, and wake the threads that wait."""
        with self._changed:
            self._events.append(Event(kind, fields, time.monotonic()))
            self._changed.notify_all()

    def wait(
        self,
        kind: str,
        count: int,
        seconds: float,
        numbers: set[int] | None = None,
        unless: str = "",
    ) -> list[Event]:
        """Wait for ``count`` events of a kind, at most ``seconds``; return the events of this kind.

        :param numbers: count and return only events whose field ``number`` is one of these
        :param unless: end the wait at an event of this kind
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

    :param name: name of the server
    :param inbox: receives the server's events
    :param verbose: let the server write its log, and copy it to standard error
    """

    def __init__(self, name: str, inbox: Inbox, verbose: bool) -> None:
        self.name = name
        self._inbox = inbox
        self._verbose = verbose
        self._errors: deque[str] = deque(maxlen=20)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "amqp1_driver.cli.demo_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        self._readers = [
            self._read(self._process.stdout, self._event),
            self._read(self._process.stderr, self._complaint),
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    def last_words(self) -> str:
        """Return the last line of the server's standard error, without the prefix of the log."""
        # its standard output may have ended before its errors are read
        self._readers[-1].join(LAST_WORDS_SECONDS)
        last = self._errors[-1].strip() if self._errors else "it says nothing"
        return last.removeprefix(f"[{self.pid}] ")

    def serve(self, url: str, exchange: str, topic: str) -> None:
        """Order the server to serve a topic; until now, its process has imported modules."""
        order = {
            "url": url,
            "exchange": exchange,
            "topic": topic,
            "server": self.name,
            "verbose": self._verbose,
        }
        self._write(json.dumps(order))

    def release(self) -> None:
        """Order the server to answer the calls that it holds."""
        self._write("release")

    def hang_up(self) -> None:
        """Close the process's standard input, which makes the process end."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass

    def end(self, deadline: float) -> None:
        """Wait for the end of the process; kill it at ``deadline``, in monotonic seconds."""
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
            pass  # the process has ended, which the wait for its events reports

    def _event(self, line: str) -> None:
        fields = json.loads(line)
        self._inbox.put(fields.pop("event"), fields)

    def _complaint(self, line: str) -> None:
        self._errors.append(line)
        if self._verbose:
            sys.stderr.write(line)

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
    """The buses and servers. A context manager, which ends all that it started. Main thread.

    :param mode: mode of the embedded buses
    :param url: URL of an existing bus, which replaces the embedded buses
    :param servers: number of RPC servers
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
        """Start everything at the same time; return when the servers serve.

        :raises RuntimeError: a process did not come up; the text has its last words
        """
        for number in range(1, self._servers + 1):
            self.workers.append(Worker(f"server-{number}", self.inbox, self._verbose))
        if not self.url:
            self.buses = [BusProcess(self._mode), BusProcess(self._mode)]
            with ThreadPoolExecutor(len(self.buses)) as pool:
                list(pool.map(BusProcess.start, self.buses))
            hosts = ",".join(bus.address.partition("://")[2] for bus in self.buses)
            # all connect to the first bus, so that all have to fail over to the second
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
        """Order all servers to answer the calls that they hold."""
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
    """Return an environment in which a process imports this package from the same folder."""
    root = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH")
    # oslo's modules warn about eventlet at import; this command does not use eventlet
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (root, inherited))),
        "PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS", "ignore"),
    }
