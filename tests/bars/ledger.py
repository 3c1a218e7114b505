# SPDX-License-Identifier: Apache-2.0
"""What an application has received."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable


class Ledger:
    """Keys of messages by kind ("cast", ...), with the times of each receipt. Any thread.

    Times are those of the system's monotonic clock, the same in all processes.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._receipts: dict[str, dict[str, list[float]]] = {}
        self._last: dict[str, float] = {}

    def note(self, kind: str, key: str) -> None:
        now = time.monotonic()
        with self._changed:
            self._receipts.setdefault(kind, {}).setdefault(key, []).append(now)
            self._last[kind] = now
            self._changed.notify_all()

    def wait_later(self, kinds: Iterable[str], since: float, timeout: float) -> list[str]:
        """Until each of the kinds has been received after then; those that were not."""
        wanted = set(kinds)

        def missing() -> list[str]:
            return sorted(kind for kind in wanted if self._last.get(kind, 0) < since)

        with self._changed:
            self._changed.wait_for(lambda: not missing(), timeout)
            return missing()

    def wait_all(self, kind: str, keys: Iterable[str], timeout: float) -> list[str]:
        """Until all of these keys have been received; those that were not."""
        wanted = set(keys)
        with self._changed:
            found = self._receipts.setdefault(kind, {})
            self._changed.wait_for(lambda: wanted <= found.keys(), timeout)
            return sorted(wanted - found.keys())

    def repeated(self) -> dict[str, dict[str, list[float]]]:
        """What was received more than once, with all times."""
        with self._changed:
            return {
                kind: again
                for kind, receipts in self._receipts.items()
                if (again := {key: at for key, at in receipts.items() if len(at) > 1})
            }

    def count(self, kind: str) -> int:
        """How many different keys."""
        with self._changed:
            return len(self._receipts.get(kind, {}))


class Tally:
    """Receipts of messages numbered from 0, in one byte each: does not grow. Any thread."""

    def __init__(self, size: int) -> None:
        self._changed = threading.Condition()
        self._times = bytearray(size)
        self._received = 0

    def note(self, number: int) -> None:
        with self._changed:
            self._times[number] = min(255, self._times[number] + 1)
            self._received += 1
            self._changed.notify_all()

    def wait(self, count: int, timeout: float) -> dict[str, int]:
        """Until so many have been received, repeated ones included; what became of all."""
        with self._changed:
            self._changed.wait_for(lambda: self._received >= count, timeout)
            return {
                "received": self._received,
                "different": sum(1 for times in self._times if times),
                "repeated": sum(1 for times in self._times if times > 1),
            }
