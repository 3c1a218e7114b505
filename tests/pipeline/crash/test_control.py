# SPDX-License-Identifier: Apache-2.0

"""Waiting ends when nothing happens any more, and not when it takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.crash.control import Control, Ended, Run


class Script:
    """A condition whose every wait lets the next thing happen; none: the time is up."""

    def __init__(self, *happens: Callable[[], object]) -> None:
        self._happens = list(happens)
        self.limits: list[float] = []

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def notify_all(self) -> None:
        pass

    def wait_for(self, true: Callable[[], bool], limit: float) -> bool:
        self.limits.append(limit)
        if self._happens:
            self._happens.pop(0)()
        return true()


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    made = Control(tmp_path, lambda high: None)
    yield made
    made.server_close()


def scripted(control: Control, *happens: Callable[[], object]) -> Script:
    script: Any = Script(*happens)
    control.changed = script
    return script  # type: ignore[no-any-return]


def event(name: str, **fields: Any) -> dict[str, Any]:
    return {"event": name, "run": 0, "pid": 1, **fields}


def high(run: Run) -> bool:
    return run.high >= 30


def test_each_event_gives_it_more_time_and_spark_s_start_has_its_own(control: Control) -> None:
    run = control.begin(10, 10)
    script = scripted(
        control,
        lambda: control.heard(event("session", jvm=7)),
        lambda: control.heard(event("appended", high=10)),
        lambda: control.heard(event("bronze", rows=10)),
        lambda: control.heard(event("appended", high=30)),
    )
    control.wait(run, "row 30", high)
    assert script.limits == [400.0, 240.0, 240.0, 240.0]


def test_without_any_event_it_fails(control: Control) -> None:
    run = control.begin(10, 10)
    scripted(control, lambda: control.heard(event("session", jvm=7)))
    with pytest.raises(AssertionError, match="start 0: no row 30, and nothing else within 240 s"):
        control.wait(run, "row 30", high)


@pytest.mark.parametrize(
    "happens",
    [
        lambda control, run: setattr(run, "exit", 1),
        lambda control, run: control.heard(event("terminated", exception="failed to connect back")),
    ],
)
def test_a_run_that_ends_is_not_waited_for(control: Control, happens: Any) -> None:
    run = control.begin(10, 10)
    scripted(control, lambda: happens(control, run))
    with pytest.raises(Ended, match="start 0 ended, no row 30"):
        control.wait(run, "row 30", high)


def test_the_end_is_waited_for_while_it_goes_on(control: Control) -> None:
    run = control.begin(10, 10)
    scripted(
        control, lambda: control.heard(event("silver", rows=10)), lambda: setattr(run, "exit", 0)
    )
    control.ended(run)
    run.exit = None
    scripted(control)
    with pytest.raises(AssertionError, match="start 0: no end, and nothing else within 400 s"):
        control.ended(run)
