# SPDX-License-Identifier: Apache-2.0

"""Append, read, commit, caps, duplicates; on real files."""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import resource
import stat
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.pipeline.spool import (
    Appended,
    Full,
    Row,
    Spool,
    SpoolError,
    SpoolLimits,
    ids,
    segments,
)
from tests.pipeline.spool.rows import TIME, contents, names, numbered, row, rows

LIMITS = SpoolLimits(max_rows=20, max_bytes=1_000_000, segment_rows=5)


@pytest.fixture
def spool(tmp_path: Path) -> Any:
    made = Spool.open(tmp_path / "s", LIMITS)
    yield made
    made.close()


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    """Messages may hold secrets; a umask that forbids nothing makes no difference."""
    before = os.umask(0)
    try:
        with contextlib.closing(Spool.open(tmp_path / "above" / "s", LIMITS)) as spool:
            spool.append(rows("a", "b", "c"))
            spool.commit(3)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in spool.folder.iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE(spool.folder.stat().st_mode) == 0o700
    assert len(modes) > 3
    assert set(modes.values()) == {0o600}


def test_a_new_spool_is_empty(spool: Spool) -> None:
    assert (spool.high, spool.committed, spool.epoch, spool.room()) == (0, 0, 1, 20)


def test_rows_come_back_with_all_their_columns(spool: Spool) -> None:
    assert spool.append(
        [
            Row("q", "a", b"\x00\xff", "application/json", {"k": "v", "l": ""}, 2, TIME, TIME + 1),
            Row(None, None, b"", None, None, 0, None, TIME),
        ]
    ) == Appended(1, 2)

    (part,) = spool.parts(1, 2)
    (batch,) = segments.read(part.segment.path, 1, 2)

    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    assert batch.to_pylist() == [
        {
            "seq": 1,
            "address": "q",
            "message_id": "a",
            "body": b"\x00\xff",
            "content_type": "application/json",
            "properties": [("k", "v"), ("l", "")],
            "delivery_count": 2,
            "enqueued_time": when,
            "received_time": when.replace(microsecond=7),
        },
        {
            "seq": 2,
            "address": None,
            "message_id": None,
            "body": b"",
            "content_type": None,
            "properties": None,
            "delivery_count": 0,
            "enqueued_time": None,
            "received_time": when,
        },
    ]


def test_many_rows_are_cut_into_segments(spool: Spool) -> None:
    assert spool.append(numbered(1, 12)) == Appended(1, 12)

    assert names(spool) == [
        "00000000000000000001-00000000000000000005.arrow",
        "00000000000000000006-00000000000000000010.arrow",
        "00000000000000000011-00000000000000000012.arrow",
    ]
    assert contents(spool, 4, 7) == [(4, "m4"), (5, "m5"), (6, "m6"), (7, "m7")]


def test_appending_nothing_makes_no_file(spool: Spool) -> None:
    assert spool.append([]) == Appended(1, 0)
    assert names(spool) == []


def test_a_commit_purges_but_keeps_the_newest_segment(spool: Spool) -> None:
    spool.append(numbered(1, 10))

    spool.commit(4)
    assert len(names(spool)) == 2  # row 5 is in the first still
    spool.commit(10)
    assert names(spool) == ["00000000000000000006-00000000000000000010.arrow"]
    assert (spool.committed, spool.room()) == (10, 15)
    spool.commit(7)
    assert spool.committed == 10


def test_what_is_not_there_cannot_be_committed(spool: Spool) -> None:
    spool.append(rows("a"))

    with pytest.raises(ValueError, match="row 2 cannot be committed"):
        spool.commit(2)


def test_numbers_go_on_when_opened_again(spool: Spool) -> None:
    spool.append(numbered(1, 7))
    spool.commit(7)
    again = Spool.open(spool.folder, LIMITS)

    assert (again.uuid, again.high, again.committed, again.epoch) == (spool.uuid, 7, 7, 2)
    assert again.append(rows("b")) == Appended(8, 8)


# -- caps --------------------------------------------------------------------------


def test_the_cap_on_rows_counts_what_is_on_disc(spool: Spool) -> None:
    spool.append(numbered(1, 18))

    with pytest.raises(Full, match=r"3 rows of \d+ bytes do not fit .* holds 18 rows"):
        spool.append(numbered(19, 21))
    assert (spool.room(), spool.high, spool.fits(numbered(19, 30))) == (2, 18, 2)
    spool.append(numbered(19, 20))
    assert spool.room() == 0


def test_the_cap_on_bytes(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, SpoolLimits(max_rows=1000, max_bytes=150_000, segment_rows=2))
    large = [row(f"l{at}", b"x" * 40_000) for at in range(4)]

    assert spool.fits(large) == 2
    spool.append(large[:2])
    spool.append(large[2:3])
    with pytest.raises(Full):
        spool.append(large[3:])
    assert spool.room() == 0
    assert sum(path.stat().st_size for path in tmp_path.glob("*.arrow")) < 150_000
    spool.commit(3)
    assert spool.append(large[3:]) == Appended(4, 4)


