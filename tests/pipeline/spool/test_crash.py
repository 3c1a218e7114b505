# SPDX-License-Identifier: Apache-2.0

"""Killed before each call that touches the disc: nothing acknowledged is lost, nothing doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp1_driver.pipeline.spool import Spool
from tests.pipeline.spool.crash import LIMITS
from tests.pipeline.spool.rows import contents, numbered


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where that can be: some 1000 files are forced to disc."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


def test_killed_at_every_step(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.spool.crash", str(folder)],
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    results = json.loads(done.stdout)

    for at, result in enumerate(results, 1):
        spool = Spool.open(folder / str(at), LIMITS)
        high, committed = spool.high, spool.committed
        assert high >= result["acknowledged"], (at, result)
        # a mark that is on disc may not have been told of any more
        assert committed in {0: {0, 2}, 2: {2, 6}, 6: {6}}[result["committed"]], (at, result)
        assert spool.missing(committed + 1, high) == [], (at, result)
        assert contents(spool, committed + 1, high) == [
            (seq, f"m{seq}") for seq in range(committed + 1, high + 1)
        ], (at, result)
        # the bus delivers all again that was not acknowledged
        spool.append(spool.fresh(numbered(result["acknowledged"] + 1, 9)))
        assert contents(spool, committed + 1, 20) == [
            (seq, f"m{seq}") for seq in range(committed + 1, 10)
        ], (at, result)
        assert list(spool.folder.glob(".*.tmp")) == []
        spool.close()
    calls = [result["call"] for result in results]
    assert calls[-1] is None
    assert results[-1] == {"acknowledged": 9, "committed": 6, "call": None}
    assert {name: calls.count(name) for name in ("fsync", "rename", "replace", "unlink")} == {
        "fsync": 21,
        "rename": 5,
        "replace": 5,
        "unlink": 3,
    }
