# SPDX-License-Identifier: Apache-2.0

"""Files with records, which get their final name when they are complete. On the hub's thread.

The formats are JSON lines, and Parquet and Arrow files (extra ``telemetry-parquet``). While a file
grows, its name begins with a dot; Spark and most other readers ignore such files. An error of the
file system costs records only: the sink counts lost records and reports the count in the next
record that it writes.
"""

import contextlib
import fcntl
import io
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from amqp1_driver.telemetry.events import FIELDS, TEXTS, Record, to_lines

#: names of finished files; their order by name is that by time
_FINISHED = re.compile(r"^amqp1-\d{8}T\d{6}Z-.+\.(jsonl|parquet|arrow)$")
#: names of unfinished files that a killed process may have left; only JSON lines can be read then
_LEFT = re.compile(r"^\.(amqp1-\d{8}T\d{6}Z-.+\.(?:jsonl|parquet|arrow))$")

#: seconds without a write after which a file without a lock counts as one of a killed process
LEFT_AFTER = 10.0
#: rows that the columnar formats write together
GROUP = 10000


class JsonLines:
    """The format with one JSON object in each line, and the interface of all formats.

    A format encodes the records of one file after another.

    :ivar suffix: suffix of the file's name
    """

    suffix = "jsonl"

    def add(self, records: Sequence[Record]) -> bytes:
        """Add records, and return the bytes to append to the file now, which may be none."""
        return to_lines(records)

    def size(self) -> int:
        """Return how many encoded bytes wait in memory for the end of the file."""
        return 0

    def end(self) -> bytes:
        """Return the bytes that complete the file, and begin the next file."""
        return b""


