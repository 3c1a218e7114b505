# SPDX-License-Identifier: Apache-2.0

"""Text tables of a flow benchmark's results. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from amqp1_driver.bench.flow.figures import COMPARED, FIGURES
from amqp1_driver.bench.plan import size_text
from amqp1_driver.bench.plot import Chart, Panel, draw_charts
from amqp1_driver.bench.table import errors, heading, number, spread, table

_COUNTS = ("lost", "duplicated", "failed")


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
