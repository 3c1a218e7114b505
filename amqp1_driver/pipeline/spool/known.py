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

"""Which messages the spool has already: redelivered ones are not appended again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from amqp1_driver.pipeline.spool import segments
from amqp1_driver.pipeline.spool.ids import Ids
from amqp1_driver.pipeline.spool.retention import Retained
from amqp1_driver.pipeline.spool.rows import Row

#: segments whose message ids are kept at hand: redelivered messages come in bulk
LOOKED_INTO = 4


class Known:
    """The message ids of the rows retained. Not thread-safe.

    :param retained: of the spool; its segments are looked into
    """

    def __init__(self, retained: Retained) -> None:
        self._retained = retained
        self._ids = Ids()
        self._at_hand: OrderedDict[int, set[str | None]] = OrderedDict()
        for part in retained.parts(1, retained.high):
            self._ids.add(segments.message_ids(part.segment.path), part.lo)

    def add(self, rows: Sequence[Row], first: int) -> None:
        """Rows ``first`` and following were appended."""
        self._ids.add([row.message_id for row in rows], first)

    def purged(self) -> None:
        """Rows were purged; their ids are forgotten."""
        self._ids.purge(self._retained.low)

    def of(self, ids: Sequence[str | None]) -> list[bool]:
        """For each id whether a retained row has it; never for None."""
        return [bool(seq) and each in self._beside(seq)
                for each, seq in zip(ids, self._ids.candidates(ids), strict=True)]

    def fresh(self, rows: Sequence[Row]) -> list[Row]:
        """The rows whose id no retained row has, and no earlier one of these."""
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
        """Message ids of the segment with that row."""
        segment = self._retained.at(seq)
        if segment is None:
            return set()
        if segment.lo not in self._at_hand:
            self._at_hand[segment.lo] = set(segments.message_ids(segment.path))
        self._at_hand.move_to_end(segment.lo)
        while len(self._at_hand) > LOOKED_INTO:
            self._at_hand.popitem(last=False)
        return self._at_hand[segment.lo]