class Columns(JsonLines):
    """Parquet, compressed with zstd, or the file format of Arrow, written with pyarrow.

    The file stays in memory until its end, because an incomplete one is useless.

    :param suffix: parquet or arrow
    :raises ImportError: pyarrow is not installed
    """

    def __init__(self, suffix: str) -> None:
        import pyarrow as pa

        self._pa = pa
        self.suffix = suffix
        kinds = {"time": pa.timestamp("us", tz="UTC"), **dict.fromkeys(TEXTS, pa.string())}
        self._schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in FIELDS])
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
        columns = [
            self._pa.array(column, type=field.type)
            for column, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        self._writer.write_table(self._pa.Table.from_arrays(columns, schema=self._schema))

    def _open(self) -> Any:
        """Return pyarrow's writer for the file."""
        if self.suffix == "arrow":
            return self._pa.ipc.new_file(self._file, self._schema)
        from pyarrow.parquet import ParquetWriter

        return ParquetWriter(self._file, self._schema, compression="zstd")

    def size(self) -> int:
        return self._file.tell()

    def end(self) -> bytes:
        self._write()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        file, self._file = self._file, io.BytesIO()
        return file.getvalue()


def make_format(name: str) -> JsonLines:
    """Return the format for a value of the option: json, parquet or arrow.

    :raises ImportError: the format needs pyarrow, which is not installed
    """
    return JsonLines() if name == "json" else Columns(name)


class FileSink:
    """A consumer that writes records to files. The hub's thread only.

    :param directory: directory of the files, which the sink makes if it is missing
    :param max_bytes: size at which the sink finishes a file
    :param max_seconds: age at which the sink finishes a file
    :param keep: finished files to keep in the directory, of all processes; 0: all
    :param now: clock, seconds since 1970
    :param write: function like ``os.write``
    """

    def __init__(
        self,
        directory: str,
        format: JsonLines,
        *,
        max_bytes: int,
        max_seconds: float,
        keep: int,
        now: Callable[[], float] = time.time,
        write: Callable[[int, bytes], int] = os.write,
    ) -> None:
        self._directory = directory
        self._format = format
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._keep = keep
        self._now = now
        self._write = write
        self._token = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._number = 0
        self._file = -1
        self._name = ""
        self._size = 0
        self._begun: float | None = None
        self._rows = 0
        self._lost = 0
        self._looked = False

    # -- called by the hub ------------------------------------------------------------

    def take(self, records: Sequence[Record]) -> None:
        """Write records; records that the sink cannot write are lost.

        :raises OSError: an error of the file system
        """
        if self._begun is None:
            self._begun = self._now()
        first = records[0]
        if self._lost:
            records = [first._replace(dropped=first.dropped + self._lost), *records[1:]]
        data = self._format.add(records)
        self._rows += len(records)
        try:
            self._append(data)
        except OSError:
            self._lost += len(records) + first.dropped
            self._rows -= len(records)
            raise
        self._lost = 0
        if self._size + self._format.size() >= self._max_bytes:
            self._finish()

    def tick(self) -> None:
        """Finish the file if it is old enough.

        :raises OSError: an error of the file system
        """
        if self._begun is not None and self._now() - self._begun >= self._max_seconds:
            self._finish()

    def close(self, timeout: float) -> None:
        """Finish the last file.

        :raises OSError: an error of the file system
        """
        self._finish()

    def abandon(self) -> None:
        """Close the inherited descriptor in the child of a fork; the file stays the parent's."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    # -- inner --------------------------------------------------------------------------

    def _append(self, data: bytes) -> None:
        if not data:
            return
        if self._file < 0:
            self._open()
        done = 0
        try:
            while done < len(data):
                done += self._write(self._file, data[done:] if done else data)
        except OSError:
            # Cut off the incomplete line.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
                os.lseek(self._file, self._size, os.SEEK_SET)
            raise
        self._size += done

    def _open(self) -> None:
        # The group may read directory and files, so that a log collector can read them.
        os.makedirs(self._directory, mode=0o750, exist_ok=True)
        if not self._looked:
            self._looked = True
            finish_left(self._directory)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._now()))
        self._number += 1
        name = f"amqp1-{stamp}-{self._token}-{self._number}.{self._format.suffix}"
        file = os.open(
            os.path.join(self._directory, "." + name),
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
            0o640,
        )
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file, self._name, self._size = file, name, 0

    def _finish(self) -> None:
        """Complete the file and give it its final name; if that fails, its records are lost."""
        rows, self._rows = self._rows, 0
        self._begun = None
        try:
            try:
                self._append(self._format.end())
            finally:
                self._put_away()
        except OSError:
            self._lost += rows
            raise
        finally:
            self.abandon()
            self._size = 0
        if rows:
            self._clean_up()

    def _put_away(self) -> None:
        if self._size:
            _rename(self._directory, self._name)
        elif self._file >= 0:
            os.unlink(os.path.join(self._directory, "." + self._name))

    def _clean_up(self) -> None:
        """Remove the oldest finished files beyond the number to keep."""
        if not self._keep:
            return
        names = sorted(name for name in os.listdir(self._directory) if _FINISHED.match(name))
        for name in names[: -self._keep]:
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                os.unlink(os.path.join(self._directory, name))


def finish_left(directory: str) -> list[str]:
    """Finish the files that killed processes left.

    Files with lines get their final names, without an incomplete line. Files of other formats
    cannot be read without their end; they are removed.

    :returns: final names of the files
    """
    finished = []
    for found in map(_LEFT.match, os.listdir(directory)):
        if found is not None and _finish_one(directory, found[0], found[1]):
            finished.append(found[1])
    return finished


def _finish_one(directory: str, name: str, final: str) -> bool:
    try:
        file = os.open(os.path.join(directory, name), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # another process was faster, or the file is another user's
    try:
        if time.time() - os.fstat(file).st_mtime < LEFT_AFTER:
            return False  # its process may have made it just now, and not locked it yet
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a live process holds the lock
        if not final.endswith(".jsonl"):
            os.unlink(os.path.join(directory, name))
            return False
        os.ftruncate(file, _whole_lines(file))
        _rename(directory, final)
    except OSError:
        return False
    finally:
        os.close(file)
    return True


def _whole_lines(file: int) -> int:
    """Return the offset behind the last complete line of a file."""
    end = os.fstat(file).st_size
    while end:
        start = max(0, end - 65536)
        at = os.pread(file, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


def _rename(directory: str, name: str) -> None:
    os.rename(os.path.join(directory, "." + name), os.path.join(directory, name))
