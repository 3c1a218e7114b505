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

"""The caps of a spool: what fits below them. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from amqp1_driver.pipeline.spool.errors import Full
from amqp1_driver.pipeline.spool.retention import Retained
from amqp1_driver.pipeline.spool.rows import (
    BATCH_BYTES,
    BATCH_OVERHEAD,
    BATCH_ROWS,
    FILE_OVERHEAD,
    Row,
    row_bytes,
)


@dataclasses.dataclass(frozen=True, slots=True)
class SpoolLimits:
    """Caps on what is on disc. A segment is at most half of them, so that one that is kept
    after all was committed leaves room.

    :param max_rows: rows
    :param max_bytes: bytes of all segments
    :param segment_rows: rows in a segment
    :raises ValueError: they contradict each other
    """

    max_rows: int = 1_000_000
    max_bytes: int = 4 * 1024 ** 3
    segment_rows: int = 10_000

    def __post_init__(self) -> None:
        if self.segment_rows < 1:
            raise ValueError("a segment must have at least one row")
        if self.max_rows < 2 * self.segment_rows:
            raise ValueError(f"the spool must take two segments: {self.max_rows} rows at most, "
                             f"but {self.segment_rows} in a segment")
        if self.max_bytes < 4 * (FILE_OVERHEAD + BATCH_OVERHEAD):
            raise ValueError(f"{self.max_bytes} bytes are too few for a spool")


class Piece(NamedTuple):
    """Rows that go into one segment: how many, and their bytes on disc at most."""

    rows: int
    size: int


class Batches:
    """Where record batches begin in a segment, told what its rows need one after the other."""

    def __init__(self) -> None:
        self._rows = 0
        self._bytes = 0

    def begins(self, need: int) -> bool:
        """Whether a row of ``need`` bytes would begin a batch."""
        return not self._rows or self._rows >= BATCH_ROWS or self._bytes + need > BATCH_BYTES

    def add(self, need: int) -> bool:
        """The row is next; returns whether it begins a batch."""
        begins = self.begins(need)
        if begins:
            self._rows, self._bytes = 0, 0
        self._rows += 1
        self._bytes += need
        return begins


def cut(rows: Sequence[Row], limits: SpoolLimits) -> list[Piece]:
    """Cut rows into segments.

    :raises Full: a row is larger than half of the cap
    """
    most = limits.max_bytes // 2
    pieces: list[Piece] = []
    count, size, batches = 0, 0, Batches()
    for row in rows:
        need = row_bytes(row)
        if need + FILE_OVERHEAD + BATCH_OVERHEAD > most:
            raise Full(f"a message of about {need} bytes is too large for the spool: its cap is "
                       f"{limits.max_bytes} bytes, and one message may have half of that")
        more = need + (BATCH_OVERHEAD if batches.begins(need) else 0)
        if not count or count >= limits.segment_rows or size + more > most:
            if count:
                pieces.append(Piece(count, size))
            count, size, batches = 0, FILE_OVERHEAD, Batches()
            more = need + BATCH_OVERHEAD
        batches.add(need)
        count += 1
        size += more
    return [*pieces, Piece(count, size)] if count else pieces


def fitting(pieces: Sequence[Piece], retained: Retained, limits: SpoolLimits) -> int:
    """How many rows, from the first on, fit beside what is retained."""
    rows, size, fit = retained.rows, retained.size, 0
    for piece in pieces:
        size += piece.size
        taken = min(piece.rows, limits.max_rows - rows)
        if size > limits.max_bytes or taken <= 0:
            break
        rows += taken
        fit += taken
        if taken < piece.rows:
            break
    return fit


def room(retained: Retained, limits: SpoolLimits, each: float) -> int:
    """Rows of ``each`` bytes that fit beside what is retained."""
    free = limits.max_bytes - retained.size - FILE_OVERHEAD - BATCH_OVERHEAD
    return max(0, min(limits.max_rows - retained.rows, int(free / each)))
