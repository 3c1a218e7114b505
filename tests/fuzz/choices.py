# SPDX-License-Identifier: Apache-2.0

"""The bytes of a fuzzer as a series of choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Read from the front; when the bytes are used up every choice is 0, so each input ends.

    :param data: an input
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        """Whether bytes are left."""
        return self._at < len(self._data)

    def byte(self) -> int:
        """Return the next byte."""
        if self._at >= len(self._data):
            return 0
        self._at += 1
        return self._data[self._at - 1]

    def number(self, size: int) -> int:
        """Return the next ``size`` bytes as a number."""
        return int.from_bytes(self.take(size), "big")

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes; fewer at the end."""
        data = self._data[self._at : self._at + size]
        self._at += len(data)
        return data

    def rest(self) -> bytes:
        """Return all that is left."""
        return self.take(len(self._data))

    def one_of(self, items: Sequence[T]) -> T:
        """Return one of at most 256 items."""
        return items[self.byte() % len(items)]
