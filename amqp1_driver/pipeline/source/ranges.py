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

"""Partitions: ranges of rows in the files of a spool, read in Spark's workers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from amqp1_driver.pipeline.spool import Missing, Spool, segments
from amqp1_driver.pipeline.spool.retention import split

LOG = logging.getLogger(__name__)

#: fewer rows are not worth a task of their own
TASK_ROWS = 2000


class RowRange(InputPartition):
    """Rows for one task: path, first row, last row of each piece."""

    def __init__(self, pieces: tuple[tuple[str, int, int], ...] = ()) -> None:
        super().__init__(None)
        self.pieces = pieces


def plan(spool: Spool, lo: int, hi: int, tasks: int, fail: bool) -> list[RowRange]:
    """Cut rows ``lo`` to ``hi`` into ranges of about equal size.

    :param tasks: how many at most
    :param fail: whether missing rows are an error, else they are logged
    :raises Missing: rows are missing
    """
    if hi < lo:
        return []
    holes = spool.missing(lo, hi)
    if holes:
        text = ", ".join(f"{first} to {last}" for first, last in holes)
        _lost(f"rows {text} are missing in the spool {spool.folder}", fail)
    parts = spool.parts(lo, hi)
    tasks = min(tasks, -(-(hi - lo + 1) // TASK_ROWS))
    return [RowRange(tuple((str(part.segment.path), part.lo, part.hi) for part in group))
            for group in split(parts, tasks)]


def read(rows: InputPartition, fail: bool) -> Iterator[Any]:
    """The record batches of a range, mapped from the files and not copied.

    :param fail: whether missing rows are an error, else they are logged
    :raises Missing: a file is gone or torn
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
