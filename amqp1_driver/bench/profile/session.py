# SPDX-License-Identifier: Apache-2.0

"""All runs of a profile, and the document and files with their results; on the main thread."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.plan import Entry, Scenario
from amqp1_driver.bench.profile import flame, layers, native
from amqp1_driver.bench.profile.record import Recorder, Recording
from amqp1_driver.bench.profile.report import scenario_lines
from amqp1_driver.bench.profile.samples import folded
from amqp1_driver.bench.report import fault
from amqp1_driver.bench.run import Limits, Place, measure
from amqp1_driver.bench.session import OVERHEAD, Measure, Runner
from amqp1_driver.bench.summary import summary

#: number of functions in the tables
TOP = 25
#: part of the error text if a sample has killed a process, because its stack was not readable;
#: see ``workers.sampler``
_CRASH = "killed by signal 11"
_ATTEMPTS = 6


class Profile(Runner):
    """A profile: each scenario runs twice in each round, the second time sampled. Main thread.

    :param folder: folder for flame graphs, stacks and the document
    :param perf: record with Linux's perf, too
    :param bus: name of the bus that was started for the profile; the document contains it
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        scenarios: Sequence[Scenario],
        rounds: int,
        place: Place,
        limits: Limits,
        folder: Path,
        perf: bool,
        bus: str | None = None,
        measured: Measure = measure,
    ) -> None:
        longest = max(scenario.seconds for scenario in scenarios)
        head = {"bus": bus, "rounds": rounds, "limits": asdict(limits), "perf": perf}
        runs = 2 * len(scenarios) * rounds * len(entries)
        super().__init__(head, runs, longest + limits.warmup + OVERHEAD)
        self._entries, self._plan, self._rounds = entries, scenarios, rounds
        self._place, self._limits = place, limits
        self._folder, self._perf = folder, perf
        self._measure = measured
        self._crashes = 0

    def play(self) -> dict[str, Any]:
        """Run everything, and print each scenario's tables when the scenario is complete.

        The file ``profile.json`` gets the document, also if an exception ends the runs.

        :returns: the document
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            return super().play()
        finally:
            text = json.dumps(self.document, indent=1) + "\n"
            (self._folder / "profile.json").write_text(text, encoding="utf-8")

    def scenarios(self) -> Iterator[Iterable[str]]:
        """Run each scenario with one driver after the other."""
        for scenario in self._plan:
            found = {"title": scenario.title, **asdict(scenario), "entries": []}
            self.document["scenarios"].append(found)
            for entry in self._entries:
                found["entries"].append(self._entry(entry, scenario))
            yield scenario_lines(found)

    def _entry(self, entry: Entry, scenario: Scenario) -> dict[str, Any]:
        head = {"label": entry.label, "url": entry.shown}
        if entry.lacks(scenario.operation):
            return {**head, "trouble": f"it knows no {scenario.operation}"}
        folder = self._folder / _file_name(f"{scenario.title} {entry.label}")
        plain, sampled, recorders = [], [], []
        self._crashes = 0
        try:
            for number in range(1, self._rounds + 1):
                title = f"{scenario.title}: {entry.label}, round {number}/{self._rounds}"
                plain.append(self._run(entry, scenario, title, None))
                run, recorder = self._sampled(entry, scenario, f"{title}, sampled", folder)
                sampled.append(run)
                recorders.append(recorder)
                recorder.read()
        except Trouble as error:
            return {**head, "trouble": str(error)}
        about = plain[0].pop("about", None)
        roles = {
            role: self._role(role, recorders, folder, f"{scenario.title}: {entry.label}")
            for role in recorders[0].recordings
        }
        return {
            **head,
            "about": about,
            "folder": str(folder),
            "plain": summary(plain),
            "sampled": summary(sampled),
            "roles": roles,
            "missing": next((recorder.missing for recorder in recorders if recorder.missing), ""),
            "crashes": self._crashes,
        }

    def _sampled(
        self, entry: Entry, scenario: Scenario, title: str, folder: Path
    ) -> tuple[dict[str, Any], Recorder]:
        """Run a scenario with samples; repeat the run if a sample has killed a process.

        :raises Trouble: the run failed, or a sample has killed a process in each attempt
        """
        for attempt in range(1, _ATTEMPTS + 1):
            recorder = Recorder(folder, self._perf)
            try:
                return self._run(entry, scenario, title, recorder), recorder
            except Trouble as error:
                if _CRASH not in str(error) or attempt == _ATTEMPTS:
                    raise
                self._crashes += 1
        raise AssertionError("not reached")

    def _run(
        self,
        entry: Entry,
        scenario: Scenario,
        title: str,
        recorder: Recorder | None,
    ) -> dict[str, Any]:
        tick = self.progress.tick
        with self.progress.running(title):
            return self._measure(entry, scenario, self._place, self._limits, tick, recorder)

    @staticmethod
    def _role(role: str, recorders: Sequence[Recorder], folder: Path, title: str) -> dict[str, Any]:
        """Return the figures of a role over all rounds, and write its stacks and flame graph."""
        parts: list[Recording] = [recorder.recordings[role] for recorder in recorders]
        stacks = sum((part.stacks for part in parts), Counter())
        components = sum((part.components for part in parts), Counter())
        (folder / f"{role}.folded").write_text("\n".join(folded(stacks)) + "\n", encoding="utf-8")
        picture = flame.draw(stacks, f"{title}, {role}")
        (folder / f"{role}.svg").write_text(picture, encoding="utf-8")
        return {
            "samples": stacks.total(),
            "layers": layers.shares(stacks),
            "components": {
                name: components[name] / components.total()
                for name in native.COMPONENTS
                if components[name]
            },
            "system": sum(part.system for part in parts) / len(parts),
            "io_thread": layers.io_thread(stacks),
            "functions": layers.functions(stacks, TOP),
        }

    @property
    def faults(self) -> list[str]:
        """Return a text for each entry that lost messages or received some twice."""
        found = [
            fault(scenario["title"], entry["label"], [entry["plain"], entry["sampled"]])
            for scenario in self.document["scenarios"]
            for entry in scenario["entries"]
            if "trouble" not in entry
        ]
        return [words for words in found if words]

    def results(self) -> list[dict[str, Any]]:
        """Return all entries so far."""
        return [entry for scenario in self.document["scenarios"] for entry in scenario["entries"]]


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text).strip("-")
