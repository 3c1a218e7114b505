# SPDX-License-Identifier: Apache-2.0

"""The load of a client: threads send at full speed or at a rate, and wait for each outcome."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from . import usage
from .ledger import FAILED, OK, Histogram, Ledger, pack

#: sends message ``number`` of ``sender``, which was due at ``at`` (monotonic nanoseconds)
Send = Callable[[int, int, int], Any]


@dataclass(frozen=True, slots=True)
class Load:
    """The work of one client.

    :param at: when to begin, monotonic nanoseconds
    :param seconds: how long to send; 0: until all messages are sent
    :param count: number of messages; 0: until the time is over
    :param threads: number of threads that send at once
    :param sender: number of the first thread; negative: warm-up
    :param rate: messages per second of all clients together; 0: as fast as possible
    :param senders: number of threads of all clients together
    """

    at: int
    seconds: float
    count: int
    threads: int
    sender: int
    rate: float = 0.0
    senders: int = 1


class Errors:
    """A count of errors by kind, with the text of the first of each kind. One thread."""

    def __init__(self) -> None:
        self.kinds: dict[str, tuple[int, str]] = {}

    def add(self, error: BaseException) -> None:
        """Count an error."""
        kind = type(error).__name__
        count, words = self.kinds.get(kind, (0, str(error)[:500]))
        self.kinds[kind] = (count + 1, words)


class Record:
    """The messages of one sender, with their outcome. One thread.

    :param number: number of the sender; negative: warm-up
    :param at: when the sender begins, monotonic nanoseconds
    """

    def __init__(self, number: int, at: int) -> None:
        self.number = number
        #: for each message OK or FAILED
        self.states = bytearray()
        self.latency = Histogram()
        self.errors = Errors()
        #: when the sender ended, monotonic nanoseconds
        self.ended = at


class Sender(Record):
    """One sending thread."""

    def __init__(self, load: Load, index: int, send: Send) -> None:
        super().__init__(load.sender + index if load.sender >= 0 else -1, load.at)
        self._send = send
        self._until = load.at + int(load.seconds * 1e9) if load.seconds else 1 << 63
        self._count = share(load.count, load.threads, index) if load.count else 1 << 63
        self._start = load.at
        self._interval = 0.0
        if load.rate:
            self._interval = load.senders * 1e9 / load.rate
            self._start += int((max(0, load.sender) + index) * 1e9 / load.rate)

    def run(self) -> None:
        """Send until the time is over or all messages are sent."""
        sleep_until(self._start)
        if self._interval:
            self._open_loop()
        else:
            self._closed_loop()
        self.ended = time.monotonic_ns()

    def _closed_loop(self) -> None:
        for number in range(self._count):
            now = time.monotonic_ns()
            if now >= self._until:
                return
            self._one(number, now)

    def _open_loop(self) -> None:
        # A latency counts from when the message was due, not from when it was sent: otherwise a
        # driver that stalls would be asked less often, and its latencies would hide the stall.
        for number in range(self._count):
            due = self._start + int(number * self._interval)
            if due >= self._until:
                return
            sleep_until(due)
            self._one(number, due)

    def _one(self, number: int, due: int) -> None:
        try:
            self._send(self.number, number, due)
        except Exception as error:
            self.states.append(FAILED)
            self.errors.add(error)
        else:
            self.latency.add(time.monotonic_ns() - due)
            self.states.append(OK)


def share(count: int, shares: int, index: int) -> int:
    """Return how many of ``count`` belong to share ``index`` of ``shares``."""
    return count // shares + (index < count % shares)


def drive(load: Load, send: Send) -> dict[str, Any]:
    """Send from all threads; return the outcome in a form for JSON."""
    senders = [Sender(load, index, send) for index in range(load.threads)]
    threads = [threading.Thread(target=sender.run, daemon=True) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome(senders)


def outcome(senders: Sequence[Record]) -> dict[str, Any]:
    """Return the outcome of all senders in a form for JSON."""
    latency, errors = Histogram(), Errors()
    for sender in senders:
        latency.merge(sender.latency)
        for kind, (count, words) in sender.errors.kinds.items():
            before, first = errors.kinds.get(kind, (0, words))
            errors.kinds[kind] = (before + count, first)
    return {
        "sent": sum(sender.states.count(OK) for sender in senders),
        "failed": sum(sender.states.count(FAILED) for sender in senders),
        "ended": max(sender.ended for sender in senders),
        "latency": latency.dump(),
        "errors": errors.kinds,
        "states": {
            str(sender.number): pack(sender.states) for sender in senders if sender.number >= 0
        },
    }


def watched(
    jobs: Mapping[str, Callable[[], dict[str, Any]]], ledger: Ledger, at: int, seconds: float
) -> dict[str, Any]:
    """Run all jobs at once, and count the messages that are received meanwhile.

    :param jobs: by the name of a sender, a function that sends and returns the outcome
    :param ledger: account of the received messages
    :param at: when the jobs begin, monotonic nanoseconds
    :param seconds: duration of the jobs
    :returns: ``senders``: outcomes by name; ``received``: number of messages; ``busy``: processor
        time of this process in relation to ``seconds``
    """
    with ThreadPoolExecutor(max(1, len(jobs))) as executor:
        running = {name: executor.submit(job) for name, job in jobs.items()}
        sleep_until(at)
        before, used = ledger.received, usage.own()
        sleep_until(at + int(seconds * 1e9))
        received, cpu_us = ledger.received - before, usage.own().since(used).cpu_us
        found = {name: job.result() for name, job in running.items()}
    return {"senders": found, "received": received, "busy": cpu_us / 1e6 / seconds}


def sleep_until(when: int) -> None:
    """Sleep until a time in monotonic nanoseconds."""
    left = when - time.monotonic_ns()
    if left > 0:
        time.sleep(left / 1e9)
