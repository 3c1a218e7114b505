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

"""Files with records, which appear under their name when they are whole.

While it grows a file's name begins with a dot, which Spark and most others take for no data.  All
work is the hub's thread's, and all errors of the file system cost records only: they are counted
and told with the next record that is written.
"""

import contextlib
import fcntl
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Sequence

from amqp1_driver.telemetry.events import Record
from amqp1_driver.telemetry.formats import Format

#: of finished files, whose order by name is that by time
_FINISHED = re.compile(r"^amqp1-\d{8}T\d{6}Z-.+\.(jsonl|parquet|arrow)$")
#: of lines that a process left unfinished
_LEFT = re.compile(r"^\.(amqp1-\d{8}T\d{6}Z-.+\.jsonl)$")

#: nobody has written to a file for so many seconds, and nobody holds it: it was left
LEFT_AFTER = 10.0


class FileSink:
    """A consumer.  The hub's thread only.

    :param directory: is made if it is not there
    :param max_bytes: a file with so many is finished
    :param max_seconds: or one that is so old
    :param keep: finished files in the directory, whoever wrote them; 0: all
    :param now: seconds since 1970
    :param write: as ``os.write``
    """

    def __init__(self, directory: str, format: Format, *, max_bytes: int, max_seconds: float,
                 keep: int, now: Callable[[], float] = time.time,
                 write: Callable[[int, bytes], int] = os.write) -> None:
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

    # -- told by the hub --------------------------------------------------------------

    def take(self, records: Sequence[Record]) -> None:
        """Write them; what can't be written is lost.

        :raises OSError: the file system refuses
        """
        if self._begun is None:
            self._begun = self._now()
        first = records[0]
        if self._lost:
            records = [first._replace(batch=first.batch + self._lost), *records[1:]]
        data = self._format.add(records)
        self._rows += len(records)
        try:
            self._append(data)
        except OSError:
            self._lost += len(records) + first.batch
            self._rows -= len(records)
            raise
        self._lost = 0
        if self._size + self._format.size() >= self._max_bytes:
            self._finish()

    def tick(self) -> None:
        """Finish a file that is old enough.

        :raises OSError: the file system refuses
        """
        if self._begun is not None and self._now() - self._begun >= self._max_seconds:
            self._finish()

    def close(self, timeout: float) -> None:
        """Finish the file; there will be no other."""
        self._finish()

    def abandon(self) -> None:
        """This is the child of a fork: the file is the parent's."""
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
            # no half line may stay
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
                os.lseek(self._file, self._size, os.SEEK_SET)
            raise
        self._size += done

    def _open(self) -> None:
        os.makedirs(self._directory, exist_ok=True)
        if not self._looked:
            self._looked = True
            finish_left(self._directory)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._now()))
        self._number += 1
        name = f"amqp1-{stamp}-{self._token}-{self._number}.{self._format.suffix}"
        file = os.open(os.path.join(self._directory, "." + name),
                       os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file, self._name, self._size = file, name, 0

    def _finish(self) -> None:
        """Complete the file and give it its name; it counts as lost if that fails."""
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
        """Remove the oldest files beyond the number that is kept."""
        if not self._keep:
            return
        names = sorted(name for name in os.listdir(self._directory) if _FINISHED.match(name))
        for name in names[:-self._keep]:
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                os.unlink(os.path.join(self._directory, name))


def finish_left(directory: str) -> list[str]:
    """Give files of processes that were killed their names, without the line that was cut.

    :returns: names of the files
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
        return False  # another process was faster, or it is another user's
    try:
        if time.time() - os.fstat(file).st_mtime < LEFT_AFTER:
            return False  # it may have been made just now
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # whoever lives holds it
        os.ftruncate(file, _whole_lines(file))
        _rename(directory, final)
    except OSError:
        return False
    finally:
        os.close(file)
    return True


def _whole_lines(file: int) -> int:
    """Where the last line of a file ends that is whole."""
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
