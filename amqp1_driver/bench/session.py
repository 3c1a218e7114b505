# SPDX-License-Identifier: Apache-2.0

"""All runs of a benchmark, and the document with their results. Main thread."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.plan import Entry, Scenario, interleave
from amqp1_driver.bench.progress import Progress
from amqp1_driver.bench.report import fault, scenario_lines
from amqp1_driver.bench.run import Limits, Place, measure
from amqp1_driver.bench.summary import ratios, summary

#: version of the document's format; it changes when programs for older ones would misread it
SCHEMA = 1
#: expected seconds of a run beyond its sending: processes start, messages drain
_OVERHEAD = 4.0

Measure = Callable[..., dict[str, Any]]


class Session:
    """A benchmark that runs scenario after scenario, with the drivers in turn. Main thread.

    :param bus: name of the bus that the benchmark has started, for the document; None: none
    :param measured: function that performs a run, with the first five parameters of ``measure``
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        scenarios: Sequence[Scenario],
        rounds: int,
        place: Place,
        limits: Limits,
        bus: str | None = None,
        measured: Measure = measure,
    ) -> None:
        self._entries, self._scenarios, self._rounds = entries, scenarios, rounds
        self._place, self._limits = place, limits
        self._measure = measured
        self.document: dict[str, Any] = {**heading(bus, rounds, limits), "scenarios": []}

    def play(self) -> dict[str, Any]:
        """Run everything, and print each scenario's table when it is complete."""
        runs = len(self._scenarios) * self._rounds * len(self._entries)
        longest = max(scenario.seconds for scenario in self._scenarios)
        progress = Progress(runs, longest + self._limits.warmup + _OVERHEAD)
        try:
            for scenario in self._scenarios:
                found = self._scenario(scenario, progress)
                self.document["scenarios"].append(found)
                progress.write("\n".join(scenario_lines(found)) + "\n")
        finally:
            progress.close()
        return self.document

    @property
    def failed(self) -> bool:
        """Return whether any run failed as a whole."""
        return any("trouble" in run for run in self._runs())

    @property
    def faults(self) -> list[str]:
        """Return descriptions of all lost and duplicated messages."""
        found = [
            fault(
                scenario["title"],
                entry["label"],
                [run for run in entry["runs"] if "trouble" not in run],
            )
            for scenario in self.document["scenarios"]
            for entry in scenario["entries"]
        ]
        return [words for words in found if words]

    @property
    def refused(self) -> bool:
        """Return whether the sending of any message failed."""
        return any(run.get("failed") for run in self._runs())

    def _runs(self) -> list[dict[str, Any]]:
        return [
            run
            for scenario in self.document["scenarios"]
            for entry in scenario["entries"]
            for run in entry["runs"]
        ]

    def _scenario(self, scenario: Scenario, progress: Progress) -> dict[str, Any]:
        runs: dict[str, list[dict[str, Any]]] = {entry.label: [] for entry in self._entries}
        for number, entry in interleave(self._entries, self._rounds):
            progress.begin(f"{scenario.title}: {entry.label}, round {number}/{self._rounds}")
            runs[entry.label].append(self._run(entry, scenario, progress))
            progress.end()
        base = _good(runs[self._entries[0].label])
        return {
            "title": scenario.title,
            **asdict(scenario),
            "entries": [
                {
                    "label": entry.label,
                    "url": entry.shown,
                    "kind": entry.kind,
                    "options": entry.shown_options,
                    "about": next(
                        (run.pop("about") for run in runs[entry.label] if "about" in run), None
                    ),
                    "runs": [_without_about(run) for run in runs[entry.label]],
                    "median": summary([run for run in _good(runs[entry.label]) if run]),
                    "ratio": ratios(_good(runs[entry.label]), base),
                }
                for entry in self._entries
            ],
        }

    def _run(self, entry: Entry, scenario: Scenario, progress: Progress) -> dict[str, Any]:
        if entry.lacks(scenario.operation):
            return {"trouble": f"it knows no {scenario.operation}"}
        try:
            return self._measure(entry, scenario, self._place, self._limits, progress.tick)
        except Trouble as error:
            return {"trouble": str(error)}


def heading(bus: str | None, rounds: int, limits: Limits) -> dict[str, Any]:
    """Return the head of a document: time, machine, bus, number of rounds, time limits."""
    return {
        "schema": SCHEMA,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cpus": os.cpu_count(),
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "bus": bus,
        "rounds": rounds,
        "limits": asdict(limits),
    }


def _good(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any] | None]:
    return [None if "trouble" in run else run for run in runs]


def _without_about(run: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name != "about"}
