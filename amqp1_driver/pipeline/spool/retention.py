# SPDX-License-Identifier: Apache-2.0

"""The list of a spool's segments: which rows exist, are missing, or can be purged.  Pure.

Any thread, one at a time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from amqp1_driver.pipeline.spool.errors import Damaged
from amqp1_driver.pipeline.spool.files import Segment


class Part(NamedTuple):
    """The rows ``lo`` to ``hi`` of a segment, both included."""

    segment: Segment
    lo: int
    hi: int


class Retained:
    """The segments on disc, in order of their rows. Not thread-safe.

    :raises Damaged: two segments overlap, or a segment ends before it begins
    """

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments: list[Segment] = []
        #: rows on disc, the committed ones included; likewise bytes in ``size``
        self.rows = 0
        self.size = 0
        for segment in segments:
            self.add(segment)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def low(self) -> int:
        """Return the first row on disc, 0 when there is none."""
        return self._segments[0].lo if self._segments else 0

    @property
    def high(self) -> int:
        """Return the last row on disc, 0 when there is none."""
        return self._segments[-1].hi if self._segments else 0

    def add(self, segment: Segment) -> None:
        """Add a segment, whose rows come after all others.

        :raises Damaged: the segment overlaps an earlier one, or ends before it begins
        """
        if segment.lo <= self.high or segment.hi < segment.lo:
            raise Damaged(f"{segment.path} has rows that the segment before it has, too")
        self._segments.append(segment)
        self.rows += segment.hi - segment.lo + 1
        self.size += segment.size

    def purge(self, committed: int) -> list[Segment]:
        """Remove the segments whose rows are all committed, but never the newest segment.

        The newest segment shows the number of the last row, which the next row follows.

        :param committed: the last committed row
        :returns: the removed segments, whose files the caller deletes
        """
        count = min(
            bisect_left(self._segments, committed + 1, key=lambda each: each.hi),
            len(self._segments) - 1,
        )
        if count <= 0:
            return []
        gone, self._segments = self._segments[:count], self._segments[count:]
        for segment in gone:
            self.rows -= segment.hi - segment.lo + 1
            self.size -= segment.size
        return gone

    def at(self, seq: int) -> Segment | None:
        """Return the segment that holds the row ``seq``; None: the row is missing or torn."""
        place = bisect_left(self._segments, seq, key=lambda each: each.hi)
        if place == len(self._segments):
            return None
        segment = self._segments[place]
        return segment if segment.lo <= seq and not segment.torn else None

    def parts(self, lo: int, hi: int) -> list[Part]:
        """Return the parts of segments with the rows ``lo`` to ``hi``; missing rows have none."""
        found = []
        place = bisect_left(self._segments, lo, key=lambda each: each.hi)
        for segment in self._segments[place:]:
            if segment.lo > hi:
                break
            if not segment.torn:
                found.append(Part(segment, max(lo, segment.lo), min(hi, segment.hi)))
        return found

    def missing(self, lo: int, hi: int) -> list[tuple[int, int]]:
        """Return the ranges of rows from ``lo`` to ``hi`` that are missing or in a torn segment.

        :returns: first and last row of each range, both included
        """
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
    """Divide parts into at most ``count`` groups with about equal numbers of rows, in order."""
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
