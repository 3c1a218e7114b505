# SPDX-License-Identifier: Apache-2.0

"""All runs of a benchmark, the document with their results, and tables of them. Main thread."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO, TypeVar

from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.figures import Run, ratios, summary
from amqp1_driver.bench.plan import Entry, Scenario, interleave
from amqp1_driver.bench.run import Limits, Place, measure
from amqp1_driver.bench.table import GAP, errors, heading, number, spread, table, widths

#: version of the document's format; a change with which older programs would misread a document
#: increases the version
SCHEMA = 1
#: expected seconds of a run beyond its sending: processes start, messages drain
OVERHEAD = 4.0
#: units of the progress bar for each run
_UNITS = 100

T = TypeVar("T")
Measure = Callable[..., Run]
Runs = dict[str, list[Run]]


class Progress:
    """A progress bar, if tqdm is installed and ``out`` is a terminal; else no bar. Main thread.

    :param runs: number of runs
    :param seconds: expected duration of a run
    :param out: stream to which the bar goes; None: standard error
    """

    def __init__(self, runs: int, seconds: float, out: TextIO | None = None) -> None:
        self._seconds = max(0.1, seconds)
        self._done = 0
        self._since = 0.0
        self._bar: Any = None
        out = sys.stderr if out is None else out
        if out.isatty():
            with contextlib.suppress(ImportError):
                from tqdm import tqdm

                form = "{percentage:3.0f}% |{bar}| {elapsed}, about {remaining} left  {desc}"
                self._bar = tqdm(total=runs * _UNITS, file=out, bar_format=form, leave=False)

    def begin(self, what: str) -> None:
        """Begin a run, and show ``what`` beside the bar."""
        self._since = time.monotonic()
        if self._bar is not None:
            self._bar.set_description_str(what)

    def tick(self) -> None:
        """Move the bar by the time since the run began."""
        share = min(0.99, (time.monotonic() - self._since) / self._seconds)
        self._show(self._done + int(share * _UNITS))

    def end(self) -> None:
        """End the run, and move the bar to its end."""
        self._done += _UNITS
        self._show(self._done)

    def write(self, text: str) -> None:
        """Print lines to standard output, above the bar."""
        if self._bar is None:
            print(text, flush=True)
        else:
            self._bar.write(text, file=sys.stdout)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

    def _show(self, units: int) -> None:
        if self._bar is not None:
            self._bar.n = units
            self._bar.refresh()


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
        try:
            return self.timed(title, measured)
        except Trouble as error:
            self.progress.end()
            return {"trouble": str(error)}

    def timed(self, title: str, measured: Callable[[], T]) -> T:
        """Perform a run, which the progress bar shows.

        :raises Trouble: the run failed
        """
        self.progress.begin(title)
        result = measured()
        self.progress.end()
        return result

    def results(self) -> list[Run]:
        """Return all runs so far."""
        return [
            run
            for scenario in self.document["scenarios"]
            for entry in scenario["entries"]
            for run in entry["runs"]
        ]

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


class Comparison(Runner):
    """A benchmark in which the drivers run in turn. Main thread.

    :param plan: the scenarios, each a dataclass with a title
    :param rounds: number of runs of each driver in each scenario
    :param seconds: expected duration of a run
    """

    #: ``name`` returns a scenario's name for the progress bar; ``lines`` returns the lines about a
    #: scenario's results
    name: Callable[[Any], str] = staticmethod(operator.attrgetter("title"))
    lines: Callable[[dict[str, Any]], Iterable[str]]

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
            for count, entry in interleave(self._entries, self._rounds):
                title = f"{self.name(scenario)}: {entry.label}, round {count}/{self._rounds}"
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


# -- amqp1 bench ------------------------------------------------------------------------

#: groups of columns, which have medians over the rounds, and sums for counts. A column has a title,
#: the path of its figure, a factor, and the name of the spread (lowest and highest round) that the
#: table prints with it; empty: none
_GROUPS: dict[str, tuple[tuple[str, str, float, str], ...]] = {
    "messages": (
        ("sent/s", "sent_per_s", 1.0, ""),
        ("recv/s", "received_per_s", 1.0, "recv/s"),
        ("lost", "lost", 1.0, ""),
        ("dup", "duplicated", 1.0, ""),
        ("err", "failed", 1.0, ""),
    ),
    "latency ms": (
        ("p50", "latency_us.p50", 1e-3, ""),
        ("p90", "latency_us.p90", 1e-3, ""),
        ("p99", "latency_us.p99", 1e-3, ""),
        ("max", "latency_us.max", 1e-3, ""),
        ("p99/p50", "latency_us.p99/p50", 1.0, ""),
    ),
    "CPU us/message": (
        ("client", "cpu_us.client", 1.0, ""),
        ("server", "cpu_us.server", 1.0, ""),
        ("cl+srv", "cpu_us.client+server", 1.0, "CPU client+server"),
        ("bus", "cpu_us.bus", 1.0, ""),
    ),
    "switches/message": (
        ("client", "switches.client", 1.0, ""),
        ("server", "switches.server", 1.0, ""),
        ("bus", "switches.bus", 1.0, ""),
    ),
    "peak MiB": (
        ("client", "peak_mib.client", 1.0, ""),
        ("server", "peak_mib.server", 1.0, ""),
        ("bus", "peak_mib.bus", 1.0, ""),
    ),
}
_COLUMNS = tuple(column for columns in _GROUPS.values() for column in columns)


def _group_line(wide: Sequence[int]) -> str:
    """Return the line with the names of the groups, each between dashes over its columns."""
    parts, at = [" " * wide[0]], 1
    for title, columns in _GROUPS.items():
        width = sum(wide[at : at + len(columns)]) + GAP * (len(columns) - 1)
        parts.append(f" {title} ".center(width, "-"))
        at += len(columns)
    return (" " * GAP).join(parts)


def scenario_lines(scenario: dict[str, Any]) -> list[str]:
    """Return all lines about one scenario: table, ratios and remarks."""
    rounds = max(len(entry["runs"]) for entry in scenario["entries"])
    lines = [heading(scenario)]
    rows = [["", *(title for title, *_ in _COLUMNS)]]
    for entry in scenario["entries"]:
        if entry["median"] is not None:
            rows.append(
                [
                    entry["label"],
                    *(_cell(entry["median"], rounds, *column[1:]) for column in _COLUMNS),
                ]
            )
    if len(rows) > 1:
        lines += [_group_line(widths(rows)), *table(rows)]
    lines += _ratio_lines(scenario["entries"])
    for entry in scenario["entries"]:
        lines += _remarks(entry)
    return lines


def _cell(median: dict[str, Any], rounds: int, path: str, by: float, spread: str) -> str:
    text = number(_scaled(median, path, by))
    ends = median["spread"].get(spread)
    if rounds == 1 or ends is None:
        return text
    return f"{text} ({number(ends['low'])}..{number(ends['high'])})"


def _scaled(median: dict[str, Any], path: str, by: float) -> float | None:
    found: Any = median
    for name in path.split("."):
        found = found[name]
    value: float | None = found
    return value if value is None or by == 1.0 else value * by


def _ratio_lines(entries: Sequence[dict[str, Any]]) -> list[str]:
    compared = [entry for entry in entries[1:] if entry["ratio"]]
    if not compared:
        return []
    rows = [[f"ratio to {entries[0]['label']}", *compared[0]["ratio"]]]
    for entry in compared:
        rows.append([entry["label"], *map(spread, entry["ratio"].values())])
    return ["", *table(rows)]


def _remarks(entry: dict[str, Any]) -> list[str]:
    lines = []
    for index, run in enumerate(entry["runs"], 1):
        if run.get("trouble"):
            lines.append(f"{entry['label']}, round {index}: {run['trouble']}")
    median = entry["median"]
    if median is not None:
        lines += errors(entry["label"], median["errors"])
        if median["in_doubt"]:
            lines.append(
                f"{entry['label']}: {median['in_doubt']} messages were received though "
                "their sending failed"
            )
    return lines


def faults(found: Iterable[tuple[str, str, Sequence[Run]]]) -> list[str]:
    """Describe lost and duplicated messages.

    :param found: for each driver in each scenario title, label and runs
    """
    result = []
    for title, label, runs in found:
        parts = [
            f"{count} messages {words}"
            for words, count in (
                ("lost", sum(run["lost"] for run in runs)),
                ("received more than once", sum(run["duplicated"] for run in runs)),
            )
            if count
        ]
        if parts:
            result.append(f"{label} ({title}): {' and '.join(parts)}")
    return result


class Session(Comparison):
    """A benchmark of operations; the first driver is compared with the others. Main thread.

    :param bus: name of the bus that the benchmark has started, for the document; None: it has
        started no bus
    :param measured: function that performs a run, with the first five parameters of ``measure``
    """

    lines = staticmethod(scenario_lines)

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
        return faults(
            (scenario["title"], entry["label"], good(entry["runs"]))
            for scenario in self.document["scenarios"]
            for entry in scenario["entries"]
        )

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
