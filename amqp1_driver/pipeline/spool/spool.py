# SPDX-License-Identifier: Apache-2.0

"""The spool: it appends rows durably, Spark reads them, and a commit purges them.  Any thread.

The files in the folder::

    spool.json                 format and uuid; offsets in Spark's checkpoint name the uuid
    lock, epoch                see :mod:`.fence`
    <lo>-<hi>.arrow            rows lo to hi, both included; complete once it has that name
    committed                  the last committed row
    status.json                for people and monitoring
    .*.tmp                     unfinished files; their messages were not acknowledged
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
#: bytes assumed for a row before the spool has seen any
GUESS = 1024


class Appended(NamedTuple):
    """The first and the last number of the appended rows; ``hi < lo``: no row was appended."""

    lo: int
    hi: int


class Spool:
    """A spool in the process that is its one writer; :meth:`open` makes it. Any thread."""

    def __init__(
        self, folder: Path, limits: SpoolLimits, fence: Fence, found: recovery.Found
    ) -> None:
        self.folder = folder
        self.limits = limits
        self._fence = fence
        #: how often processes have opened the spool, this time included
        self.epoch = fence.epoch
        #: id of the spool, made with it; an offset with another id belongs to another spool
        self.uuid = found.uuid
        self._retained = found.retained
        self._committed = found.committed
        self._high = max(found.retained.high, found.committed)
        rows = found.retained.rows
        self._row_bytes = found.retained.size / rows if rows else float(GUESS)
        self._appending = threading.Lock()
        #: guards the segments, numbers and ids; no thread writes a segment while it holds this lock
        self._state = threading.Lock()
        self._broken: BaseException | None = None
        self._listeners: list[Callable[[], None]] = []
        self._known = Known(found.retained)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], limits: SpoolLimits | None = None) -> Spool:
        """Open or make a spool, and fence out the process that has it open.

        This method removes the files that an earlier process did not finish, whose messages were
        not acknowledged. It renames torn segments. Rows that are missing stay missing; see
        :meth:`missing`.

        :raises SpoolError: the folder cannot be used
        :raises Damaged: the folder is not a spool, or its files contradict each other
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
        """Close the spool; later changes raise :exc:`SpoolError`. A second call does nothing."""
        self._fence.close()

    # -- state ---------------------------------------------------------------------

    @property
    def high(self) -> int:
        """Return the number of the last durable row, 0 when there was none yet."""
        return self._high

    @property
    def committed(self) -> int:
        """Return the number of the last committed row, 0 when there is none."""
        return self._committed

    def parts(self, lo: int, hi: int) -> list[Part]:
        """Return the parts of segments with the rows ``lo`` to ``hi``; missing rows have none."""
        with self._state:
            return self._retained.parts(lo, hi)

    def missing(self, lo: int, hi: int) -> list[tuple[int, int]]:
        """Return the ranges of rows from ``lo`` to ``hi`` that are missing or in a torn segment.

        :returns: first and last row of each range, both included
        """
        with self._state:
            return self._retained.missing(lo, hi)

    def room(self) -> int:
        """Return how many rows may be in flight from the bus or waiting for :meth:`append`.

        The result is exact for the cap on rows. For the cap on bytes it is an estimate from the
        size of recent rows, since the size of a message is unknown while the bus has it. Only
        :meth:`append` enforces the caps.
        """
        with self._state:
            return caps.room(self._retained, self.limits, self._row_bytes)

    def listen(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after each :meth:`commit`, when :meth:`room` may have grown.

        The callback runs on the thread that commits, and must not block.
        """
        self._listeners.append(callback)

    # -- duplicates ------------------------------------------------------------------

    def known(self, message_id: str | None) -> bool:
        """Return whether a retained row has this message id; False for None."""
        with self._state:
            return self._known.of([message_id])[0]

    def fresh(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows whose id neither a retained row nor an earlier one of ``rows`` has.

        A row without id is always among them.
        """
        with self._state:
            return self._known.fresh(rows)

    # -- changes -----------------------------------------------------------------------

    def append(self, rows: Sequence[Row]) -> Appended:
        """Append rows. They are on disc when this method returns; acknowledge them only then.

        :raises Full: the rows do not fit below the caps; the spool has written none of them
        :raises Fenced: another process has opened the spool; acknowledge none of the rows
        :raises SpoolError: for instance the disc is full; acknowledge none of the rows
        """
        with self._appending:
            if self._broken is not None:
                raise SpoolError(
                    f"the spool {self.folder} is not to be trusted after an error: {self._broken}"
                ) from self._broken
            first = self._high + 1
            start = 0
            for piece in self._cut(rows):
                self._append_segment(rows[start : start + piece.rows], piece.batches)
                start += piece.rows
            return Appended(first, self._high)

    def fits(self, rows: Sequence[Row]) -> int:
        """Return how many of the rows, from the first on, :meth:`append` would take now.

        :raises Full: a row is larger than ``SpoolLimits.largest``
        """
        with self._state:
            pieces = caps.cut(rows, self.limits)
            return caps.fitting(rows, pieces, self._retained, self.limits)

    def _cut(self, rows: Sequence[Row]) -> list[caps.Piece]:
        with self._state:
            pieces = caps.cut(rows, self.limits)
            if caps.fitting(rows, pieces, self._retained, self.limits) < len(rows):
                raise Full(
                    f"{len(rows)} rows of {sum(piece.size for piece in pieces)} bytes do not fit "
                    f"into the spool {self.folder}: it holds {self._retained.rows} rows of "
                    f"{self._retained.size} bytes, its caps are {self.limits.max_rows} rows "
                    f"and {self.limits.max_bytes} bytes"
                )
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
                raise SpoolError(
                    f"the spool {self.folder} cannot be written, nothing is acknowledged: {error}"
                ) from error
            raise

    def _link(self, segment: files.Segment, temporary: Path, rows: Sequence[Row]) -> None:
        try:
            os.rename(temporary, segment.path)
            files.sync_folder(self.folder)
            self._appended(segment, rows)
        except BaseException as error:
            # The segment may be on disc or not; only opening the spool again shows which.
            self._broken = error
            raise

    def _appended(self, segment: files.Segment, rows: Sequence[Row]) -> None:
        with self._state:
            self._retained.add(segment)
            self._high = segment.hi
            self._row_bytes += (segment.size / len(rows) - self._row_bytes) / 4
            self._known.add(rows, segment.lo)

    def check(self) -> None:
        """Check that this process may still append rows, apart from the caps.

        :raises Fenced: another process has opened the spool
        :raises SpoolError: the spool is closed, or another process held the lock until the timeout
        """
        with self._fence.held():
            pass

    def commit(self, seq: int) -> None:
        """Commit the rows up to ``seq``, and purge the segments that have no others.

        The newest segment stays. A number that is not above :attr:`committed` changes nothing. The
        callbacks of :meth:`listen` run afterwards, even if nothing has changed.

        :raises ValueError: there is no row ``seq`` yet
        :raises Fenced: another process has opened the spool
        :raises SpoolError: the folder cannot be written
        """
        if seq > self._high:
            raise ValueError(
                f"row {seq} cannot be committed: the spool {self.folder} has "
                f"rows up to {self._high}"
            )
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
        """Replace the status file with ``facts`` and the state of the spool.

        The spool's own values override equal names in ``facts``.

        :raises Fenced: another process has opened the spool
        :raises OSError: the file cannot be written
        """
        with self._state:
            own = {
                "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "spool": self.uuid,
                "epoch": self.epoch,
                "pid": os.getpid(),
                "high": self._high,
                "committed": self._committed,
                "segments": len(self._retained),
                "rows": self._retained.rows,
                "bytes": self._retained.size,
                "max_rows": self.limits.max_rows,
                "max_bytes": self.limits.max_bytes,
            }
        text = json.dumps({**(facts or {}), **own}, indent=1, default=str)
        with self._fence.held():
            files.replace(self.folder / STATUS, text.encode(), durable=False)
