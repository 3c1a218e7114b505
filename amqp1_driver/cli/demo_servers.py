# SPDX-License-Identifier: Apache-2.0

"""The RPC servers of ``amqp1 demo``, and the events that they report."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

#: seconds that the last output of a process may take
END_SECONDS = 5.0


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

        def found() -> list[Event]:
            return [
                event
                for event in self._events
                if event.kind == kind and (numbers is None or event.fields.get("number") in numbers)
            ]

        with self._changed:
            self._changed.wait_for(
                lambda: len(found()) >= count or any(e.kind == unless for e in self._events),
                seconds,
            )
            return found()


class Server:
    """One RPC server. Created and used on the main thread; its output is read on another.

    :param name: name of the server
    :param inbox: receives the server's events, and ``ended`` when its process ends
    :param verbose: let the server write its log to standard error
    """

    def __init__(self, name: str, inbox: Inbox, verbose: bool) -> None:
        self.name = name
        self._verbose = verbose
        # -W: oslo's modules warn about eventlet at import; this command does not use eventlet.
        # A group of its own: ^C ends only the demonstration, which ends the server in order.
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "amqp1_driver.cli.demo_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.DEVNULL,
            text=True,
            process_group=0,
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, args=(inbox,), daemon=True)
        self._reader.start()

    def _read(self, inbox: Inbox) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            inbox.put(**json.loads(line))
        inbox.put("ended", {"server": self.name})

    def serve(self, url: str, exchange: str, topic: str) -> None:
        """Order the server to serve a topic; until now, its process has imported modules."""
        order = {"url": url, "exchange": exchange, "topic": topic, "verbose": self._verbose}
        self.order(json.dumps({"name": self.name, **order}))

    def order(self, line: str) -> None:
        """Write a line to the server; the wait for its events notices a server that has ended."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            print(line, file=self._process.stdin, flush=True)

    def hang_up(self) -> None:
        """Close the server's standard input, which makes it end."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self, deadline: float) -> None:
        """Wait for the end of the process; kill it at ``deadline``, in monotonic seconds."""
        with self._process:
            try:
                self._process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._reader.join(END_SECONDS)
