# SPDX-License-Identifier: Apache-2.0

"""Ranges, holes and what may go: any history of a spool."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp1_driver.pipeline.spool import Damaged
from amqp1_driver.pipeline.spool.files import Segment
from amqp1_driver.pipeline.spool.retention import Part, Retained, split


def segment(lo: int, hi: int, torn: bool = False) -> Segment:
    return Segment(lo, hi, Path(f"{lo}-{hi}"), 100 * (hi - lo + 1), torn)


@st.composite
def histories(draw: st.DrawFn) -> list[Segment]:
    """Segments in order, some torn, some gone."""
    found, following = [], draw(st.integers(1, 50))
    for rows, kind in draw(
        st.lists(st.tuples(st.integers(1, 9), st.sampled_from("wwwtg")), max_size=12)
    ):
        if kind != "g":
            found.append(segment(following, following + rows - 1, kind == "t"))
        following += rows
    return found


@given(histories(), st.integers(1, 150), st.integers(0, 150))
def test_a_range_is_made_of_parts_and_holes(history: list[Segment], lo: int, length: int) -> None:
    hi = lo + length - 1
    retained = Retained(history)
    there = {seq for each in history if not each.torn for seq in range(each.lo, each.hi + 1)}

    parts = [seq for part in retained.parts(lo, hi) for seq in range(part.lo, part.hi + 1)]
    holes = [seq for first, last in retained.missing(lo, hi) for seq in range(first, last + 1)]

    assert parts == sorted(there & set(range(lo, hi + 1)))
    assert holes == sorted(set(range(lo, hi + 1)) - there)
    for seq in range(lo, hi + 1):
        found = retained.at(seq)
        assert (found is not None and found.lo <= seq <= found.hi) == (seq in there)


@given(histories(), st.lists(st.integers(0, 150), max_size=4))
def test_what_is_purged_was_committed_and_the_newest_stays(
    history: list[Segment], commits: list[int]
) -> None:
    retained = Retained(history)
    gone: list[Segment] = []
    for committed in commits:
        gone += retained.purge(committed)

    most = max(commits, default=0)
    assert gone == [each for each in history[:-1] if each.hi <= most]
    assert retained.high == (history[-1].hi if history else 0)
    left = history[len(gone) :]
    assert retained.rows == sum(each.hi - each.lo + 1 for each in left)
    assert retained.size == 100 * retained.rows
    assert len(retained) == len(left)


@given(histories(), st.integers(1, 8))
def test_tasks_get_about_equal_shares(history: list[Segment], count: int) -> None:
    parts = Retained(history).parts(1, 1000)
    groups = split(parts, count)

    def seqs(part: Part) -> list[int]:
        assert part.segment.lo <= part.lo <= part.hi <= part.segment.hi
        return list(range(part.lo, part.hi + 1))

    rows = [seq for part in parts for seq in seqs(part)]
    shares = [[seq for part in group for seq in seqs(part)] for group in groups]
    assert [seq for share in shares for seq in share] == rows
    assert len(groups) == min(count, len(rows))
    if groups:
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1


def test_shares_literally() -> None:
    parts = [Part(segment(1, 5), 2, 5), Part(segment(6, 9), 6, 9)]
    assert [[(part.lo, part.hi) for part in group] for group in split(parts, 3)] == [
        [(2, 3)],
        [(4, 5), (6, 6)],
        [(7, 9)],
    ]


def test_rows_do_not_come_twice() -> None:
    retained = Retained([segment(1, 5)])
    with pytest.raises(Damaged):
        retained.add(segment(5, 6))
