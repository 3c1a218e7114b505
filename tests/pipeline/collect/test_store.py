# SPDX-License-Identifier: Apache-2.0

"""Waiting for room in the spool always ends: by room, by the stop, or because it is found out
that there will be none."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from amqp1_driver.pipeline.collect import watch
from amqp1_driver.pipeline.collect.store import Store
from amqp1_driver.pipeline.spool import Fenced, Full, Row

ROWS = [Row("q", f"m{number}", b"", None, None, 0, None, 0) for number in range(3)]


class Small:
    """A spool with room for so many rows, which tells when it is asked how many fit."""

    def __init__(self, room: int = 0) -> None:
        self.free = room
        self.has: list[Row] = []
        self.asked = threading.Event()

    def append(self, rows: Sequence[Row]) -> None:
        if len(rows) > self.free:
            raise Full("no room")
        self.free -= len(rows)
        self.has += rows

    def fits(self, rows: Sequence[Row]) -> int:
        self.asked.set()
        return min(len(rows), self.free)


class Appending:
    """A store that appends on a thread."""

    def __init__(self, spool: Small, look: Any = lambda: None) -> None:
        self.changed = threading.Condition()
        self.stopped = False
        fake: Any = spool
        self.store = Store(fake, self.changed, lambda: self.stopped, look, "q")
        self.result: Any = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self.store.append(ROWS, 0)
        except BaseException as error:
            self.result = error

    def end(self) -> Any:
        self.thread.join(20)
        assert not self.thread.is_alive(), "it waits for ever"
        assert not self.store.waits
        return self.result


def test_as_many_as_fit() -> None:
    spool = Small(2)
    appending = Appending(spool)
    assert appending.end() == 2
    assert spool.has == ROWS[:2]
    assert appending.store.counts == {
        "appended": 2,
        "duplicates": 0,
        "undecodable": 0,
        "rejected": 0,
    }


def test_a_commit_wakes_it() -> None:
    spool = Small()
    appending = Appending(spool)
    assert spool.asked.wait(20)
    with appending.changed:
        spool.free = 3
        appending.changed.notify_all()
    assert appending.end() == 3


def test_the_stop_wakes_it() -> None:
    spool = Small()
    appending = Appending(spool)
    assert spool.asked.wait(20)
    with appending.changed:
        appending.stopped = True
        appending.changed.notify_all()
    assert appending.end() == 0
    assert spool.has == []


def test_that_the_spool_is_another_process_s_is_found_out_though_nobody_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "EVERY", 0.001)
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise Fenced("opened by another process")

    appending = Appending(Small(), look)
    assert isinstance(appending.end(), Fenced)
    assert len(looks) == 3
