# SPDX-License-Identifier: Apache-2.0

"""Counters and latency histograms of records. The hub's thread counts, any thread reads.

Pure, except for a lock between these threads.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from amqp1_driver.telemetry import events
from amqp1_driver.telemetry.events import Record

#: The upper bounds of the buckets are powers of two: 2^4 to 2^27 microseconds, 16 us to 134 s.
LOWEST, HIGHEST = 4, 27
BOUNDS_US: tuple[int, ...] = tuple(1 << n for n in range(LOWEST, HIGHEST + 1))
#: most pairs of operation and error that get a counter of their own; a peer can choose error
#: conditions, so further ones are counted as "other"
VALUES_LIMIT = 100


class Histogram:
    """A histogram of durations, in buckets with the bounds BOUNDS_US. One thread at a time."""

    __slots__ = ("counts", "total_us")

    def __init__(self) -> None:
        #: durations in each bucket, up to and including its bound; the last one is for longer ones
        self.counts = [0] * (len(BOUNDS_US) + 1)
        #: sum of all durations, microseconds
        self.total_us = 0

    def add(self, us: int) -> None:
        # (2^n).bit_length() is n + 1, and a bound belongs to its own bucket
        n = max(us - 1, 0).bit_length() - LOWEST
        self.counts[0 if n < 0 else min(n, len(BOUNDS_US))] += 1
        self.total_us += us

    def copy(self) -> "Histogram":
        other = Histogram()
        other.counts = list(self.counts)
        other.total_us = self.total_us
        return other


class Snapshot(NamedTuple):
    """All values at one time; keys are the values of the labels, in the order given here.

    :param messages: number of messages, by operation and outcome
    :param errors: number of failed messages, by operation and error
    :param timeouts: number of messages that timed out, by operation and stage
    :param size: bytes of message bodies, by operation
    :param latencies: durations, by part (handover, wait, acknowledge, reply, total) and operation
    :param stalls: number of stalls, by side (sender, subscription)
    :param stalled: durations of stalls, by side
    :param connections: number of connections, by their present state
    :param changes: number of changes of connections, by new state
    :param link_changes: number of changes of links, by new state
    """

    messages: dict[tuple[str, ...], int]
    errors: dict[tuple[str, ...], int]
    timeouts: dict[tuple[str, ...], int]
    size: dict[tuple[str, ...], int]
    latencies: dict[tuple[str, ...], Histogram]
    stalls: dict[tuple[str, ...], int]
    stalled: dict[tuple[str, ...], Histogram]
    connections: dict[tuple[str, ...], int]
    changes: dict[tuple[str, ...], int]
    link_changes: dict[tuple[str, ...], int]


class Metrics:
    """A consumer that counts records, on the hub's thread; :meth:`snapshot` on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: Counter[tuple[str, ...]] = Counter()
        self._errors: Counter[tuple[str, ...]] = Counter()
        self._timeouts: Counter[tuple[str, ...]] = Counter()
        self._size: Counter[tuple[str, ...]] = Counter()
        self._latencies: dict[tuple[str, ...], Histogram] = {}
        self._stalls: Counter[tuple[str, ...]] = Counter()
        self._stalled: dict[tuple[str, ...], Histogram] = {}
        self._states: dict[str, str] = {}
        self._changes: Counter[tuple[str, ...]] = Counter()
        self._link_changes: Counter[tuple[str, ...]] = Counter()

    def take(self, records: Sequence[Record]) -> None:
        with self._lock:
            for record in records:
                if record.operation is not None:
                    self._message(record, record.operation)
                elif record.kind == events.STALL:
                    self._stalls[(_side(record),)] += 1
                elif record.kind == events.RESUME:
                    _histogram(self._stalled, (_side(record),)).add(record.total_us or 0)
                elif record.kind == events.CONNECTION:
                    self._connection(record, record.state or "")
                else:
                    self._link_changes[(record.state or "",)] += 1

    def tick(self) -> None:
        """Do nothing: no work is due by time."""

    def close(self, timeout: float) -> None:
        """Do nothing: there is nothing to finish."""

    def _message(self, record: Record, operation: str) -> None:
        self._messages[operation, record.outcome or ""] += 1
        self._size[(operation,)] += record.size or 0
        if record.error is not None:
            known = (operation, record.error) in self._errors or len(self._errors) < VALUES_LIMIT
            self._errors[operation, record.error if known else "other"] += 1
        if record.outcome == events.TIMEOUT:
            self._timeouts[operation, record.stage or ""] += 1
        for name, us in (
            ("handover", record.handover_us),
            ("wait", record.wait_us),
            ("acknowledge", record.ack_us),
            ("reply", record.reply_us),
            ("total", record.total_us),
        ):
            if us is not None:
                _histogram(self._latencies, (name, operation)).add(us)

    def _connection(self, record: Record, state: str) -> None:
        self._changes[(state,)] += 1
        if state == "closed":
            self._states.pop(record.container, None)
        else:
            self._states[record.container] = state

    def snapshot(self) -> Snapshot:
        """Return a copy of all present values."""
        with self._lock:
            return Snapshot(
                dict(self._messages),
                dict(self._errors),
                dict(self._timeouts),
                dict(self._size),
                {key: found.copy() for key, found in self._latencies.items()},
                dict(self._stalls),
                {key: found.copy() for key, found in self._stalled.items()},
                dict(Counter((state,) for state in self._states.values())),
                dict(self._changes),
                dict(self._link_changes),
            )


def _side(record: Record) -> str:
    return "sender" if record.stage == events.CREDIT else "subscription"


def _histogram(found: dict[tuple[str, ...], Histogram], key: tuple[str, ...]) -> Histogram:
    histogram = found.get(key)
    if histogram is None:
        histogram = found[key] = Histogram()
    return histogram
