# SPDX-License-Identifier: Apache-2.0

"""All runs of a profile, and the document and files with their results; on the main thread."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from amqp1_driver.bench.children import Crew, Trouble, Worker
from amqp1_driver.bench.figures import summary
from amqp1_driver.bench.plan import Entry, Scenario
from amqp1_driver.bench.profile import native, samples
from amqp1_driver.bench.profile.report import scenario_lines
from amqp1_driver.bench.profile.samples import Stack
from amqp1_driver.bench.run import Limits, Place, measure
from amqp1_driver.bench.session import OVERHEAD, Measure, Runner, faults

#: number of functions in the tables
TOP = 25
#: part of the error text if a sample has killed a process, because its stack was not readable;
#: see ``workers.worker.Worker.sample``
_CRASH = "killed by signal 11"
_ATTEMPTS = 6
_SECONDS = 30.0
_PERF = "perf.data"


@dataclass
class Recording:
    """The samples of one process.

    :param stacks: number of samples of each Python stack
    :param components: number of perf's samples in each component below Python
    :param system: the kernel's share of the processor time, 0 to 1
    """

    stacks: Counter[Stack] = field(default_factory=Counter)
    components: Counter[str] = field(default_factory=Counter)
    system: float = 0.0


class Recorder:
    """A recorder of the samples of one run. Used on the thread of the crew.

    :param folder: folder for the files of this run
    :param perf: record with Linux's perf, too
    """

    def __init__(self, folder: Path, perf: bool) -> None:
        self._folder = folder
        self._perf = perf
        self._native: native.Perf | None = None
        self._sampled: list[tuple[str, Worker]] = []
        self.recordings: dict[str, Recording] = {}
        #: why there are no samples of perf; empty: there are some, or none are wanted
        self.missing = ""

    def begin(self, crew: Crew, clients: Sequence[Worker], servers: Sequence[Worker]) -> None:
        """Start to sample the first client and the first server, at the beginning of the run."""
        self._folder.mkdir(parents=True, exist_ok=True)
        parts = (("client", clients), ("server", servers))
        self._sampled = [(role, workers[0]) for role, workers in parts if workers]
        for role, worker in self._sampled:
            crew.ask("sample", [worker], _SECONDS, path=str(self._stacks(role).absolute()))
        if self._perf:
            try:
                self._native = native.Perf(self._folder / _PERF)
            except OSError as error:
                self.missing = str(error)

    def end(self, crew: Crew) -> None:
        """Stop sampling at the end of the run, and compute the kernel's share of processor time."""
        self.close()
        used = crew.ask("sampled", [worker for _, worker in self._sampled], _SECONDS)
        for (role, _), times in zip(self._sampled, used, strict=True):
            whole = times["user_us"] + times["system_us"]
            self.recordings[role] = Recording(system=times["system_us"] / whole if whole else 0.0)

    def close(self) -> None:
        """Stop perf, also after a run that failed. Idempotent."""
        if self._native is not None:
            self._native.stop()

    def read(self) -> None:
        """Fill in the recordings from the files of samples, and delete these files.

        This takes a second or two: never call it while something is measured.
        """
        for role, recording in self.recordings.items():
            with self._stacks(role).open(encoding="utf-8", errors="replace") as file:
                recording.stacks = samples.parse(file)
            self._stacks(role).unlink()
        if self._native is None:
            return
        pids = {role: worker.process.pid for role, worker in self._sampled}
        try:
            components = native.read(self._folder / _PERF, list(pids.values()))
        except OSError as error:
            self.missing = str(error)
            return
        finally:
            # this file covers the whole machine, so it must not stay
            (self._folder / _PERF).unlink(missing_ok=True)
        for role, pid in pids.items():
            self.recordings[role].components = components[pid]

    def _stacks(self, role: str) -> Path:
        return self._folder / f"{role}.stacks"


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
        measured = functools.partial(
            self._measure, entry, scenario, self._place, self._limits, tick, recorder
        )
        return self.timed(title, measured)

    @staticmethod
    def _role(role: str, recorders: Sequence[Recorder], folder: Path, title: str) -> dict[str, Any]:
        """Return the figures of a role over all rounds, and write its stacks and flame graph."""
        parts: list[Recording] = [recorder.recordings[role] for recorder in recorders]
        found = sum((part.stacks for part in parts), Counter())
        components = sum((part.components for part in parts), Counter())
        folded = "\n".join(samples.folded(found)) + "\n"
        (folder / f"{role}.folded").write_text(folded, encoding="utf-8")
        picture = samples.draw(found, f"{title}, {role}")
        (folder / f"{role}.svg").write_text(picture, encoding="utf-8")
        return {
            "samples": found.total(),
            "layers": samples.shares(found),
            "components": {
                name: components[name] / components.total()
                for name in native.COMPONENTS
                if components[name]
            },
            "system": sum(part.system for part in parts) / len(parts),
            "io_thread": samples.io_thread(found),
            "functions": samples.functions(found, TOP),
        }

    @property
    def faults(self) -> list[str]:
        """Return a text for each entry that lost messages or received some twice."""
        return faults(
            (scenario["title"], entry["label"], [entry["plain"], entry["sampled"]])
            for scenario in self.document["scenarios"]
            for entry in scenario["entries"]
            if "trouble" not in entry
        )

    def results(self) -> list[dict[str, Any]]:
        """Return all entries so far."""
        return [entry for scenario in self.document["scenarios"] for entry in scenario["entries"]]


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text).strip("-")
