# SPDX-License-Identifier: Apache-2.0

"""What a spool makes of a folder that a crash or a fault has left."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from amqp1_driver.pipeline.spool import (
    Appended,
    Damaged,
    Missing,
    Spool,
    SpoolLimits,
    segments,
)
from tests.pipeline.spool.rows import contents, names, numbered, pairs, rows

LIMITS = SpoolLimits(max_rows=100, max_bytes=10_000_000, segment_rows=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Rows 1 to 6 in three segments."""
    spool = Spool.open(tmp_path, LIMITS)
    spool.append(numbered(1, 6))
    spool.close()
    return tmp_path


def segment(folder: Path, lo: int, hi: int) -> Path:
    return folder / f"{lo:020}-{hi:020}.arrow"


def test_what_was_not_renamed_was_never_there(folder: Path) -> None:
    segment(folder, 5, 6).rename(folder / ".1-5.tmp")

    spool = Spool.open(folder, LIMITS)

    assert spool.append(rows("new")) == Appended(5, 5)
    assert list(folder.glob(".*.tmp")) == []


@pytest.mark.parametrize("size", [0, 7, 500, 2000])
def test_a_torn_segment_is_set_aside(
    folder: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = segment(folder, 5, 6)
    path.write_bytes(path.read_bytes()[:size])

    with caplog.at_level(logging.ERROR):
        spool = Spool.open(folder, LIMITS)

    assert (spool.high, spool.missing(1, 6)) == (6, [(5, 6)])
    assert "rows 5 to 6 are missing" in caplog.text
    assert path.with_suffix(".torn").stat().st_size == size
    assert contents(spool, 1, 6) == [(1, "m1"), (2, "m2"), (3, "m3"), (4, "m4")]
    assert spool.append(rows("new")) == Appended(7, 7)  # numbers are not given twice
    again = Spool.open(folder, LIMITS)
    assert again.missing(1, 7) == [(5, 6)]
    again.commit(7)
    assert names(again) == ["00000000000000000007-00000000000000000007.arrow"]


def test_a_segment_with_fewer_rows_than_its_name_says(folder: Path) -> None:
    segment(folder, 5, 6).rename(segment(folder, 5, 7))
    assert Spool.open(folder, LIMITS).missing(1, 7) == [(5, 7)]


def test_a_gap_is_found(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    segment(folder, 3, 4).unlink()
    with caplog.at_level(logging.ERROR):
        spool = Spool.open(folder, LIMITS)
    assert spool.missing(1, 6) == [(3, 4)]
    assert "rows 3 to 4 are missing" in caplog.text


def test_a_loss_at_the_beginning_is_found_and_what_was_purged_is_none(folder: Path) -> None:
    segment(folder, 1, 2).unlink()
    assert Spool.open(folder, LIMITS).missing(1, 6) == [(1, 2)]
    (folder / "committed").write_text("2\n")
    assert Spool.open(folder, LIMITS).missing(3, 6) == []


def test_numbers_go_on_after_all_segments_were_lost(folder: Path) -> None:
    for lo in (1, 3, 5):
        segment(folder, lo, lo + 1).unlink()
    (folder / "committed").write_text("6\n")
    assert Spool.open(folder, LIMITS).append(rows("new")) == Appended(7, 7)


def test_the_same_rows_twice(folder: Path) -> None:
    segment(folder, 1, 3).write_bytes(segment(folder, 1, 2).read_bytes())
    with pytest.raises(Damaged, match="has rows that the segment before it has, too"):
        Spool.open(folder, LIMITS)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "has segments but no spool.json"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        (json.dumps({"format": 2, "uuid": "x"}), "format 2 is not known here, only 1"),
    ],
)
def test_a_folder_that_is_no_spool(folder: Path, content: str | None, text: str) -> None:
    (folder / "spool.json").unlink()
    if content is not None:
        (folder / "spool.json").write_text(content)
    with pytest.raises(Damaged, match=text):
        Spool.open(folder, LIMITS)


def test_a_committed_mark_that_is_no_number(folder: Path) -> None:
    (folder / "committed").write_text("")
    with pytest.raises(Damaged, match="committed holds no number"):
        Spool.open(folder, LIMITS)


def test_a_record_batch_that_cannot_be_read_is_missing(tmp_path: Path) -> None:
    path = segment(tmp_path, 1, 4)
    segments.write(path, numbered(1, 4), 1, (2, 2))
    data = bytearray(path.read_bytes())
    # Arrow begins each message with this marker: the schema, both batches, and the end.
    _, _, second, _ = [found.start() for found in re.finditer(b"\xff{4}", data)]
    data[second : second + 64] = bytes(64)
    path.write_bytes(data)

    batches = segments.read(path, 1, 4)
    assert pairs([next(batches)]) == [(1, "m1"), (2, "m2")]
    with pytest.raises(Missing, match=r"rows 3 to 4: .*\.arrow cannot be read: "):
        next(batches)
