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

"""What was sent, what was received and how long it took, in little memory. Pure."""

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
    """Durations in nanoseconds, in buckets no wider than 1/128 of their value. One thread."""

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
        """Add what another has counted."""
        for key, count in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
        self.max = max(self.max, other.max)

    @property
    def count(self) -> int:
        """How many durations."""
        return sum(self.counts.values())

    def percentile(self, percent: float) -> int:
        """The duration that so many percent do not exceed (nearest rank); 0 if there are none."""
        rank = max(1, -int(-self.count * percent // 100))
        for key in sorted(self.counts):
            rank -= self.counts[key]
            if rank <= 0:
                shift, value = key >> _BITS, key & (1 << _BITS) - 1
                return min(self.max, (value + 1 << shift) - 1)
        return 0

    def dump(self) -> dict[str, Any]:
        """As JSON."""
        return {"max": self.max, "buckets": sorted(self.counts.items())}

    @classmethod
    def load(cls, data: dict[str, Any]) -> Histogram:
        """From ``dump``."""
        result = cls()
        result.max = data["max"]
        result.counts = {key: count for key, count in data["buckets"]}
        return result

    @classmethod
    def merged(cls, parts: Iterable[dict[str, Any]]) -> Histogram:
        """All of them, each as ``dump`` gave it."""
        result = cls()
        for part in parts:
            result.merge(cls.load(part))
        return result


def pack(marks: bytes | bytearray) -> str:
    """One byte for each message, as text; long runs of the same take next to nothing."""
    return base64.b64encode(zlib.compress(bytes(marks), 1)).decode()


def unpack(text: str) -> bytes:
    """What ``pack`` packed."""
    return zlib.decompress(base64.b64decode(text))


class Ledger:
    """How often each message was received: senders number theirs from 0. Any thread.

    Messages with a negative sender are warm-up and only counted.
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
        """A message that was meant to be sent at ``sent`` is here; monotonic nanoseconds."""
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
        """As JSON."""
        with self._lock:
            return {
                "received": self.received,
                "last": self.last,
                "delivery": self.delivery.dump(),
                "marks": {
                    str(sender): pack(marks.rstrip(b"\0")) for sender, marks in self._marks.items()
                },
            }
