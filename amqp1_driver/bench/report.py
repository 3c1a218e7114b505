# SPDX-License-Identifier: Apache-2.0

"""Text tables of a benchmark's results. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amqp1_driver.bench.table import GAP, errors, heading, number, spread, table, widths

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


def fault(title: str, label: str, runs: Sequence[dict[str, Any]]) -> str:
    """Describe the lost and duplicated messages of these runs; return "" if there are none."""
    parts = [
        f"{count} messages {words}"
        for words, count in (
            ("lost", sum(run["lost"] for run in runs)),
            ("received more than once", sum(run["duplicated"] for run in runs)),
        )
        if count
    ]
    return f"{label} ({title}): {' and '.join(parts)}" if parts else ""
