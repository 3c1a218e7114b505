# SPDX-License-Identifier: Apache-2.0

"""The segments of a spool: Arrow IPC files, read by memory map.  Any thread.

The spool writes each file as a whole and gives it its final name afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from amqp1_driver.pipeline.spool import files
from amqp1_driver.pipeline.spool.errors import Missing
from amqp1_driver.pipeline.spool.rows import SCHEMA, Row, to_batch

#: errors that Arrow raises for a file that is not whole
_UNREADABLE = (pa.ArrowInvalid, OSError, EOFError)


def write(path: Path, rows: Sequence[Row], first: int, batches: Sequence[int]) -> int:
    """Write a file with these rows and force it to disc. On an error, remove the file.

    :param first: sequence number of the first row
    :param batches: number of rows of each record batch
    :returns: size of the file in bytes
    :raises OSError: for instance no space is left
    """
    try:
        with files.create(path) as file:
            with pa.ipc.new_file(file, SCHEMA) as writer:
                start = 0
                for count in batches:
                    writer.write_batch(to_batch(rows[start : start + count], first + start))
                    start += count
            file.flush()
            os.fsync(file.fileno())
            return file.tell()
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def whole(segment: files.Segment) -> bool:
    """Return whether the file can be read and has as many rows as its name says."""
    try:
        with pa.memory_map(str(segment.path)) as source:
            reader = pa.ipc.open_file(source)
            rows = 0
            for at in range(reader.num_record_batches):
                rows += reader.get_batch(at).num_rows
            return bool(reader.schema.equals(SCHEMA) and rows == segment.hi - segment.lo + 1)
    except _UNREADABLE:
        return False


def read(path: Path, lo: int, hi: int) -> Iterator[Any]:
    """Yield record batches with the rows ``lo`` to ``hi`` of one segment, without copying them.

    :raises Missing: the file does not exist, or Arrow cannot read it or one of its record batches;
        raised when the caller asks for a batch
    """
    first = int(path.name[:20])
    try:
        source = pa.memory_map(str(path))
        reader = pa.ipc.open_file(source)
    except FileNotFoundError:
        raise Missing(f"rows {lo} to {hi}: {path} is not there") from None
    except _UNREADABLE as error:
        raise Missing(f"rows {lo} to {hi}: {path} cannot be read: {error}") from error
    for at in range(reader.num_record_batches):
        try:
            batch = reader.get_batch(at)
        except _UNREADABLE as error:
            raise Missing(
                f"rows {max(lo, first)} to {hi}: {path} cannot be read: {error}"
            ) from error
        last = first + batch.num_rows - 1
        if last >= lo and first <= hi:
            start = max(lo, first)
            yield batch.slice(start - first, min(hi, last) - start + 1)
        first = last + 1
        if first > hi:
            return


def message_ids(path: Path) -> list[str | None]:
    """Return the message ids of a segment in order of its rows; None for a row without id."""
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        found: list[str | None] = []
        for at in range(reader.num_record_batches):
            found.extend(reader.get_batch(at).column("message_id").to_pylist())
    return found
