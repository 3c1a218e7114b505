# SPDX-License-Identifier: Apache-2.0

"""All rows of all scenarios of growth, and the document with their results; on the main thread."""

from __future__ import annotations

import contextlib
import functools
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from amqp1_driver.bench.scale import scenarios
from amqp1_driver.bench.scale.report import lines
from amqp1_driver.bench.scale.stage import Settings, Stage, staged
from amqp1_driver.bench.session import Run, Runner

#: limit of open file descriptors for the bus and its clients
_DESCRIPTORS = 65536
#: expected duration of a row, for the progress bar; seconds
_EXPECTED = 30.0

Measure = Callable[[Stage, int], dict[str, Any]]
Known = tuple[Measure, str, tuple[int, ...]]

#: name -> function, title, default values of n
SCENARIOS: dict[str, Known] = {
    "targets": (scenarios.targets, "casts to n targets", (100, 1000, 10000)),
    "listeners": (scenarios.listeners, "n RPC servers on one connection", (10, 100, 1000)),
    "outstanding": (scenarios.outstanding, "n calls at once", (100, 1000, 10000)),
    "reconnect": (scenarios.reconnect, "n clients lose the bus", (10, 100, 1000)),
    "memory": (scenarios.memory, "n idle links, then calls", (1000,)),
}


class Session(Runner):
    """A run of scenario after scenario; each n has a bus and processes of its own. Main thread.

    :param sizes: values of n for all scenarios; None: each scenario has its own defaults
    """

    def __init__(
        self,
        settings: Settings,
        names: Sequence[str],
        sizes: Sequence[int] | None,
        known: Mapping[str, Known] = SCENARIOS,
    ) -> None:
        self._settings, self._known = settings, known
        self._plan = [(name, tuple(sizes) if sizes else known[name][2]) for name in names]
        head = {"settings": {**asdict(settings), "entry": settings.entry.shown}}
        super().__init__(head, sum(len(sizes) for _, sizes in self._plan), _EXPECTED)

    def scenarios(self) -> Iterator[Iterable[str]]:
        """Run each scenario for each of its values of n."""
        allow_descriptors()
        for name, sizes in self._plan:
            rows: list[Run] = []
            title = self._known[name][1]
            self.document["scenarios"].append({"name": name, "title": title, "rows": rows})
            for n in sizes:
                row = self.attempt(f"{name}, n = {n}", functools.partial(self._row, name, n))
                rows.append({"n": n, **row})
            yield lines(name, f"{name}: {title} ({rows[0].get('bus', 'no bus')})", rows)

    def results(self) -> list[Run]:
        """Return all rows so far."""
        return [row for scenario in self.document["scenarios"] for row in scenario["rows"]]

    def _row(self, name: str, n: int) -> Run:
        with staged(self._settings, self.progress.tick) as stage:
            row = self._known[name][0](stage, n)
            return {"bus": stage.bus.name if stage.bus else "a bus of its own", **row}


def allow_descriptors() -> None:
    """Raise the limit of open descriptors for this process and its children.

    The new limit is ``_DESCRIPTORS``, or the hard limit if that is lower.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
