# SPDX-License-Identifier: Apache-2.0

"""What is on disc never exceeds the caps, whatever the rows are like."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp1_driver.pipeline.spool import (
    Full,
    Row,
    Spool,
    SpoolLimits,
    caps,
    files,
    retention,
    rows,
    segments,
)
from tests.pipeline.spool.rows import TIME, numbered, row

TEXTS = st.one_of(st.none(), st.text(max_size=12), st.text("aß€😀", max_size=40))
ROWS = st.lists(
    st.builds(
        Row,
        TEXTS,
        TEXTS,
        st.binary(max_size=3000),
        TEXTS,
        st.one_of(st.none(), st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=4)),
        st.integers(0, 9),
        st.one_of(st.none(), st.just(TIME)),
        st.just(TIME),
    ),
    min_size=1,
    max_size=40,
)
LIMITS = SpoolLimits(max_rows=60, max_bytes=100_000, segment_rows=15)


@settings(max_examples=50, deadline=None)
@given(ROWS)
def test_a_file_is_not_larger_than_was_foretold(some: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = 0
        for piece in caps.cut(some, LIMITS):
            part = some[done : done + piece.rows]
            size = segments.write(Path(folder) / "1", part, 1, piece.batches)
            assert size == (Path(folder) / "1").stat().st_size
            assert size <= piece.size <= 50_000
            assert sum(piece.batches) == piece.rows <= 15
            assert all(piece.batches)
            done += piece.rows
        assert done == len(some)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(ROWS, st.integers(0, 60)), max_size=12))
def test_the_caps_hold_in_any_history(steps: list[list[Row] | int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool.open(folder, LIMITS)
        for step in steps:
            if isinstance(step, int):
                spool.commit(min(spool.high, step))
                continue
            fitting = spool.fits(step)
            if fitting < len(step):
                with pytest.raises(Full):
                    spool.append(step)
            spool.append(step[:fitting])
            found = [path for path in Path(folder).iterdir() if path.suffix == ".arrow"]
            assert sum(path.stat().st_size for path in found) <= 100_000
            assert sum(int(path.name[21:41]) - int(path.name[:20]) + 1 for path in found) <= 60
        spool.commit(spool.high)
        assert spool.fits(numbered(1, 1)) == 1  # there is room once all is committed
        spool.close()


def test_a_segment_is_cut_into_record_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "BATCH_ROWS", 3)
    monkeypatch.setattr(caps, "BATCH_BYTES", 10_000)
    large = row("l", b"x" * 6000)
    limits = SpoolLimits(max_rows=100, max_bytes=10_000_000, segment_rows=6)

    cut = [piece.batches for piece in caps.cut([*numbered(1, 7), large, large, row("m")], limits)]

    assert cut == [(3, 3), (2, 2)]


def test_bytes_of_a_row() -> None:
    assert rows.sizes(
        [
            Row("ab", "c", b"1234", None, None, 0, None, TIME),
            Row(None, "ß", b"", None, {"k": "v"}, 0, None, TIME),
        ]
    ) == [71, 64 + 4 + 10 + 8]


@pytest.mark.parametrize(
    ("retained", "fit"),
    [(150_000, 3), (163_350, 2), (163_351, 1), (173_483, 1), (173_484, 0), (200_001, 0)],
)
def test_the_cap_on_bytes_divides_a_segment(retained: int, fit: int) -> None:
    """Each row takes 10,133 bytes; the file and its only batch take 16,384 more."""
    limits = SpoolLimits(max_rows=100, max_bytes=200_000, segment_rows=10)
    five = [row(name, b"x" * 10_000) for name in "abcde"]
    pieces = caps.cut(five, limits)
    assert [(piece.rows, piece.size) for piece in pieces] == [(5, 67_049)]

    before = retention.Retained([files.Segment(1, 1, Path("1"), retained)])

    assert caps.fitting(five, pieces, before, limits) == fit


def test_either_cap_divides_a_segment() -> None:
    limits = SpoolLimits(max_rows=22, max_bytes=200_000, segment_rows=10)
    five = [row(name, b"x" * 10_000) for name in "abcde"]
    before = retention.Retained([files.Segment(1, 20, Path("1"), 150_000)])
    assert caps.fitting(five, caps.cut(five, limits), before, limits) == 2
