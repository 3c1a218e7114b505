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

"""What a spool holds: its segments in order, what is missing between them, what may go. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from amqp1_driver.pipeline.spool.errors import Damaged
from amqp1_driver.pipeline.spool.files import Segment


class Part(NamedTuple):
    """Rows ``lo`` to ``hi`` of a segment, both included."""

    segment: Segment
    lo: int
    hi: int


class Retained:
    """Segments in order of their rows.

    :raises Damaged: two of them have the same rows
    """

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments: list[Segment] = []
        #: on disc, committed ones among them
        self.rows = 0
        self.size = 0
        for segment in segments:
            self.add(segment)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def low(self) -> int:
        """The first row that is there, 0 when none is."""
        return self._segments[0].lo if self._segments else 0

    @property
    def high(self) -> int:
        """The last row that is there, 0 when none is."""
        return self._segments[-1].hi if self._segments else 0

    def add(self, segment: Segment) -> None:
        """Add a segment with rows after all others."""
        if segment.lo <= self.high or segment.hi < segment.lo:
            raise Damaged(f"{segment.path} has rows that the segment before it has, too")
        self._segments.append(segment)
        self.rows += segment.hi - segment.lo + 1
        self.size += segment.size

    def purge(self, committed: int) -> list[Segment]:
        """Take out the segments that are wholly committed, but never the newest one.

        The newest one carries the number that the next row follows.

        :returns: those taken out
        """
        count = min(bisect_left(self._segments, committed + 1, key=lambda each: each.hi),
                    len(self._segments) - 1)
        if count <= 0:
            return []
        gone, self._segments = self._segments[:count], self._segments[count:]
        for segment in gone:
            self.rows -= segment.hi - segment.lo + 1
            self.size -= segment.size
        return gone

    def at(self, seq: int) -> Segment | None:
        """The segment with that row; None when it is missing or torn."""
        place = bisect_left(self._segments, seq, key=lambda each: each.hi)
        if place == len(self._segments):
            return None
        segment = self._segments[place]
        return segment if segment.lo <= seq and not segment.torn else None

    def parts(self, lo: int, hi: int) -> list[Part]:
        """Where rows ``lo`` to ``hi`` are; what is missing is left out."""
        found = []
        place = bisect_left(self._segments, lo, key=lambda each: each.hi)
        for segment in self._segments[place:]:
            if segment.lo > hi:
                break
            if not segment.torn:
                found.append(Part(segment, max(lo, segment.lo), min(hi, segment.hi)))
        return found

    def missing(self, lo: int, hi: int) -> list[tuple[int, int]]:
        """Ranges between ``lo`` and ``hi`` that no whole segment has, both ends included."""
        holes = []
        following = lo
        for _, first, last in self.parts(lo, hi):
            if first > following:
                holes.append((following, first - 1))
            following = last + 1
        if following <= hi:
            holes.append((following, hi))
        return holes


def split(parts: list[Part], count: int) -> list[list[Part]]:
    """Cut parts into at most ``count`` groups with about the same number of rows, in order."""
    total = sum(part.hi - part.lo + 1 for part in parts)
    count = max(1, min(count, total))
    groups: list[list[Part]] = []
    group: list[Part] = []
    taken = 0
    for segment, first, hi in parts:
        lo = first
        while lo <= hi:
            bound = total * (len(groups) + 1) // count
            last = min(hi, lo + bound - taken - 1)
            group.append(Part(segment, lo, last))
            taken += last - lo + 1
            lo = last + 1
            if taken == bound:
                groups.append(group)
                group = []
    return groups
