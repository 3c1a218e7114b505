# SPDX-License-Identifier: Apache-2.0

"""The detection of messages that the spool has already.  Any thread, one at a time.

The spool does not append a redelivered message again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from amqp1_driver.pipeline.spool import segments
from amqp1_driver.pipeline.spool.ids import Ids
from amqp1_driver.pipeline.spool.retention import Retained
from amqp1_driver.pipeline.spool.rows import Row

#: segments whose message ids stay in memory, since the bus redelivers many messages at once
LOOKED_INTO = 4


class Known:
    """The message ids of the retained rows. Not thread-safe.

    :param retained: the spool's segments; this class reads the ids from their files
    """

    def __init__(self, retained: Retained) -> None:
        self._retained = retained
        self._ids = Ids()
        self._at_hand: OrderedDict[int, set[str | None]] = OrderedDict()
        for part in retained.parts(1, retained.high):
            self._ids.add(segments.message_ids(part.segment.path), part.lo)

    def add(self, rows: Sequence[Row], first: int) -> None:
        """Add the ids of rows that the spool has appended; the first one is row ``first``."""
        self._ids.add([row.message_id for row in rows], first)

    def purged(self) -> None:
        """Forget the ids of the rows that the spool has purged."""
        self._ids.purge(self._retained.low)

    def of(self, ids: Sequence[str | None]) -> list[bool]:
        """Return for each id whether a retained row has it; False for None."""
        return [
            bool(seq) and each in self._beside(seq)
            for each, seq in zip(ids, self._ids.candidates(ids), strict=True)
        ]

    def fresh(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows whose id neither a retained row nor an earlier one of ``rows`` has.

        A row without id is always among them.
        """
        seen: set[str] = set()
        found = []
        for row, known in zip(rows, self.of([row.message_id for row in rows]), strict=True):
            if row.message_id is not None:
                if known or row.message_id in seen:
                    continue
                seen.add(row.message_id)
            found.append(row)
        return found

    def _beside(self, seq: int) -> set[str | None]:
        """Return the message ids of the segment that holds the row ``seq``."""
        segment = self._retained.at(seq)
        if segment is None:
            return set()
        if segment.lo not in self._at_hand:
            self._at_hand[segment.lo] = set(segments.message_ids(segment.path))
        self._at_hand.move_to_end(segment.lo)
        while len(self._at_hand) > LOOKED_INTO:
            self._at_hand.popitem(last=False)
        return self._at_hand[segment.lo]
