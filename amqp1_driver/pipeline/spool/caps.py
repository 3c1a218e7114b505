# SPDX-License-Identifier: Apache-2.0

"""The caps of a spool, and which rows fit below them.  Pure; any thread."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
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
    """Caps on the rows and bytes on disc.

    A segment has at most half of either cap. The spool keeps its newest segment even when all rows
    are committed, and this leaves room for the next one.

    :param max_rows: rows of all segments
    :param max_bytes: bytes of all segments
    :param segment_rows: rows in one segment
    :raises ValueError: the caps contradict each other
    """

    max_rows: int = 1_000_000
    max_bytes: int = 4 * 1024**3
    segment_rows: int = 10_000

    def __post_init__(self) -> None:
        if self.segment_rows < 1:
            raise ValueError("a segment must have at least one row")
        if self.max_rows < 2 * self.segment_rows:
            raise ValueError(
                f"the spool must take two segments: {self.max_rows} rows at most, "
                f"but {self.segment_rows} in a segment"
            )
        if self.max_bytes < 4 * (FILE_OVERHEAD + BATCH_OVERHEAD):
            raise ValueError(f"{self.max_bytes} bytes are too few for a spool")

    @property
    def largest(self) -> int:
        """Return the most bytes of one row: half of the cap on bytes, less overhead.

        :func:`~.rows.sizes` gives the bytes of a row.
        """
        return self.max_bytes // 2 - FILE_OVERHEAD - BATCH_OVERHEAD


class Piece(NamedTuple):
    """The shape of one segment that is not written yet.

    :param rows: number of rows
    :param size: bytes on disc, at most
    :param batches: number of rows of each record batch
    """

    rows: int
    size: int
    batches: tuple[int, ...]


def cut(rows: Sequence[Row], limits: SpoolLimits) -> list[Piece]:
    """Divide rows into segments, and each segment into record batches.

    :raises Full: a row is larger than ``SpoolLimits.largest``
    """
    needs = sizes(rows)
    need = max(needs, default=0)
    if need > limits.largest:
        raise Full(
            f"a message of about {need} bytes is too large for the spool: its cap is "
            f"{limits.max_bytes} bytes, and one message may have half of that"
        )
    return list(_pieces(needs, limits.segment_rows, limits.max_bytes // 2))


def _pieces(needs: Sequence[int], most_rows: int, most_bytes: int) -> Iterator[Piece]:
    """Yield the pieces of rows with these sizes, each as large as its caps allow.

    A single row that exceeds ``most_bytes`` is a piece of its own.
    """
    # Rows and bytes of the segment, rows and bytes of its last record batch, and the numbers of
    # rows of the batches before that one.
    count, size, batch, batch_size = 0, FILE_OVERHEAD, 0, 0
    before: list[int] = []
    for need in needs:
        if batch == BATCH_ROWS or batch_size + need > BATCH_BYTES:
            before.append(batch)
            batch = batch_size = 0
        more = need if batch else need + BATCH_OVERHEAD
        if count and (count == most_rows or size + more > most_bytes):
            yield Piece(count, size, (*before, batch) if batch else tuple(before))
            count, size, batch, batch_size, before = 0, FILE_OVERHEAD, 0, 0, []
            more = need + BATCH_OVERHEAD
        count += 1
        size += more
        batch += 1
        batch_size += need
    if count:
        yield Piece(count, size, (*before, batch))


def fitting(
    rows: Sequence[Row], pieces: Sequence[Piece], retained: Retained, limits: SpoolLimits
) -> int:
    """Return how many rows, from the first on, fit beside the retained ones.

    If a cap is reached within a piece, the rows of the piece before that point fit.

    :param pieces: the rows as :func:`cut` divides them
    """
    count, size, fit = retained.rows, retained.size, 0
    for piece in pieces:
        taken = piece.rows
        if size + piece.size > limits.max_bytes:
            taken = _beginning(rows[fit : fit + taken], limits, limits.max_bytes - size)
        taken = max(0, min(taken, limits.max_rows - count))
        fit += taken
        if taken < piece.rows:
            break
        count += taken
        size += piece.size
    return fit


def _beginning(rows: Sequence[Row], limits: SpoolLimits, free: int) -> int:
    """Return how many rows of one piece, from the first on, fit into ``free`` bytes."""
    first = next(_pieces(sizes(rows), limits.segment_rows, free))
    return first.rows if first.size <= free else 0


def room(retained: Retained, limits: SpoolLimits, each: float) -> int:
    """Return how many rows of ``each`` bytes fit beside the retained ones."""
    free = limits.max_bytes - retained.size - FILE_OVERHEAD - BATCH_OVERHEAD
    return max(0, min(limits.max_rows - retained.rows, int(free / each)))
