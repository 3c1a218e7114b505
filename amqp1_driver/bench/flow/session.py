# SPDX-License-Identifier: Apache-2.0

"""All runs of a flow benchmark, the document with their results, and its tables. Main thread."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from amqp1_driver.bench.figures import COUNTS, Figure, Run, median, ratios
from amqp1_driver.bench.flow.plan import CLASSIC, KINDS, QUORUM, Flow, filler, scheme
from amqp1_driver.bench.flow.rabbitmq import Node
from amqp1_driver.bench.flow.run import ALONE, BOTH, Backlog, measure, order
from amqp1_driver.bench.plan import Entry, size_text
from amqp1_driver.bench.plot import Chart, Panel, draw_charts
from amqp1_driver.bench.run import Limits
from amqp1_driver.bench.session import Comparison, Measure, Runs, by_round, good
from amqp1_driver.bench.table import errors, heading, number, spread, table

_PHASES = 3
#: expected seconds of a run beyond its phases: the worker starts, the run reads the queues
_OVERHEAD = 6.0
_COUNTS = ("lost", "duplicated", "failed")


def _rate(name: str, phase: str) -> Figure:
    return lambda run: run["rates"][name][phase]


def _latency(name: str, phase: str, percentile: str) -> Figure:
    return lambda run: run["latency_us"][name][phase][percentile] / 1e3


def _kept(name: str) -> Figure:
    def figure(run: Run) -> float | None:
        rates = run["rates"][name]
        return 100.0 * rates[BOTH] / rates[ALONE] if rates[ALONE] else None

    return figure


def _of(name: str) -> dict[str, Figure]:
    return {
        f"{name} alone/s": _rate(name, ALONE),
        f"{name}/s": _rate(name, BOTH),
        f"{name} kept %": _kept(name),
        f"{name} p50 ms": _latency(name, BOTH, "p50"),
        f"{name} p99 ms": _latency(name, BOTH, "p99"),
    }


#: rows of the table, by kind of scenario; "kept": the rate in phase BOTH as a percentage of the
#: rate in phase ALONE
FIGURES: dict[str, dict[str, Figure]] = {
    KINDS[0]: {
        **_of(CLASSIC),
        **_of(QUORUM),
        "total/s": lambda run: run["rates"][CLASSIC][BOTH] + run["rates"][QUORUM][BOTH],
        "CPUs": lambda run: run["busy"],
    },
    KINDS[1]: {
        "received alone/s": _rate("received", ALONE),
        "received/s": _rate("received", BOTH),
        "received kept %": _kept("received"),
        **_of(QUORUM),
        "CPUs": lambda run: run["busy"],
    },
}
#: names of the figures with ratios, by kind of scenario
COMPARED = {
    KINDS[0]: ("total/s", f"{CLASSIC}/s", f"{QUORUM}/s", f"{CLASSIC} p50 ms", f"{CLASSIC} p99 ms"),
    KINDS[1]: ("received/s", "received kept %", f"{QUORUM}/s", f"{QUORUM} p99 ms"),
}


def summary(kind: str, runs: Sequence[Run]) -> dict[str, Any] | None:
    """Return medians of all figures and sums of all counts; None without runs."""
    if not runs:
        return None
    result: dict[str, Any] = {
        name: median(map(figure, runs)) for name, figure in FIGURES[kind].items()
    }
    for name in COUNTS:
        result[name] = sum(run[name] for run in runs)
    result["connections"] = runs[-1]["connections"]
    return result


def scenario_lines(scenario: dict[str, Any]) -> list[str]:
    """Return all lines about one scenario, with a column for each driver."""
    entries = scenario["entries"]
    lines = [heading(scenario, f" of {scenario['seconds']:g} s")]
    there = [entry for entry in entries if entry["median"] is not None]
    if there:
        lines += table(_rows(scenario["kind"], there))
    if entries[-1] in there:
        lines += _ratio_lines(there)
    for entry in entries:
        lines += _remarks(entry)
    return lines


def _rows(kind: str, entries: Sequence[dict[str, Any]]) -> list[list[str]]:
    medians = [entry["median"] for entry in entries]
    rows = [["", *(entry["label"] for entry in entries)]]
    rows.append(["connections", *(connections(median["connections"]) for median in medians)])
    for name in FIGURES[kind]:
        rows.append([name, *(number(median[name]) for median in medians)])
    for name in _COUNTS:
        rows.append([name, *(str(median[name]) for median in medians)])
    return rows


def draw(document: dict[str, Any], path: str) -> None:
    """Draw the figures of ``COMPARED`` over the number of threads; see ``plot.draw``."""
    sweeps: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for scenario in document["scenarios"]:
        sweeps.setdefault((scenario["kind"], scenario["size"]), []).append(scenario)
    charts = []
    for (kind, size), scenarios in sweeps.items():
        panels = [Panel(name, "", [FIGURES[kind][name]]) for name in COMPARED[kind]]
        drivers = [
            (entry["label"], [scenario["entries"][index]["runs"] for scenario in scenarios])
            for index, entry in enumerate(scenarios[0]["entries"])
        ]
        threads = [scenario["threads"] for scenario in scenarios]
        charts.append(Chart(f"{kind}, {size_text(size)}", panels, "threads", threads, drivers))
    draw_charts(charts, f"{document['bus']}, {document['when'][:10]}", path)


def connections(protocols: Sequence[str]) -> str:
    """Describe the number of connections of each protocol; return "0" if there are none."""
    counted = Counter(protocols)
    return " + ".join(f"{count} of AMQP {name}" for name, count in counted.items()) or "0"


def _ratio_lines(entries: Sequence[dict[str, Any]]) -> list[str]:
    if len(entries) < 2:
        return []
    *others, ours = entries
    rows = [[f"{ours['label']} to", *(entry["label"] for entry in others)]]
    for name in others[0]["ratio"]:
        rows.append([name.removesuffix(" ms"), *(spread(entry["ratio"][name]) for entry in others)])
    return ["", *table(rows)]


def _remarks(entry: dict[str, Any]) -> list[str]:
    lines = []
    for index, run in enumerate(entry["runs"], 1):
        name = f"{entry['label']}, round {index}"
        if "trouble" in run:
            lines.append(f"{name}: {run['trouble']}")
            continue
        lines += errors(name, run["errors"])
        if run["in_doubt"]:
            lines.append(f"{name}: {run['in_doubt']} messages came though their sending failed")
    return lines


class Session(Comparison):
    """A flow benchmark; the last driver is compared with each of the others. Main thread.

    :param measured: function that performs a run, with the parameters of ``measure``
    """

    name = staticmethod(operator.attrgetter("kind"))
    lines = staticmethod(scenario_lines)

    def __init__(
        self,
        entries: Sequence[Entry],
        flows: Sequence[Flow],
        rounds: int,
        node: Node,
        limits: Limits,
        measured: Measure = measure,
    ) -> None:
        longest = max(flow.seconds for flow in flows)
        head = {"bus": node.name, "disk": node.disk, "limits": asdict(limits)}
        expected = _PHASES * longest + limits.warmup + _OVERHEAD
        super().__init__(entries, flows, rounds, head, expected)
        self._node, self._limits, self._measure = node, limits, measured
        self._backlogs: dict[tuple[str, int], Backlog] = {}

    def run(self, entry: Entry, scenario: Flow) -> Run:
        """Perform a run; fill the queue first if the run receives."""
        backlog = self._backlog(entry, scenario) if scenario.kind == KINDS[1] else None
        tick = self.progress.tick
        return self._measure(entry, scenario, self._node, self._limits, backlog, tick)

    def figures(self, scenario: Flow, entry: Entry, runs: Runs) -> dict[str, Any]:
        """Return a driver's runs, their median, and the ratio of the last driver to this driver."""
        theirs, last = runs[entry.label], runs[self._entries[-1].label]
        compared = {name: FIGURES[scenario.kind][name] for name in COMPARED[scenario.kind]}
        return {
            "runs": theirs,
            "median": summary(scenario.kind, good(theirs)),
            "ratio": ratios(by_round(last), by_round(theirs), compared),
        }

    def _backlog(self, entry: Entry, flow: Flow) -> Backlog:
        key = (scheme(entry), flow.size)
        backlog = self._backlogs.get(key)
        if backlog is None:
            maker = filler(entry)
            told = order(maker, flow, self._node, self._limits, Backlog.EXCHANGE)
            backlog = self._backlogs[key] = Backlog(maker, self._node, told, self._limits.deadline)
        backlog.fill(flow.waiting, self.progress.tick)
        return backlog
