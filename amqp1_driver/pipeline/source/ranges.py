# SPDX-License-Identifier: Apache-2.0

"""Partitions: ranges of rows in the files of a spool.

The process that plans calls :func:`plan`, and Spark's workers call :func:`read`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from amqp1_driver.pipeline.spool import Missing, Spool, segments
from amqp1_driver.pipeline.spool.retention import split

LOG = logging.getLogger(__name__)

#: about the fewest rows of a task: a task with fewer rows costs more than it saves
TASK_ROWS = 2000


class RowRange(InputPartition):
    """The rows for one task, as pieces: path of the file, first row and last row of each."""

    def __init__(self, pieces: tuple[tuple[str, int, int], ...] = ()) -> None:
        super().__init__(None)
        self.pieces = pieces


def plan(spool: Spool, lo: int, hi: int, tasks: int, fail: bool) -> list[RowRange]:
    """Cut rows ``lo`` to ``hi`` into ranges of about equal size.

    :param tasks: number of ranges, at most
    :param fail: whether missing rows are an error; otherwise the function logs them
    :raises Missing: rows are missing, and ``fail`` is true
    """
    if hi < lo:
        return []
    holes = spool.missing(lo, hi)
    if holes:
        text = ", ".join(f"{first} to {last}" for first, last in holes)
        _lost(f"rows {text} are missing in the spool {spool.folder}", fail)
    parts = spool.parts(lo, hi)
    tasks = min(tasks, -(-(hi - lo + 1) // TASK_ROWS))
    return [
        RowRange(tuple((str(part.segment.path), part.lo, part.hi) for part in group))
        for group in split(parts, tasks)
    ]


def read(rows: InputPartition, fail: bool) -> Iterator[Any]:
    """Yield the record batches of a range, mapped from the files without copying.

    :param fail: whether missing rows are an error; otherwise the function logs them
    :raises Missing: a file is missing or torn, and ``fail`` is true
    """
    assert isinstance(rows, RowRange)
    for path, lo, hi in rows.pieces:
        try:
            yield from segments.read(Path(path), lo, hi)
        except Missing as error:
            _lost(str(error), fail)


def _lost(text: str, fail: bool) -> None:
    if fail:
        raise Missing(f"{text}; to go on without them set failOnDataLoss to false")
    LOG.error("Data loss: %s", text)
