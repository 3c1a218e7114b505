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
    sizes,
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
    """Rows that go into one segment.

    :param size: their bytes on disc at most
    :param batches: how many rows each record batch has
    """

    rows: int
    size: int
    batches: tuple[int, ...]


def cut(rows: Sequence[Row], limits: SpoolLimits) -> list[Piece]:
    """Cut rows into segments.

    :raises Full: a row is larger than half of the cap
    """
    most = limits.max_bytes // 2
    pieces: list[Piece] = []
    # of the segment, of its last record batch, and the rows of those before
    count, size, batch, batch_size, before = 0, FILE_OVERHEAD, 0, 0, []
    for need in sizes(rows):
        if need + FILE_OVERHEAD + BATCH_OVERHEAD > most:
            raise Full(f"a message of about {need} bytes is too large for the spool: its cap is "
                       f"{limits.max_bytes} bytes, and one message may have half of that")
        if batch == BATCH_ROWS or batch_size + need > BATCH_BYTES:
            before.append(batch)
            batch = batch_size = 0
        more = need if batch else need + BATCH_OVERHEAD
        if count and (count == limits.segment_rows or size + more > most):
            pieces.append(Piece(count, size, (*before, batch) if batch else tuple(before)))
            count, size, batch, batch_size, before = 0, FILE_OVERHEAD, 0, 0, []
            more = need + BATCH_OVERHEAD
        count += 1
        size += more
        batch += 1
        batch_size += need
    return [*pieces, Piece(count, size, (*before, batch))] if count else pieces


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
