# SPDX-License-Identifier: Apache-2.0

"""Tables of growth: a row for each n, with the power of n by which columns have grown. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from amqp1_driver.bench.plot import Chart, Panel, draw_charts
from amqp1_driver.bench.scale.figures import exponent
from amqp1_driver.bench.table import errors, number, table


class Column(NamedTuple):
    """One column.

    :param key: key of the value in a row; a row may lack it
    :param by: factor for the value
    :param each: show the value divided by n; the exponent remains that of the total
    :param grows: show the exponent of growth in the next column
    """

    title: str
    key: str
    by: float = 1.0
    each: bool = False
    grows: bool = False


def _total(title: str, key: str, by: float = 1.0) -> Column:
    return Column(title, key, by, grows=True)


def _each(title: str, key: str, by: float = 1.0) -> Column:
    return Column(title, key, by, each=True, grows=True)


_LOST = Column("lost", "lost")
_VERDICT = {True: "it grows", False: "no growth"}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "targets": (
        _total("first s", "first_s"),
        Column("us each", "first_s", 1e6, each=True),
        Column("p50 ms", "first_p50_ms"),
        Column("p99", "first_p99_ms"),
        _total("then s", "then_s"),
        Column("us each", "then_s", 1e6, each=True),
        Column("p50 ms", "then_p50_ms"),
        Column("p99", "then_p99_ms"),
        _each("KiB each client", "client_kib"),
        _each("bus", "bus_kib"),
        Column("taken", "fewest"),
        Column("to", "most"),
        _LOST,
    ),
    "listeners": (
        _total("listen s", "listen_s"),
        Column("ms each", "listen_s", 1e3, each=True),
        Column("slowest", "slowest_ms"),
        _total("calls s", "then_s"),
        Column("p50 ms", "then_p50_ms"),
        Column("p99", "then_p99_ms"),
        Column("Jain", "fairness"),
        _each("KiB each server", "server_kib"),
        _each("bus", "bus_kib"),
        _total("again s", "again_s"),
        _total("stop s", "stop_s"),
        Column("wait", "wait_s"),
        Column("taken", "fewest"),
        Column("to", "most"),
        _LOST,
    ),
    "outstanding": (
        _total("gather s", "gather_s"),
        Column("us each", "gather_s", 1e6, each=True),
        _total("answer s", "answer_s"),
        Column("us each", "answer_s", 1e6, each=True),
        Column("p50 ms", "answer_p50_ms"),
        Column("p99", "answer_p99_ms"),
        Column("Jain", "fairness"),
        _total("threads alone s", "wake_s"),
        _total("driver's CPU s", "driver_s"),
        Column("us each", "driver_s", 1e6, each=True),
        _each("KiB each client", "client_kib"),
        Column("of it thread", "thread_kib", each=True),
        _each("bus", "bus_kib"),
        _LOST,
    ),
    "reconnect": (
        Column("processes", "processes"),
        Column("bus away s", "away_s"),
        Column("first s", "first_s"),
        Column("median", "median_s"),
        _total("last", "last_s"),
        Column("attempts each", "attempts"),
        Column("most in 1 s", "peak_attempts"),
        _total("CPU s clients", "clients_cpu_s"),
        Column("ms each", "clients_cpu_s", 1e3, each=True),
        _total("bus", "bus_cpu_s"),
        Column("ms each", "bus_cpu_s", 1e3, each=True),
        _each("KiB each client", "client_kib"),
        _each("bus", "bus_kib"),
        _LOST,
    ),
    "memory": (
        _each("KiB a link, client", "link_kib"),
        Column("B of Python", "link_heap", each=True),
        _each("bus", "bus_link_kib"),
        _LOST,
    ),
}


def lines(name: str, title: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of one scenario, followed by remarks."""
    good = [row for row in rows if "trouble" not in row]
    result = [title]
    if good:
        result += table([_head(name), *(_cells(name, good, index) for index in range(len(good)))])
    for row in rows:
        result += _remarks(row)
    return result


def _head(name: str) -> list[str]:
    cells = ["n"]
    for column in COLUMNS[name]:
        cells += [column.title, "^n"] if column.grows else [column.title]
    return cells


def _cells(name: str, rows: Sequence[dict[str, Any]], index: int) -> list[str]:
    row = rows[index]
    cells = [str(row["n"])]
    for column in COLUMNS[name]:
        cells.append(number(_value(column, row)))
        if column.grows:
            cells.append(_growth(rows, index, column.key))
    return cells


def _value(column: Column, row: dict[str, Any]) -> float | None:
    value: float | None = row.get(column.key)
    if value is None:
        return None
    value = value * column.by if column.by != 1.0 else value
    return value / row["n"] if column.each else value


def draw(document: dict[str, Any], path: str) -> None:
    """Draw over n the columns whose growth the tables show; see ``plot.draw``."""
    charts = []
    for scenario in document["scenarios"]:
        panels = [
            Panel(
                f"{column.key}{' / n' if column.each else ''}",
                "",
                [functools.partial(_value, column)],
                "log",
            )
            for column in COLUMNS[scenario["name"]]
            if column.grows
        ]
        rows = scenario["rows"]
        drivers = [(document["settings"]["entry"], [[row] for row in rows])]
        charts.append(Chart(scenario["title"], panels, "n", [row["n"] for row in rows], drivers))
    draw_charts(charts, document["when"][:10], path)


def _growth(rows: Sequence[dict[str, Any]], index: int, key: str) -> str:
    if not index:
        return ""
    before, after = rows[index - 1], rows[index]
    power = exponent((before["n"], before.get(key)), (after["n"], after.get(key)))
    return "-" if power is None else f"{power:.2f}"


def _remarks(row: dict[str, Any]) -> list[str]:
    n = f"n = {row['n']}"
    if "trouble" in row:
        return [f"{n}: {row['trouble']}"]
    found: list[str] = []
    for key, words in (("errors", ""), ("retried", ", and the client called again")):
        found += errors(n, row.get(key, {}), words)
    for kind, words in (("resident", "resident memory of the"), ("heap", "memory of Python's")):
        for who, trend in row.get(kind, {}).items():
            found.append(
                f"{n}: {words} {who}: {trend['slope']:+.3f} B for each call, "
                f"tau {trend['tau']:+.2f}: {_VERDICT[trend['grows']]}"
            )
    return found