def test_rows_fit_though_their_segment_does_not(tmp_path: Path) -> None:
    """Both segments take 60,000 to 76,650 bytes each; one more row takes 46,517 at most."""
    spool = Spool.open(tmp_path, SpoolLimits(max_rows=1000, max_bytes=180_000, segment_rows=2))
    large = [row(f"l{at}", b"x" * 30_000) for at in range(6)]
    spool.append(large[:4])

    assert spool.fits(large[4:]) == 1
    with pytest.raises(Full):
        spool.append(large[4:])
    assert spool.append(large[4:5]) == Appended(5, 5)


def test_a_message_larger_than_half_of_the_cap_never_fits(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, SpoolLimits(max_rows=10, max_bytes=200_000, segment_rows=2))

    with pytest.raises(Full, match="100133 bytes is too large for the spool: its cap is 200000"):
        spool.append([row("a", b"x" * 100_000)])
    assert names(spool) == []


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ((10, 1_000_000, 0), "at least one row"),
        ((10, 1_000_000, 6), "must take two segments: 10 rows at most, but 6 in a segment"),
        ((10, 1000, 5), "1000 bytes are too few"),
    ],
)
def test_caps_that_contradict_each_other(limits: tuple[int, int, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        SpoolLimits(*limits)


def test_who_wants_room_is_told_of_a_commit(spool: Spool) -> None:
    spool.append(numbered(1, 20))
    seen: list[int] = []
    spool.listen(lambda: seen.append(spool.room()))

    spool.commit(12)

    assert seen == [10]


# -- duplicates --------------------------------------------------------------------


def test_ids_of_retained_rows_are_known(spool: Spool) -> None:
    spool.append(numbered(1, 10))
    spool.commit(5)

    assert [spool.known(name) for name in ("m5", "m6", "m10", "m11", None)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert spool.fresh(
        [*rows("m6", "n", "n"), row("x", message_id=None), row("y", message_id=None)]
    ) == [row("n"), row("x", message_id=None), row("y", message_id=None)]


def test_another_id_with_the_same_hash_is_not_known(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "hash", lambda text: 7, raising=False)
    spool.append(rows("a"))
    assert (spool.known("a"), spool.known("b")) == (True, False)
    assert spool.fresh(rows("a", "b")) == rows("b")


def test_ids_are_known_after_opening_again(spool: Spool) -> None:
    spool.append(numbered(1, 10))

    again = Spool.open(spool.folder, LIMITS)

    assert [again.known(name) for name in ("m1", "m10", "m11")] == [True, True, False]


# -- errors ------------------------------------------------------------------------


def test_a_full_disc_is_an_error_and_leaves_nothing(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SpoolError, match=r"nothing is acknowledged: .*No space left on device"):
        spool.append(rows("a"))
    monkeypatch.undo()

    assert [path.name for path in spool.folder.iterdir() if ".tmp" in path.name] == []
    assert (spool.high, spool.known("a")) == (0, False)
    assert spool.append(rows("a")) == Appended(1, 1)  # once there is space again


def test_a_file_that_cannot_be_written_to_its_end(spool: Spool) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(SpoolError, match=r"nothing is acknowledged: .*File too large"):
            spool.append([row("a", b"x" * 20_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert names(spool) == []
    assert spool.append(rows("a")) == Appended(1, 1)


def test_after_a_failed_rename_the_spool_is_not_trusted(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def broken(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}") == str(spool.folder):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(handle)

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(SpoolError, match=r"nothing is acknowledged"):
        spool.append(rows("a"))
    monkeypatch.undo()
    with pytest.raises(SpoolError, match="not to be trusted after an error"):
        spool.append(rows("b"))
    assert Spool.open(spool.folder).known("a")  # so the redelivered one is not appended twice


def test_after_an_error_past_the_rename_no_number_is_given_twice(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(spool._known, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        spool.append(rows("a"))
    monkeypatch.undo()
    with pytest.raises(SpoolError, match="not to be trusted"):
        spool.append(rows("b", "c"))
    assert names(spool) == ["00000000000000000001-00000000000000000001.arrow"]


def test_a_closed_spool_takes_nothing(spool: Spool) -> None:
    spool.close()
    spool.close()
    with pytest.raises(SpoolError, match="is closed"):
        spool.append(rows("a"))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="cannot be opened"):
        Spool.open(tmp_path / "file")


def test_status(spool: Spool) -> None:
    spool.append(numbered(1, 7))
    spool.commit(5)
    spool.status({"links": 2})

    content = json.loads((spool.folder / "status.json").read_text())
    assert {
        key: content[key]
        for key in ("links", "spool", "epoch", "high", "committed", "rows", "segments", "max_rows")
    } == {
        "links": 2,
        "spool": spool.uuid,
        "epoch": 1,
        "high": 7,
        "committed": 5,
        "rows": 2,
        "segments": 1,
        "max_rows": 20,
    }
