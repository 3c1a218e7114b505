# SPDX-License-Identifier: Apache-2.0

"""All rows of all scenarios of growth, and the document with their results; on the main thread."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.progress import Progress
from amqp1_driver.bench.scale import scenarios
from amqp1_driver.bench.scale.report import lines
from amqp1_driver.bench.scale.stage import Settings, Stage, staged

#: version of the document; it changes when a program for older documents would misread new ones
SCHEMA = 1
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


class Session:
    """A run of scenario after scenario; each n has a bus and processes of its own. Main thread.

    :param sizes: values of n for all scenarios; None: each scenario has its own
    """

    def __init__(
        self,
        settings: Settings,
        names: Sequence[str],
        sizes: Sequence[int] | None,
        known: Mapping[str, Known] = SCENARIOS,
    ) -> None:
        self._settings = settings
        self._known = known
        self._plan = [(name, tuple(sizes) if sizes else known[name][2]) for name in names]
        self.document: dict[str, Any] = {
            "schema": SCHEMA,
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": {
                "cpus": os.cpu_count(),
                "platform": platform.platform(),
                "python": platform.python_version(),
            },
            "settings": {**asdict(settings), "entry": settings.entry.shown},
            "scenarios": [],
        }

    def play(self) -> dict[str, Any]:
        """Run everything, and print each scenario's table when it is complete.

        :returns: the document
        """
        allow_descriptors()
        progress = Progress(sum(len(sizes) for _, sizes in self._plan), _EXPECTED)
        try:
            for name, sizes in self._plan:
                found: dict[str, Any] = {"name": name, "title": self._known[name][1], "rows": []}
                self.document["scenarios"].append(found)
                for n in sizes:
                    progress.begin(f"{name}, n = {n}")
                    found["rows"].append(self._row(name, n, progress))
                    progress.end()
                title = f"{name}: {found['title']} ({found['rows'][0].get('bus', 'no bus')})"
                progress.write("\n".join([*lines(name, title, found["rows"]), ""]))
        finally:
            progress.close()
        return self.document

    @property
    def failed(self) -> bool:
        """Return whether a row failed."""
        return any("trouble" in row for row in self._rows())

    @property
    def faulty(self) -> bool:
        """Return whether messages or clients were lost."""
        return any(row.get("lost") for row in self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        return [row for scenario in self.document["scenarios"] for row in scenario["rows"]]

    def _row(self, name: str, n: int, progress: Progress) -> dict[str, Any]:
        try:
            with staged(self._settings, progress.tick) as stage:
                row = self._known[name][0](stage, n)
                return {"bus": stage.bus.name if stage.bus else "a bus of its own", **row}
        except Trouble as error:
            return {"n": n, "trouble": str(error)}


def allow_descriptors() -> None:
    """Raise the limit of open descriptors for this process and its children.

    The new limit is ``_DESCRIPTORS``, or the hard limit if that is lower.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
