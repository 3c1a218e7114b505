# SPDX-License-Identifier: Apache-2.0

"""Records of messages sent and received, and of durations, in little memory. Pure."""

from __future__ import annotations

import base64
import threading
import zlib
from collections.abc import Iterable
from typing import Any

#: states of a message that was sent
OK, FAILED = 1, 2

_BITS = 8


class Histogram:
    """Durations in nanoseconds, in buckets no wider than 1/128 of their value. One thread.

    The package hdrhistogram does the same. But its ``record_value`` takes four times as long, time
    that counts as the driver's, and the virtual environments of other drivers do not have it.
    """

    __slots__ = ("counts", "max")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.max = 0

    def add(self, nanoseconds: int) -> None:
        """Count one duration; negative ones count as 0."""
        if nanoseconds < 0:
            nanoseconds = 0
        shift = nanoseconds.bit_length() - _BITS
        if shift < 0:
            shift = 0
        key = shift << _BITS | nanoseconds >> shift
        self.counts[key] = self.counts.get(key, 0) + 1
        if nanoseconds > self.max:
            self.max = nanoseconds

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        for key, count in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
        self.max = max(self.max, other.max)

    @property
    def count(self) -> int:
        """Return the number of durations."""
        return sum(self.counts.values())

    def percentile(self, percent: float) -> int:
        """Return the duration that ``percent`` % do not exceed (nearest rank); 0 if empty."""
        rank = max(1, -int(-self.count * percent // 100))
        for key in sorted(self.counts):
            rank -= self.counts[key]
            if rank <= 0:
                shift, value = key >> _BITS, key & (1 << _BITS) - 1
                return min(self.max, (value + 1 << shift) - 1)
        return 0

    def dump(self) -> dict[str, Any]:
        """Return the histogram in a form for JSON."""
        return {"max": self.max, "buckets": sorted(self.counts.items())}

    @classmethod
    def load(cls, data: dict[str, Any]) -> Histogram:
        """Return the histogram that ``dump`` has put into this form."""
        result = cls()
        result.max = data["max"]
        result.counts = {key: count for key, count in data["buckets"]}
        return result

    @classmethod
    def merged(cls, parts: Iterable[dict[str, Any]]) -> Histogram:
        """Return the sum of histograms, each in the form of ``dump``."""
        result = cls()
        for part in parts:
            result.merge(cls.load(part))
        return result


def pack(marks: bytes | bytearray) -> str:
    """Encode one byte for each message as text; long runs of the same byte take almost no space."""
    return base64.b64encode(zlib.compress(bytes(marks), 1)).decode()


def unpack(text: str) -> bytes:
    """Decode a text that ``pack`` has encoded."""
    return zlib.decompress(base64.b64decode(text))


class Ledger:
    """Counts of how often each message was received. Any thread.

    Each sender numbers its messages from 0.

    A message with a negative sender is warm-up: it is counted, but not recorded by number.
    """

    _GROWTH = 1 << 14

    def __init__(self) -> None:
        self.warm = 0
        self.received = 0
        #: monotonic nanoseconds of the latest message
        self.last = 0
        self.delivery = Histogram()
        self._marks: dict[int, bytearray] = {}
        self._lock = threading.Lock()

    def note(self, sender: int, number: int, sent: int, now: int) -> None:
        """Record that a message was received.

        :param sent: when the message was due to be sent, monotonic nanoseconds
        :param now: when it was received, monotonic nanoseconds
        """
        with self._lock:
            if sender < 0:
                self.warm += 1
                return
            marks = self._marks.get(sender)
            if marks is None:
                marks = self._marks[sender] = bytearray()
            if number >= len(marks):
                marks.extend(bytes(number - len(marks) + self._GROWTH))
            if marks[number] < 255:
                marks[number] += 1
            self.received += 1
            self.last = now
            self.delivery.add(now - sent)

    def dump(self) -> dict[str, Any]:
        """Return the ledger in a form for JSON."""
        with self._lock:
            return {
                "received": self.received,
                "last": self.last,
                "delivery": self.delivery.dump(),
                "marks": {
                    str(sender): pack(marks.rstrip(b"\0")) for sender, marks in self._marks.items()
                },
            }
