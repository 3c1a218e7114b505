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

"""The spool: rows are appended durably, read by Spark, committed and purged.

The folder::

    spool.json                 format and uuid; offsets in Spark's checkpoint name the uuid
    lock, epoch                see :mod:`.fence`
    <lo>-<hi>.arrow            rows lo to hi, both included; complete once it has that name
    committed                  the last row that is done with
    status.json                for people and monitoring
    .*.tmp                     not finished: never acknowledged
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amqp1_driver.pipeline.spool import caps, files, recovery, segments
from amqp1_driver.pipeline.spool.caps import SpoolLimits
from amqp1_driver.pipeline.spool.errors import Full, SpoolError
from amqp1_driver.pipeline.spool.fence import Fence
from amqp1_driver.pipeline.spool.known import Known
from amqp1_driver.pipeline.spool.retention import Part
from amqp1_driver.pipeline.spool.rows import Row

LOG = logging.getLogger(__name__)

STATUS = "status.json"
#: bytes of a row, before any was seen
GUESS = 1024


class Appended(NamedTuple):
    """Sequence numbers of the rows appended, both included; ``hi < lo``: none were."""

    lo: int
    hi: int


class Spool:
    """One writer's view of a spool. Any thread; see :meth:`open`."""

    def __init__(self, folder: Path, limits: SpoolLimits, fence: Fence,
                 found: recovery.Found) -> None:
        self.folder = folder
        self.limits = limits
        self._fence = fence
        #: how often the spool was opened
        self.epoch = fence.epoch
        #: made with the spool; an offset of another spool is of no use here
        self.uuid = found.uuid
        self._retained = found.retained
        self._committed = found.committed
        self._high = max(found.retained.high, found.committed)
        rows = found.retained.rows
        self._row_bytes = found.retained.size / rows if rows else float(GUESS)
        self._appending = threading.Lock()
        #: of what is below, and never held while something is written
        self._state = threading.Lock()
        self._broken: BaseException | None = None
        self._listeners: list[Callable[[], None]] = []
        self._known = Known(found.retained)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], limits: SpoolLimits | None = None) -> Spool:
        """Open or make a spool and fence out whoever has it open.

        What an earlier process left unfinished is removed: it was never acknowledged. A torn
        segment is set aside, a gap is kept: see :meth:`missing`.

        :raises SpoolError: the folder cannot be used
        :raises Damaged: it is no spool, or contradicts itself
        """
        path = Path(folder)
        try:
            files.make_folder(path)
            fence = Fence(path)
        except OSError as error:
            raise SpoolError(f"the spool {path} cannot be opened: {error}") from error
        try:
            with fence.take():
                found = recovery.look(path)
            return cls(path, limits or SpoolLimits(), fence, found)
        except OSError as error:
            fence.close()
            raise SpoolError(f"the spool {path} cannot be opened: {error}") from error
        except BaseException:
            fence.close()
            raise

    def close(self) -> None:
        """Give up writing. Closing again does nothing."""
        self._fence.close()

    # -- what is there -------------------------------------------------------------

    @property
    def high(self) -> int:
        """Number of the last durable row, 0 when there was none yet."""
        return self._high

    @property
    def committed(self) -> int:
        """Number of the last row that is done with."""
        return self._committed

    def parts(self, lo: int, hi: int) -> list[Part]:
        """Where rows ``lo`` to ``hi`` are; what is missing is left out."""
        with self._state:
            return self._retained.parts(lo, hi)

    def missing(self, lo: int, hi: int) -> list[tuple[int, int]]:
        """Ranges of rows that ought to be there and are not, both ends included."""
        with self._state:
            return self._retained.missing(lo, hi)

    def room(self) -> int:
        """Rows that may be on their way or waiting to be appended, all taken together.

        By number of rows this is exact. By bytes it is an estimate from the rows seen lately,
        because nobody knows the size of a message that is still at the bus: :meth:`append`
        is what holds the cap.
        """
        with self._state:
            return caps.room(self._retained, self.limits, self._row_bytes)

    def listen(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called after each commit, when room may have grown.

        It runs on the thread that commits and must not wait.
        """
        self._listeners.append(callback)

    # -- duplicates ------------------------------------------------------------------

    def known(self, message_id: str | None) -> bool:
        """Whether a retained row has this message id; False for None."""
        with self._state:
            return self._known.of([message_id])[0]

    def fresh(self, rows: Sequence[Row]) -> list[Row]:
        """The rows whose message id no retained row has, and no earlier one of these."""
        with self._state:
            return self._known.fresh(rows)

    # -- changes -----------------------------------------------------------------------

    def append(self, rows: Sequence[Row]) -> Appended:
        """Append rows; they are on disc when this returns, and may be acknowledged only then.

        :raises Full: they do not fit below the caps; nothing was written
        :raises Fenced: another process has opened the spool
        :raises SpoolError: for instance the disc is full; none may be acknowledged
        """
        with self._appending:
            if self._broken is not None:
                raise SpoolError(f"the spool {self.folder} is not to be trusted after an "
                                 f"error: {self._broken}") from self._broken
            first = self._high + 1
            start = 0
            for piece in self._cut(rows):
                self._append_segment(rows[start:start + piece.rows], piece.batches)
                start += piece.rows
            return Appended(first, self._high)

    def fits(self, rows: Sequence[Row]) -> int:
        """How many of the rows, from the first on, could be appended now.

        :raises Full: the first is larger than the spool takes at all
        """
        with self._state:
            return caps.fitting(caps.cut(rows, self.limits), self._retained, self.limits)

    def _cut(self, rows: Sequence[Row]) -> list[caps.Piece]:
        with self._state:
            pieces = caps.cut(rows, self.limits)
            if caps.fitting(pieces, self._retained, self.limits) < len(rows):
                raise Full(
                    f"{len(rows)} rows of {sum(piece.size for piece in pieces)} bytes do not fit "
                    f"into the spool {self.folder}: it holds {self._retained.rows} rows of "
                    f"{self._retained.size} bytes, its caps are {self.limits.max_rows} rows "
                    f"and {self.limits.max_bytes} bytes")
            return pieces

    def _append_segment(self, rows: Sequence[Row], batches: Sequence[int]) -> None:
        lo = self._high + 1
        hi = self._high + len(rows)
        path = self.folder / files.segment_name(lo, hi)
        temporary = self.folder / f".{self.epoch}-{lo}{files.TEMPORARY}"
        try:
            size = segments.write(temporary, rows, lo, batches)
            with self._fence.held():
                self._link(files.Segment(lo, hi, path, size), temporary, rows)
        except BaseException as error:
            temporary.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise SpoolError(f"the spool {self.folder} cannot be written, nothing is "
                                 f"acknowledged: {error}") from error
            raise

    def _link(self, segment: files.Segment, temporary: Path, rows: Sequence[Row]) -> None:
        try:
            os.rename(temporary, segment.path)
            files.sync_folder(self.folder)
            self._appended(segment, rows)
        except BaseException as error:
            # It may be there after a crash or not: only opening anew finds out.
            self._broken = error
            raise

    def _appended(self, segment: files.Segment, rows: Sequence[Row]) -> None:
        with self._state:
            self._retained.add(segment)
            self._high = segment.hi
            self._row_bytes += (segment.size / len(rows) - self._row_bytes) / 4
            self._known.add(rows, segment.lo)

    def check(self) -> None:
        """Whether rows could still be appended, if there were room.

        :raises Fenced: another process has opened the spool
        :raises SpoolError: it is closed, or was not to be locked in time
        """
        with self._fence.held():
            pass

    def commit(self, seq: int) -> None:
        """Rows up to ``seq`` are done with: purge them, but keep the newest segment.

        A number below what was committed before does nothing.

        :raises ValueError: there is no such row yet
        :raises Fenced: another process has opened the spool
        :raises SpoolError: the folder cannot be written
        """
        if seq > self._high:
            raise ValueError(f"row {seq} cannot be committed: the spool {self.folder} has "
                             f"rows up to {self._high}")
        try:
            with self._fence.held():
                if seq > self._committed:
                    files.replace(self.folder / recovery.COMMITTED, b"%d\n" % seq)
                    self._purge(seq)
        except OSError as error:
            raise SpoolError(f"the spool {self.folder} cannot be written: {error}") from error
        for callback in self._listeners:
            callback()

    def _purge(self, seq: int) -> None:
        with self._state:
            self._committed = seq
            gone = self._retained.purge(seq)
            self._known.purged()
        for segment in gone:
            segment.path.unlink(missing_ok=True)

    def status(self, facts: Mapping[str, Any] | None = None) -> None:
        """Replace the status file: ``facts`` and what the spool knows of itself.

        :raises Fenced: another process has opened the spool
        """
        with self._state:
            own = {
                "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "spool": self.uuid, "epoch": self.epoch, "pid": os.getpid(),
                "high": self._high, "committed": self._committed, "segments": len(self._retained),
                "rows": self._retained.rows, "bytes": self._retained.size,
                "max_rows": self.limits.max_rows, "max_bytes": self.limits.max_bytes,
            }
        text = json.dumps({**(facts or {}), **own}, indent=1, default=str)
        with self._fence.held():
            files.replace(self.folder / STATUS, text.encode(), durable=False)
