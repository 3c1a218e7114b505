# SPDX-License-Identifier: Apache-2.0

"""Writer of rows to the spool, without duplicates and within the spool's caps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from amqp1_driver.pipeline.collect import watch
from amqp1_driver.pipeline.collect.rows import fresh
from amqp1_driver.pipeline.spool import UNDECODABLE, Full, Row, Spool

LOG = logging.getLogger(__name__)


class Store:
    """A writer of rows. The collector's thread; any thread may read the public attributes.

    :param changed: condition that others notify after a commit of the spool, and when the result of
        ``stopped`` has changed
    :param stopped: returns True if the store must no longer wait
    :param look: called every few seconds of a wait; raises if there will never be room
    :param what: names of the sources, for the log
    """

    def __init__(
        self,
        spool: Spool,
        changed: threading.Condition,
        stopped: Callable[[], bool],
        look: Callable[[], None],
        what: str,
    ) -> None:
        self._spool = spool
        self._changed = changed
        self._stopped = stopped
        self._look = look
        self._what = what
        self.counts = {"appended": 0, "duplicates": 0, "undecodable": 0, "rejected": 0}
        #: whether append() waits for room
        self.waits = False

    def append(self, rows: Sequence[Row], start: int) -> int:
        """Append rows from ``start`` on, as many as fit; if none fits, wait for room.

        :returns: the end of the appended rows; 0 if the collector was stopped before there was room
        :raises SpoolError: the spool cannot be written, or another process has opened it
        """
        end = len(rows)
        while True:
            part = rows[start:end]
            new = fresh(part, self._spool)
            try:
                self._spool.append(new)
            except Full:
                fitting = self._spool.fits(part)
                if fitting:
                    end = start + fitting
                elif not self._wait_for_room(part):
                    return 0
                continue
            self._count(part, new)
            return end

    def _wait_for_room(self, rows: Sequence[Row]) -> bool:
        """Wait until the first row fits.

        :returns: False if the collector was stopped
        """
        self.waits = True
        try:
            while not self._stopped():
                with self._changed:
                    if self._changed.wait_for(
                        lambda: self._stopped() or self._spool.fits(rows) > 0, watch.EVERY
                    ):
                        break
                # if another process has opened the spool, its commits notify nobody here
                self._look()
            return not self._stopped()
        finally:
            self.waits = False

    def _count(self, rows: Sequence[Row], new: Sequence[Row]) -> None:
        self.counts["appended"] += len(new)
        if len(new) < len(rows):
            LOG.warning(
                "%d message(s) from %s were delivered again and are in the spool already",
                len(rows) - len(new),
                self._what,
            )
            self.counts["duplicates"] += len(rows) - len(new)
        self.counts["undecodable"] += sum(
            1 for row in new if row.properties and UNDECODABLE in row.properties
        )
