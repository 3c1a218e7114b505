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

"""Segments: Arrow IPC files, written whole or not at all, read by memory map."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from amqp1_driver.pipeline.spool import files
from amqp1_driver.pipeline.spool.errors import Missing
from amqp1_driver.pipeline.spool.rows import SCHEMA, Row, to_batch


def write(path: Path, rows: Sequence[Row], first: int, batches: Sequence[int]) -> int:
    """Write a file with these rows and force it to disc.

    :param batches: how many of them each record batch has
    :returns: its size in bytes
    :raises OSError: for instance no space is left; the file is removed
    """
    try:
        with open(path, "wb") as file:
            with pa.ipc.new_file(file, SCHEMA) as writer:
                start = 0
                for count in batches:
                    writer.write_batch(to_batch(rows[start:start + count], first + start))
                    start += count
            file.flush()
            os.fsync(file.fileno())
            return file.tell()
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def whole(segment: files.Segment) -> bool:
    """Whether the file can be read and has the rows that its name says."""
    try:
        with pa.memory_map(str(segment.path)) as source:
            reader = pa.ipc.open_file(source)
            rows = 0
            for at in range(reader.num_record_batches):
                rows += reader.get_batch(at).num_rows
            return bool(reader.schema.equals(SCHEMA) and rows == segment.hi - segment.lo + 1)
    except (pa.ArrowInvalid, OSError, EOFError):
        return False


def read(path: Path, lo: int, hi: int) -> Iterator[Any]:
    """Record batches with rows ``lo`` to ``hi`` of one segment, without copying them.

    :raises Missing: the file is not there, or not whole
    """
    first = int(path.name[:20])
    try:
        source = pa.memory_map(str(path))
        reader = pa.ipc.open_file(source)
    except FileNotFoundError:
        raise Missing(f"rows {lo} to {hi}: {path} is not there") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise Missing(f"rows {lo} to {hi}: {path} cannot be read: {error}") from error
    for at in range(reader.num_record_batches):
        batch = reader.get_batch(at)
        last = first + batch.num_rows - 1
        if last >= lo and first <= hi:
            start = max(lo, first)
            yield batch.slice(start - first, min(hi, last) - start + 1)
        first = last + 1
        if first > hi:
            return


def message_ids(path: Path) -> list[str | None]:
    """The message ids of a segment in order of its rows."""
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        found: list[str | None] = []
        for at in range(reader.num_record_batches):
            found.extend(reader.get_batch(at).column("message_id").to_pylist())
    return found
