# SPDX-License-Identifier: Apache-2.0

"""Forced to disc, renamed, folder forced to disc: only then may a row be acknowledged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amqp1_driver.pipeline.spool import Spool, SpoolLimits
from tests.pipeline.spool.rows import numbered, rows


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool.open(tmp_path / "s", SpoolLimits(max_rows=10, segment_rows=2))


@pytest.fixture
def calls(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []

    def spy(name: str, label: object) -> None:
        real = getattr(os, name)

        def call(*args: object) -> object:
            seen.append(f"{name} {label(*args)}")  # type: ignore[operator]
            return real(*args)

        monkeypatch.setattr(os, name, call)

    spy("fsync", lambda handle: Path(os.readlink(f"/proc/self/fd/{handle}")).name)
    for name in ("rename", "replace"):
        spy(name, lambda source, target: f"{Path(source).name} {Path(target).name}")
    spy("unlink", lambda path: Path(path).name)
    return seen


def test_append(spool: Spool, calls: list[str]) -> None:
    spool.append(rows("a"))

    name = "00000000000000000001-00000000000000000001.arrow"
    assert calls == ["fsync .1-1.tmp", f"rename .1-1.tmp {name}", "fsync s"]


def test_the_mark_is_set_before_anything_is_purged(spool: Spool, calls: list[str]) -> None:
    spool.append(numbered(1, 4))
    calls.clear()

    spool.commit(4)

    name = "00000000000000000001-00000000000000000002.arrow"
    assert calls == [
        "fsync .committed.tmp",
        "replace .committed.tmp committed",
        "fsync s",
        f"unlink {name}",
    ]


def test_the_epoch_is_on_disc_before_anything_is_changed(spool: Spool, calls: list[str]) -> None:
    Spool.open(spool.folder)

    assert calls == ["fsync .epoch.tmp", "replace .epoch.tmp epoch", "fsync s"]
