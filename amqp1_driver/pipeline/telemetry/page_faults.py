# SPDX-License-Identifier: Apache-2.0

"""The sections of the report's page about stalls, errors, lost connections and unusable records.

Pure; any thread.
"""

from __future__ import annotations

from typing import Any

from amqp1_driver.pipeline.report import (
    Axis,
    Bars,
    Column,
    Fact,
    Facts,
    Lines,
    Part,
    Section,
    Series,
    Table,
)
from amqp1_driver.pipeline.telemetry.tables import Row, Tables

#: most bars in a plot with one bar for each address
BARS = 15


def stalls(tables: Tables) -> Section:
    """Build the section about stalls: how often and for how long there was no credit."""
    columns = [
        Column("address"),
        Column("of"),
        Column("clients"),
        Column("limit"),
        Column("stalls"),
        Column("open"),
        Column("total", "s"),
        Column("longest", "ms"),
        Column("median", "ms"),
        Column("share of time", "%"),
    ]
    rows = [
        [
            row["place"],
            row["side"],
            row["clients"],
            row["limit"],
            row["stalls"],
            row["open"],
            row["total"] / 1e6,
            ms(row["longest"]),
            ms(row["p50"]),
            row["share"],
        ]
        for row in tables["stalls"]
    ]
    first = tables["stalls"][:BARS]
    parts: list[Part] = []
    if first:
        names = [f"{row['place']} ({row['side']})" for row in first]
        parts.append(
            Bars(
                "Time stalled",
                names,
                {"total": [row["total"] / 1e6 for row in first]},
                Axis("total", "s"),
                across=True,
            )
        )
    parts.append(Table("Stalls by address", columns, rows, empty="No stalls."))
    return Section(
        "Stalls",
        parts,
        intro=(
            "A subscription is stalled while its credit is used up and nothing is settled; a "
            "sender while messages wait for the peer's credit. Open ones have no end in the "
            "records."
        ),
    )


def errors(tables: Tables) -> Section:
    """Build the section about failed messages, over time and by cause."""
    over = _failures_over_time(tables)
    rates = Table(
        "Failures by address",
        [
            Column("address"),
            Column("operation"),
            Column("messages"),
            Column("failed"),
            Column("share", "%"),
        ],
        [
            [row["place"], row["operation"], row["count"], row["failed"], row["share"]]
            for row in tables["errors"]
        ],
        empty="No failures.",
    )
    causes = Table(
        "Failures by cause",
        [
            Column("operation"),
            Column("outcome"),
            Column("error"),
            Column("stage"),
            Column("failed"),
            Column("of all", "%"),
            Column("first", "UTC"),
            Column("last", "UTC"),
        ],
        [
            [
                row["operation"],
                row["outcome"],
                row["error"],
                row["stage"],
                row["failed"],
                row["share"],
                row["first"],
                row["last"],
            ]
            for row in tables["causes"]
        ],
        empty="No failures.",
    )
    late = Table(
        "Timeouts, and what they waited for",
        [
            Column("operation"),
            Column("stage"),
            Column("messages"),
            Column("addresses"),
            Column("median", "s"),
            Column("longest", "s"),
        ],
        [
            [
                row["operation"],
                row["stage"],
                row["count"],
                row["places"],
                seconds(row["p50"]),
                seconds(row["max"]),
            ]
            for row in tables["timeouts"]
        ],
        empty="No timeouts.",
    )
    return Section("Errors", [over, rates, causes, late])


def _failures_over_time(tables: Tables) -> Lines:
    lines: dict[str, list[Row]] = {}
    for row in tables["over_time"]:
        lines.setdefault(row["operation"], []).append(row)
    series = [
        Series(
            operation,
            [row["moment"] for row in rows],
            [row["failed"] / row["count"] for row in rows],
        )
        for operation, rows in lines.items()
        if any(row["failed"] for row in rows)
    ]
    return Lines(
        "Share of messages that failed",
        series,
        Axis("time (UTC)"),
        Axis("failed", "%"),
        caption=f"In steps of {tables.width} s; operations with failures.",
    )


def connections(tables: Tables) -> Section:
    """Build the section about lost connections and links."""
    first = tables["first"][0]
    hosts = Table(
        "Connections by host",
        [
            Column("host"),
            Column("connections"),
            Column("lost"),
            Column("not made up for"),
            Column("reply links lost"),
            Column("recovery median", "ms"),
            Column("longest", "ms"),
        ],
        [
            [
                row["host"],
                row["connections"],
                row["lost"],
                row["open"],
                row["reply_links"],
                ms(row["p50"]),
                ms(row["max"]),
            ]
            for row in tables["hosts"]
        ],
        caption="Recovery: until there is a connection, to whichever host.",
        empty="No connection changed within these records.",
    )
    outages = Table(
        "Connections lost",
        [
            Column("time", "UTC"),
            Column("client"),
            Column("host"),
            Column("error"),
            Column("attempts"),
            Column("then to"),
            Column("recovery", "ms"),
        ],
        [
            [
                row["lost"],
                row["client"],
                row["host"],
                row["error"],
                row["attempts"],
                row["next_host"],
                ms(row["recovery_us"]),
            ]
            for row in tables["outages"]
        ],
        empty="None was lost.",
    )
    links = Table(
        "Links attached again",
        [Column("address"), Column("error"), Column("times")],
        [[row["place"], row["error"], row["count"]] for row in tables["links"]],
    )
    facts = Facts(
        [
            Fact("first connections", first["count"]),
            Fact("median", ms(first["p50"]), "ms"),
            Fact("longest", ms(first["max"]), "ms"),
            Fact("had none", first["vain"]),
        ]
    )
    return Section("Connections", [facts, hosts, outages, links])


def records(tables: Tables) -> Section:
    """Build the section about records that the report does not take into account."""
    return Section(
        "Records",
        [
            Table(
                "Records dropped by the driver",
                [Column("client"), Column("dropped"), Column("kept"), Column("share", "%")],
                [
                    [row["client"], row["dropped"], row["kept"], row["share"]]
                    for row in tables["dropped"]
                ],
            ),
            Table(
                "Lines that are no records",
                [Column("reason"), Column("lines"), Column("example")],
                [[row["reason"], row["count"], row["example"]] for row in tables["corrupt"]],
            ),
            Table(
                "Columns not known",
                [Column("name"), Column("records")],
                [[row["name"], row["count"]] for row in tables["unknown"]],
            ),
        ],
    )


def ms(us: Any) -> float | None:
    """Convert microseconds to milliseconds; None stays None."""
    return None if us is None else us / 1e3


def seconds(us: Any) -> float | None:
    """Convert microseconds to seconds; None stays None."""
    return None if us is None else us / 1e6
