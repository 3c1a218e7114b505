#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What a file with records looks like: JSON lines, Parquet or an Arrow stream.

Parquet and Arrow (extra ``telemetry-parquet``) are made in memory and written as a whole: half of
such a file is worth nothing.
"""

import abc
import io
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from amqp1_driver.telemetry.events import FIELDS, TEXTS, Record, to_lines

#: records that become one group of rows
GROUP = 10000


class Format(Protocol):
    """Encodes the records of one file after another."""

    #: of the file's name
    suffix: str

    def add(self, records: Sequence[Record]) -> bytes:
        """The bytes to append to the file now, which may be none."""

    def size(self) -> int:
        """Bytes that are kept for the end of the file."""

    def end(self) -> bytes:
        """The bytes that complete the file; the next file begins."""


class JsonLines:
    """One JSON object in each line."""

    suffix = "jsonl"

    def add(self, records: Sequence[Record]) -> bytes:
        return to_lines(records)

    def size(self) -> int:
        return 0

    def end(self) -> bytes:
        return b""


class _Columns(abc.ABC):
    """Columns by pyarrow; the file is in memory until its end."""

    suffix = ""

    def __init__(self) -> None:
        import pyarrow as pa

        self._pa = pa
        self._schema = pa.schema([
            (name, pa.timestamp("us", tz="UTC") if name == "time"
             else pa.string() if name in TEXTS else pa.int64()) for name in FIELDS])
        self._rows: list[Record] = []
        self._file = io.BytesIO()
        self._writer: Any = None

    def add(self, records: Sequence[Record]) -> bytes:
        self._rows.extend(records)
        if len(self._rows) >= GROUP:
            self._write()
        return b""

    def _write(self) -> None:
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        if self._writer is None:
            self._writer = self._open()
        columns = zip(*rows, strict=True)
        self._writer.write_table(self._pa.Table.from_arrays(
            [self._pa.array(column, type=field.type)
             for column, field in zip(columns, self._schema, strict=True)], schema=self._schema))

    @abc.abstractmethod
    def _open(self) -> Any:
        """The writer of the file."""

    def size(self) -> int:
        return self._file.tell()

    def end(self) -> bytes:
        self._write()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        file, self._file = self._file, io.BytesIO()
        return file.getvalue()


class Parquet(_Columns):
    """Parquet, compressed by zstd."""

    suffix = "parquet"

    def _open(self) -> Any:
        import pyarrow.parquet

        return pyarrow.parquet.ParquetWriter(self._file, self._schema, compression="zstd")


class Arrow(_Columns):
    """Arrow's file format."""

    suffix = "arrow"

    def _open(self) -> Any:
        return self._pa.ipc.new_file(self._file, self._schema)


def make_format(name: str) -> Format:
    """By the option's value.

    :raises ImportError: it needs pyarrow
    """
    kinds: dict[str, Callable[[], Format]] = {
        "json": JsonLines, "parquet": Parquet, "arrow": Arrow}
    return kinds[name]()
