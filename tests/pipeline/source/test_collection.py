# SPDX-License-Identifier: Apache-2.0

"""Waiting for the links to go idle, errors of the collector, the status file; without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.pipeline.source.collection import Collection, CollectorFailed
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Spool, SpoolError
from tests.pipeline.spool.rows import rows


class Scripted:
    """Each look whether it is idle takes the next step."""

    def __init__(self, *steps: Any) -> None:
        self._steps: Iterator[Any] = iter(steps)
        self.error: BaseException | None = None
        self.attached = True
        self.stopped = False

    def __call__(self, options: SourceOptions, spool: Spool) -> Scripted:
        self.spool = spool
        return self

    def start(self) -> None:
        pass

    def stop(self, timeout: float) -> None:
        self.stopped = True

    def idle(self) -> bool:
        step = next(self._steps, False)
        if isinstance(step, str):
            self.spool.append(rows(step))
        elif isinstance(step, Exception):
            self.error = step
        return step is True

    def wait_for(self, high: int, timeout: float) -> bool:
        return True

    def facts(self) -> dict[str, Any]:
        return {"attached": self.attached, "trouble": "refused"}


def collection(folder: Path, collector: Scripted, **changes: Any) -> Collection:
    options = SourceOptions(url="x", addresses=("a",), spool_dir=str(folder), **changes)
    return Collection(options, collector)


def test_it_is_drained_once_it_is_idle(tmp_path: Path) -> None:
    made = collection(tmp_path, Scripted("a", "b", True, "c"))
    assert made.drain() == 2
    made.close()


def test_links_that_are_never_idle(tmp_path: Path) -> None:
    made = collection(tmp_path, Scripted("a"), drain_max=0.0)
    assert made.drain() == 1
    made.close()


def test_a_bus_that_could_not_be_reached_is_not_an_empty_one(tmp_path: Path) -> None:
    collector = Scripted()
    collector.attached = False
    made = collection(tmp_path, collector, drain_max=0.0)
    with pytest.raises(CollectorFailed, match="not be reached within 0 s: refused"):
        made.drain()
    made.close()
    assert collector.stopped


def test_an_error_of_the_collector_ends_the_wait(tmp_path: Path) -> None:
    made = collection(tmp_path, Scripted("a", OSError("no access")))
    with pytest.raises(CollectorFailed, match="from the bus: OSError: no access"):
        made.drain()
    made.close()


def test_a_collector_that_cannot_be_made_leaves_the_spool_closed(tmp_path: Path) -> None:
    seen: list[Spool] = []

    def factory(options: SourceOptions, spool: Spool) -> Scripted:
        seen.append(spool)
        raise ValueError("option 'driver.x'")

    with pytest.raises(ValueError, match=r"driver\.x"):
        Collection(SourceOptions(url="x", spool_dir=str(tmp_path)), factory)
    with pytest.raises(SpoolError, match="is closed"):
        seen[0].append(rows("a"))


def test_the_status_is_written_at_the_end(tmp_path: Path) -> None:
    made = collection(tmp_path, Scripted("a", True))
    made.drain()
    made.close()

    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["high"], status["attached"]) == (1, True)


def test_a_fenced_one_can_be_closed(tmp_path: Path) -> None:
    collector = Scripted()
    made = collection(tmp_path, collector)
    Spool.open(tmp_path)
    made.close()
    assert collector.stopped
