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

"""Rows into the spool, without doubles and within its caps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from amqp1_driver.pipeline.collect import watch
from amqp1_driver.pipeline.collect.rows import UNDECODABLE, fresh
from amqp1_driver.pipeline.spool import Full, Row, Spool

LOG = logging.getLogger(__name__)


class Store:
    """Appends. The collector's thread, but for the attributes.

    :param changed: notified when the spool was committed, or ``stopped`` has changed
    :param stopped: nothing more is to be waited for
    :param look: called every few seconds of a wait; raises if there will never be room
    :param what: what is read, for the log
    """

    def __init__(self, spool: Spool, changed: threading.Condition, stopped: Callable[[], bool],
                 look: Callable[[], None], what: str) -> None:
        self._spool = spool
        self._changed = changed
        self._stopped = stopped
        self._look = look
        self._what = what
        self.counts = {"appended": 0, "duplicates": 0, "undecodable": 0}
        #: whether it waits for room
        self.waits = False

    def append(self, rows: Sequence[Row], start: int) -> int:
        """Append rows from ``start`` on, as many as there is room for now or later.

        :returns: the end of those that the spool has; 0 if it was stopped before there was room
        :raises SpoolError: the spool cannot be written, or is another process's now
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
        """Wait until the first row fits; False: stopped."""
        self.waits = True
        try:
            while not self._stopped():
                with self._changed:
                    if self._changed.wait_for(
                            lambda: self._stopped() or self._spool.fits(rows) > 0, watch.EVERY):
                        break
                # a spool that another process has opened is committed there
                self._look()
            return not self._stopped()
        finally:
            self.waits = False

    def _count(self, rows: Sequence[Row], new: Sequence[Row]) -> None:
        self.counts["appended"] += len(new)
        if len(new) < len(rows):
            LOG.warning("%d message(s) from %s were delivered again and are in the spool already",
                        len(rows) - len(new), self._what)
            self.counts["duplicates"] += len(rows) - len(new)
        self.counts["undecodable"] += sum(
            1 for row in new if row.properties and UNDECODABLE in row.properties)
