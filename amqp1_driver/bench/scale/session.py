# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""All rows of all scenarios, and the document that comes of them."""

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

#: of the document; it changes when a reader of older ones would go wrong
SCHEMA = 1
#: descriptors that the bus and its clients may have open
_DESCRIPTORS = 65536
#: what a row may take, for the progress bar; seconds
_EXPECTED = 30.0

Measure = Callable[[Stage, int], dict[str, Any]]
Known = tuple[Measure, str, tuple[int, ...]]

#: what is measured, and what n is
SCENARIOS: dict[str, Known] = {
    "targets": (scenarios.targets, "casts to n targets", (100, 1000, 10000)),
    "listeners": (scenarios.listeners, "n RPC servers on one connection", (10, 100, 1000)),
    "outstanding": (scenarios.outstanding, "n calls at once", (100, 1000, 10000)),
    "reconnect": (scenarios.reconnect, "n clients lose the bus", (10, 100, 1000)),
    "memory": (scenarios.memory, "n idle links, then calls", (1000,)),
}


class Session:
    """Runs scenario after scenario, each n with a bus and processes of its own. Main thread.

    :param sizes: values of n for all scenarios; None: each has its own
    """

    def __init__(self, settings: Settings, names: Sequence[str], sizes: Sequence[int] | None,
                 known: Mapping[str, Known] = SCENARIOS) -> None:  # fmt: skip
        self._settings = settings
        self._known = known
        self._plan = [(name, tuple(sizes) if sizes else known[name][2]) for name in names]
        self.document: dict[str, Any] = {
            "schema": SCHEMA,
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": {"cpus": os.cpu_count(), "platform": platform.platform(),
                        "python": platform.python_version()},
            "settings": {**asdict(settings), "entry": settings.entry.shown},
            "scenarios": [],
        }  # fmt: skip

    def play(self) -> dict[str, Any]:
        """Run everything, and print each scenario's table when it is complete."""
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
        """Whether a row came to nothing."""
        return any("trouble" in row for row in self._rows())

    @property
    def faulty(self) -> bool:
        """Whether anything was lost."""
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
    """Let this process and those it starts have as many descriptors open as they may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
