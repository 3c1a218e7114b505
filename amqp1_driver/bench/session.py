# SPDX-License-Identifier: Apache-2.0

"""All runs of a benchmark, and the document with their results. Main thread."""

from __future__ import annotations

import functools
import operator
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.plan import Entry, Scenario, interleave
from amqp1_driver.bench.progress import Progress
from amqp1_driver.bench.report import fault, scenario_lines
from amqp1_driver.bench.run import Limits, Place, measure
from amqp1_driver.bench.summary import ratios, summary

#: version of the document's format; a change with which older programs would misread a document
#: increases the version
SCHEMA = 1
#: expected seconds of a run beyond its sending: processes start, messages drain
OVERHEAD = 4.0

Measure = Callable[..., dict[str, Any]]
Run = dict[str, Any]
Runs = dict[str, list[Run]]


class Runner:
    """A benchmark that runs scenario after scenario. Main thread.

    :param head: fields of the document, beside time and machine
    :param runs: number of runs
    :param seconds: expected duration of a run
    """

    def __init__(self, head: Mapping[str, Any], runs: int, seconds: float) -> None:
        self._bar = runs, seconds
        self.document: dict[str, Any] = {
            "schema": SCHEMA,
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": {
                "cpus": os.cpu_count(),
                "platform": platform.platform(),
                "python": platform.python_version(),
            },
            **head,
            "scenarios": [],
        }

    def play(self) -> dict[str, Any]:
        """Run everything, and print each scenario's table when the scenario is complete.

        :returns: the document
        """
        self.progress = Progress(*self._bar)
        try:
            for lines in self.scenarios():
                self.progress.write("\n".join(lines) + "\n")
        finally:
            self.progress.close()
        return self.document

    def scenarios(self) -> Iterator[Iterable[str]]:
        """Run the scenarios, add each to the document, and yield the lines about it."""
        raise NotImplementedError

    def attempt(self, title: str, measured: Callable[[], Run]) -> Run:
        """Perform a run, and return its figures; if it fails, return only the field ``trouble``."""
        with self.progress.running(title):
            try:
                return measured()
            except Trouble as error:
                return {"trouble": str(error)}

    def results(self) -> list[Run]:
        """Return all runs so far."""
        return [run for scenario in self.document["scenarios"] for run in _runs(scenario)]

    @property
    def failed(self) -> bool:
        """Return whether any run failed as a whole."""
        return any("trouble" in run for run in self.results())

    @property
    def faulty(self) -> bool:
        """Return whether any message was lost or duplicated."""
        return any(run.get("lost") or run.get("duplicated") for run in self.results())

    @property
    def refused(self) -> bool:
        """Return whether the sending of any message failed."""
        return any(run.get("failed") for run in self.results())


def _runs(scenario: Mapping[str, Any]) -> Iterator[Run]:
    for entry in scenario["entries"]:
        yield from entry["runs"]


class Comparison(Runner):
    """A benchmark in which the drivers run in turn. Main thread.

    :param plan: the scenarios, each a dataclass with a title
    :param rounds: number of runs of each driver in each scenario
    :param seconds: expected duration of a run
    """

    #: ``name`` returns a scenario's name for the progress bar; ``lines`` returns the lines about a
    #: scenario's results
    name: Callable[[Any], str] = staticmethod(operator.attrgetter("title"))
    lines: Callable[[dict[str, Any]], Iterable[str]] = staticmethod(scenario_lines)

    def __init__(
        self,
        entries: Sequence[Entry],
        plan: Sequence[Any],
        rounds: int,
        head: Mapping[str, Any],
        seconds: float,
    ) -> None:
        head = {**head, "rounds": rounds}
        super().__init__(head, len(plan) * rounds * len(entries), seconds)
        self._entries, self._plan, self._rounds = entries, plan, rounds

    def scenarios(self) -> Iterator[Iterable[str]]:
        """Run each scenario with all drivers."""
        for scenario in self._plan:
            runs: Runs = {entry.label: [] for entry in self._entries}
            for number, entry in interleave(self._entries, self._rounds):
                title = f"{self.name(scenario)}: {entry.label}, round {number}/{self._rounds}"
                run = self.attempt(title, functools.partial(self.run, entry, scenario))
                runs[entry.label].append(run)
            entries = [
                {
                    "label": entry.label,
                    "url": entry.shown,
                    "options": entry.shown_options,
                    **self.figures(scenario, entry, runs),
                }
                for entry in self._entries
            ]
            found = {"title": scenario.title, **asdict(scenario), "entries": entries}
            self.document["scenarios"].append(found)
            yield self.lines(found)

    def run(self, entry: Entry, scenario: Any) -> Run:
        """Perform a run, and return its figures.

        :raises Trouble: the run failed
        """
        raise NotImplementedError

    def figures(self, scenario: Any, entry: Entry, runs: Runs) -> dict[str, Any]:
        """Return the runs of a driver, their median, and the ratio to another driver.

        :param runs: runs of all drivers, by label
        """
        raise NotImplementedError


class Session(Comparison):
    """A benchmark of operations; the first driver is compared with the others. Main thread.

    :param bus: name of the bus that the benchmark has started, for the document; None: it has
        started no bus
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
        longest = max(scenario.seconds for scenario in scenarios)
        head = {"bus": bus, "limits": asdict(limits)}
        super().__init__(entries, scenarios, rounds, head, longest + limits.warmup + OVERHEAD)
        self._place, self._limits, self._measure = place, limits, measured

    @property
    def faults(self) -> list[str]:
        """Return descriptions of all lost and duplicated messages."""
        found = [
            fault(scenario["title"], entry["label"], good(entry["runs"]))
            for scenario in self.document["scenarios"]
            for entry in scenario["entries"]
        ]
        return [words for words in found if words]

    def run(self, entry: Entry, scenario: Scenario) -> Run:
        """Perform a run, unless the driver does not support the operation."""
        if entry.lacks(scenario.operation):
            raise Trouble(f"it knows no {scenario.operation}")
        return self._measure(entry, scenario, self._place, self._limits, self.progress.tick)

    def figures(self, scenario: Scenario, entry: Entry, runs: Runs) -> dict[str, Any]:
        """Return a driver's runs, their median, and the ratio of this driver to the first one."""
        ours, base = runs[entry.label], runs[self._entries[0].label]
        about = [run["about"] for run in ours if "about" in run]
        return {
            "kind": entry.kind,
            "about": about[0] if about else None,
            "runs": [
                {name: value for name, value in run.items() if name != "about"} for run in ours
            ],
            "median": summary(good(ours)),
            "ratio": ratios(by_round(ours), by_round(base)),
        }


def good(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that did not fail."""
    return [run for run in runs if "trouble" not in run]


def by_round(runs: Sequence[Run]) -> list[Run | None]:
    """Return the runs by round, with None for each run that failed."""
    return [None if "trouble" in run else run for run in runs]
