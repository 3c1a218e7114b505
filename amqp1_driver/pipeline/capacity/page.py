# SPDX-License-Identifier: Apache-2.0

"""Tables and the page of a sweep, and the table of a check. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from amqp1_driver.pipeline.capacity.costs import Costs
from amqp1_driver.pipeline.capacity.plan import Goal
from amqp1_driver.pipeline.capacity.setup import Setup
from amqp1_driver.pipeline.report import (
    Axis,
    Bars,
    Column,
    Fact,
    Facts,
    Lines,
    Mark,
    Page,
    Section,
    Series,
    Table,
    Text,
)

Row = Mapping[str, Any]
#: figures that a check shows: name, title, unit, factor from the measured to the shown unit
CHECKED = (
    ("throughput", "calls", "/s", 1.0),
    ("p50", "p50", "ms", 1e-3),
    ("p99", "p99", "ms", 1e-3),
)


def answer_table(answers: Sequence[Row], goal: Goal) -> Table:
    """Return the table of the agents that each size of the mesh carries."""
    columns = [
        Column("routers"),
        Column("servers"),
        Column("agents carried"),
        Column("calls", "/s", 0),
        Column("p50", "ms", 2),
        Column("p99", "ms", 2),
        Column("router used", "%", 0),
        Column("server used", "%", 0),
        Column("not carried"),
        Column("limit"),
    ]
    rows = [
        [
            row["routers"],
            row["servers"],
            row["carries"],
            row["calls_per_s"],
            _ms(row["p50"]),
            _ms(row["p99"]),
            row["router_used"],
            row["server_used"],
            row["first_not"],
            row["limit"],
        ]
        for row in answers
    ]
    return Table(f"Agents that a mesh carries at a p99 of {goal.p99_ms:g} ms", columns, rows)


def run_table(rows: Sequence[Row]) -> Table:
    """Return the table of all simulations."""
    columns = [
        Column("routers"),
        Column("agents"),
        Column("offered", "/s", 0),
        Column("answered", "/s", 0),
        Column("p50", "ms", 2),
        Column("p99", "ms", 2),
        Column("lowest", "ms", 2),
        Column("highest", "ms", 2),
        Column("timed out", "%", 2),
        Column("router used", "%", 0),
        Column("server used", "%", 0),
        Column("waits for credit", "/call", 2),
        Column("carried"),
    ]
    values = [
        [
            row["routers"],
            row["agents"],
            row["offered"],
            row["throughput"],
            _ms(row["p50"]),
            _ms(row["p99"]),
            _ms(row["p99_low"]),
            _ms(row["p99_high"]),
            row["timeout_share"],
            row["router_used"],
            row["server_used"],
            row["server_stalls"],
            row["carried"],
        ]
        for row in rows
    ]
    return Table(
        "Simulations",
        columns,
        values,
        caption="p99: median of the seeds, and the lowest and the highest of them.",
    )


def check_table(errors: Sequence[Row], title: str) -> Table:
    """Return the table that compares predicted with measured figures."""
    columns = [Column("configuration")]
    for _, name, unit, _ in CHECKED:
        columns += [
            Column(f"{name} measured", unit),
            Column("low", unit),
            Column("high", unit),
            Column("predicted", unit),
            Column("error %", "", 1),
        ]
    columns.append(Column("others", "cores", 2))
    rows = []
    for row in errors:
        values: list[Any] = [row["title"]]
        for figure, _, _, factor in CHECKED:
            found = row[figure]
            values += [
                _digits(found[name] * factor) for name in ("measured", "low", "high", "predicted")
            ]
            values.append(found["error"])
        rows.append([*values, row["others"]])
    return Table(title, columns, rows)


def sweep_page(
    setup: Setup,
    costs: Costs,
    goal: Goal,
    answers: Sequence[Row],
    rows: Sequence[Row],
    made: datetime | None = None,
) -> Page:
    """Return the page of a sweep, with plots.

    :param rows: judged rows, see ``plan.judged``
    :param made: date of the page
    """
    origin = costs.origin
    return Page(
        "How many agents the mesh carries",
        [
            Section(
                "Answer",
                [
                    Facts(
                        [
                            Fact(
                                "agents at most",
                                max((row["carries"] for row in answers), default=0),
                            ),
                            Fact(
                                "routers for it",
                                next(
                                    (
                                        row["routers"]
                                        for row in answers
                                        if row["carries"]
                                        == max(each["carries"] for each in answers)
                                    ),
                                    None,
                                ),
                            ),
                            Fact("p99 of a call", goal.p99_ms, "ms", "at most"),
                            Fact("a call of each agent every", setup.interval_s, "s"),
                        ]
                    ),
                    answer_table(answers, goal),
                    _carried(answers, goal),
                ],
            ),
            Section("Latency over agents", [_latency(rows, goal), _use(rows)]),
            Section("All simulations", [run_table(rows)]),
            Section(
                "What was simulated",
                [
                    Table(
                        "Setup",
                        [Column("name"), Column("value")],
                        [
                            [name, str(value)]
                            for name, value in setup.row().items()
                            if name
                            not in ("routers", "servers", "agents", "seed", "threads", "clients")
                        ],
                    ),
                    Table(
                        "Costs, microseconds",
                        [Column("part"), Column("a call"), Column("a beginning"), Column("a KiB")],
                        [
                            [name, part.call, part.wake, part.kib]
                            for name, part in (
                                ("client", costs.client),
                                ("router", costs.router),
                                ("server", costs.server),
                            )
                        ],
                    ),
                    Text(
                        f"Costs measured {origin.get('when', '')} on "
                        f"{origin.get('processor', '')}, {origin.get('bus', '')}, commit "
                        f"{origin.get('commit', '')}. The model knows nothing of failures, of "
                        "reconnects, of memory, and of anything but these calls that a bus or a "
                        "server does."
                    ),
                ],
            ),
        ],
        subtitle=f"{setup.topology} mesh, {setup.router_threads} threads a router",
        made=made,
    )


def _carried(answers: Sequence[Row], goal: Goal) -> Bars:
    return Bars(
        "Agents carried",
        [str(row["routers"]) for row in answers],
        {"agents": [float(row["carries"]) for row in answers]},
        Axis("agents"),
        Axis("routers"),
        marks=[Mark("asked for", float(goal.agents))],
    )


def _series(rows: Sequence[Row], figure: str, by: float) -> list[Series]:
    found = []
    for routers in sorted({row["routers"] for row in rows}):
        mine = sorted(
            (row for row in rows if row["routers"] == routers), key=lambda row: int(row["agents"])
        )
        name = f"{routers} router{'s' if routers != 1 else ''}"
        found.append(
            Series(name, [float(row["agents"]) for row in mine], [row[figure] * by for row in mine])
        )
    return found


def _latency(rows: Sequence[Row], goal: Goal) -> Lines:
    return Lines(
        "99th percentile of a call",
        _series(rows, "p99", 1e-3),
        Axis("agents"),
        Axis("p99", "ms", log=True),
        marks=[Mark("goal", goal.p99_ms)],
    )


def _use(rows: Sequence[Row]) -> Lines:
    return Lines(
        "Use of the routers' threads",
        _series(rows, "router_used", 100.0),
        Axis("agents"),
        Axis("used", "per cent"),
    )


def _ms(value: float | None) -> float | None:
    return None if value is None else value / 1e3


def _digits(value: float) -> float:
    return float(f"{value:.4g}")
