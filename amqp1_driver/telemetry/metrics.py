#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Counters and latency histograms, made of records.

Pure, but for a lock: one thread counts, others read.
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
#: values of a label that a peer can choose; more are counted as "other"
VALUES_LIMIT = 100


class Histogram:
    """How many durations fell into each bucket.

    :ivar counts: one for each of BOUNDS_US, up to and with that, and one for what is longer
    :ivar total_us: sum of all durations
    """

    __slots__ = ("counts", "total_us")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_US) + 1)
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
    """All values at one time; keys are the values of the labels, in the order named here.

    :ivar messages: operation, outcome
    :ivar errors: operation, error
    :ivar timeouts: operation, stage
    :ivar size: bytes, by operation
    :ivar latencies: name of the part (handover, wait, acknowledge, reply, total), operation
    :ivar stalls: side (sender, subscription)
    :ivar stalled: how long, by side
    :ivar connections: how many are in a state
    :ivar changes: of connections, by state
    :ivar link_changes: by state
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
    """A consumer of records; :meth:`snapshot` on any thread."""

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
        """Nothing is due by time."""

    def close(self, timeout: float) -> None:
        """Nothing to finish."""

    def _message(self, record: Record, operation: str) -> None:
        self._messages[operation, record.outcome or ""] += 1
        self._size[(operation,)] += record.size or 0
        if record.error is not None:
            known = (operation, record.error) in self._errors or len(self._errors) < VALUES_LIMIT
            self._errors[operation, record.error if known else "other"] += 1
        if record.outcome == events.TIMEOUT:
            self._timeouts[operation, record.stage or ""] += 1
        for name, us in (("handover", record.handover_us), ("wait", record.wait_us),
                         ("acknowledge", record.ack_us), ("reply", record.reply_us),
                         ("total", record.total_us)):
            if us is not None:
                _histogram(self._latencies, (name, operation)).add(us)

    def _connection(self, record: Record, state: str) -> None:
        self._changes[(state,)] += 1
        if state == "closed":
            self._states.pop(record.container, None)
        else:
            self._states[record.container] = state

    def snapshot(self) -> Snapshot:
        """All values as they are now."""
        with self._lock:
            return Snapshot(
                dict(self._messages), dict(self._errors), dict(self._timeouts), dict(self._size),
                {key: found.copy() for key, found in self._latencies.items()},
                dict(self._stalls), {key: found.copy() for key, found in self._stalled.items()},
                dict(Counter((state,) for state in self._states.values())), dict(self._changes),
                dict(self._link_changes))


def _side(record: Record) -> str:
    return "sender" if record.stage == events.CREDIT else "subscription"


def _histogram(found: dict[tuple[str, ...], Histogram], key: tuple[str, ...]) -> Histogram:
    histogram = found.get(key)
    if histogram is None:
        histogram = found[key] = Histogram()
    return histogram
