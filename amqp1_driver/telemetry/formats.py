# SPDX-License-Identifier: Apache-2.0

"""The formats of files with records: JSON lines, Parquet and Arrow files. On the hub's thread.

The classes for Parquet and Arrow (extra ``telemetry-parquet``) build a file in memory, and the sink
writes it as a whole: an incomplete file of these formats is useless.
"""

import abc
import io
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from amqp1_driver.telemetry.events import FIELDS, TEXTS, Record, to_lines

#: rows that the columnar formats write together
GROUP = 10000


class Format(Protocol):
    """An encoder for the records of one file after another."""

    #: suffix of the file's name
    suffix: str

    def add(self, records: Sequence[Record]) -> bytes:
        """Add records, and return the bytes to append to the file now, which may be none."""

    def size(self) -> int:
        """Return how many encoded bytes wait in memory for the end of the file."""

    def end(self) -> bytes:
        """Return the bytes that complete the file, and begin the next file."""


class JsonLines:
    """The format with one JSON object in each line."""

    suffix = "jsonl"

    def add(self, records: Sequence[Record]) -> bytes:
        return to_lines(records)

    def size(self) -> int:
        return 0

    def end(self) -> bytes:
        return b""


class _Columns(abc.ABC):
    """A columnar format, written with pyarrow; the file stays in memory until its end."""

    suffix = ""

    def __init__(self) -> None:
        import pyarrow as pa

        self._pa = pa
        self._schema = pa.schema(
            [
                (
                    name,
                    pa.timestamp("us", tz="UTC")
                    if name == "time"
                    else pa.string()
                    if name in TEXTS
                    else pa.int64(),
                )
                for name in FIELDS
            ]
        )
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
        self._writer.write_table(
            self._pa.Table.from_arrays(
                [
                    self._pa.array(column, type=field.type)
                    for column, field in zip(columns, self._schema, strict=True)
                ],
                schema=self._schema,
            )
        )

    @abc.abstractmethod
    def _open(self) -> Any:
        """Return pyarrow's writer for the file."""

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
    """The Parquet format, compressed with zstd."""

    suffix = "parquet"

    def _open(self) -> Any:
        import pyarrow.parquet

        return pyarrow.parquet.ParquetWriter(self._file, self._schema, compression="zstd")


class Arrow(_Columns):
    """The file format of Arrow."""

    suffix = "arrow"

    def _open(self) -> Any:
        return self._pa.ipc.new_file(self._file, self._schema)


def make_format(name: str) -> Format:
    """Return the format for a value of the option: json, parquet or arrow.

    :raises ImportError: the format needs pyarrow, which is not installed
    """
    kinds: dict[str, Callable[[], Format]] = {"json": JsonLines, "parquet": Parquet, "arrow": Arrow}
    return kinds[name]()
