# SPDX-License-Identifier: Apache-2.0

"""RPC servers that are stopped and started under load, and what becomes of numbered messages.

Each process writes a line to a file of its own for each message: a client ``cast KEY`` or
``call KEY`` when the message had success, ``failed KEY ERROR`` when it had not; a server ``KEY``
when a method runs.  :func:`verdict` compares the files.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import oslo_messaging as om

#: seconds that a call may take: longer than a server is away
TIMEOUT = 30
#: casts of a thread before it calls: the call waits behind them, so that servers keep up, and their
#: queue is empty at times
CASTS = 5
#: messages that a server runs between two restarts
BETWEEN = 100


class Book:
    """A file with one line for each message. Any thread."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())


class _Endpoint:
    def __init__(self, book: Book) -> None:
        self._book = book
        self._changed = threading.Condition()
        self._ran = 0

    def run(self, ctxt: dict[str, Any], key: str) -> str:
        self._book.write(key)
        with self._changed:
            self._ran += 1
            self._changed.notify_all()
        return key

    def wait_for(self, count: int) -> None:
        """Until so many more have run."""
        with self._changed:
            until = self._ran + count
            if not self._changed.wait_for(lambda: self._ran >= until, TIMEOUT):
                raise AssertionError(f"{self._ran} of {until} messages have come")


class Server:
    """One server of a topic; its transport outlives the restarts."""

    def __init__(self, transport: Any, topic: str, name: str, path: str) -> None:
        self._transport = transport
        self._target = om.Target(topic=topic, server=name)
        self._endpoint = _Endpoint(Book(path))
        self._start()

    def _start(self) -> None:
        self._server = om.get_rpc_server(
            self._transport, self._target, [self._endpoint], executor="threading"
        )
        self._server.start()

    def wait_for(self, count: int) -> None:
        """Until it has run so many messages more."""
        self._endpoint.wait_for(count)

    def restart(self, times: int) -> None:
        """Stop in order, each time in the midst of work, and start again."""
        for _ in range(times):
            self.wait_for(BETWEEN)
            self.stop()
            self._start()

    def stop(self) -> None:
        self._server.stop()
        self._server.wait()


class Load:
    """Threads that cast and call in turn.

    :param timeout: of a call, seconds
    """

    def __init__(
        self, transport: Any, topic: str, path: str, threads: int, timeout: float = TIMEOUT
    ) -> None:
        self._book = Book(path)
        self._client = om.get_rpc_client(transport, om.Target(topic=topic), timeout=timeout)
        self._numbers = itertools.count(1)
        self._name = Path(path).stem
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        turns = itertools.cycle([*[self._client.cast] * CASTS, self._client.call])
        while not self._done.is_set():
            send = next(turns)
            kind = send.__name__
            key = f"{self._name}-{kind}-{next(self._numbers)}"
            try:
                send({}, "run", key=key)
            except Exception as error:
                self._book.write(f"failed {key} {type(error).__name__}: {str(error)!r}")
            else:
                self._book.write(f"{kind} {key}")

    def stop(self) -> int:
        """End it, and wait until servers have taken all that was cast.

        :returns: threads that hang
        """
        self._done.set()
        for thread in self._threads:
            thread.join(TIMEOUT + 5)
        last = self._client.prepare(timeout=TIMEOUT)
        last.call({}, "run", key=f"{self._name}-last-0")  # queues keep the order
        return sum(thread.is_alive() for thread in self._threads)


def _lines(paths: Iterable[Path]) -> list[str]:
    return [line for path in paths for line in path.read_text().splitlines()]


def verdict(servers: Iterable[Path], clients: Iterable[Path]) -> dict[str, Any]:
    """What became of all messages: each success has to have run once, a failure at most once."""
    runs = Counter(_lines(servers))
    successes, failures = [], []
    for line in _lines(clients):
        word, key, *error = line.split(" ", 2)
        if word == "failed":
            failures.append((key, error[0]))
        else:
            successes.append(key)
    return {
        "successes": Counter(key.split("-")[-2] for key in successes),
        "failures": Counter(
            f"{key.split('-')[-2]} {error.split(':')[0]}" for key, error in failures
        ),
        "lost": [key for key in successes if not runs[key]],
        "twice": [key for key, count in runs.items() if count > 1],
        "errors": sorted({error for _, error in failures})[:5],
    }
