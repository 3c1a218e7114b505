# SPDX-License-Identifier: Apache-2.0

"""The page of the report, and its summary for a terminal.  Pure; any thread."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from amqp1_driver.pipeline.report import (
    Axis,
    Bars,
    Column,
    Fact,
    Facts,
    Histogram,
    Lines,
    Page,
    Part,
    Section,
    Series,
    Table,
    Text,
    as_text,
)
from amqp1_driver.pipeline.telemetry import page_faults as faults
from amqp1_driver.pipeline.telemetry.advice import Advice
from amqp1_driver.pipeline.telemetry.credit import Need
from amqp1_driver.pipeline.telemetry.page_faults import BARS, ms
from amqp1_driver.pipeline.telemetry.tables import Row, Rows, Tables

_ACCURACY = (
    "Percentiles are exact below 10,000 values; above, their rank is off by at most 0.01 "
    "% of the number of values. Only messages that got there are in them."
)
#: classes of the histogram for each power of ten
_CLASSES = 5
_MEASURES = {
    "total": "Total time, as the caller saw it",
    "wait": "Waiting for connection, link and credit",
    "ack": "From going out to the outcome",
    "reply": "From going out to the reply",
}


def page(
    tables: Tables, advice: Sequence[Advice], needs: Sequence[Need], sources: Sequence[str]
) -> Page:
    """Build the page: an overview with warnings first, then settings, then all other sections.

    :param sources: names of the inputs, for the subtitle
    """
    return Page(
        "Telemetry of the AMQP 1.0 driver",
        [
            _overview(tables),
            _settings(advice, needs),
            _latency(tables),
            _traffic(tables),
            faults.stalls(tables),
            faults.errors(tables),
            faults.connections(tables),
            faults.records(tables),
        ],
        subtitle="From " + ", ".join(sources),
    )


def advice_table(advice: Sequence[Advice]) -> Table:
    """Build the table of recommendations."""
    columns = [
        Column("option"),
        Column("current"),
        Column("known by"),
        Column("enough"),
        Column("recommended"),
        Column("unit"),
        Column("verdict"),
        Column("sure"),
        Column("samples"),
        Column("why"),
    ]
    return Table(
        "Recommended settings",
        columns,
        [
            [
                a.option,
                a.current,
                a.source,
                a.enough,
                a.recommended,
                a.unit,
                a.verdict,
                a.sure,
                a.samples,
                a.why,
            ]
            for a in advice
        ],
        caption="Options of the group oslo_messaging_amqp, where no other is named.",
    )


def latency_table(rows: Rows) -> Table:
    """Build the table of total times by operation.

    :param rows: rows of ``telemetry_latency.latency`` by operation
    """
    totals = [row for row in rows if row["measure"] == "total"]
    return _percentiles("Total time by operation", totals, [Column("operation")], ["operation"])


def terminal(tables: Tables, advice: Sequence[Advice]) -> str:
    """Return the text for a terminal: latencies of operations, recommendations and warnings."""
    s = tables.summary
    head = (
        f"{s['records']:,} records of {s['clients']:,} clients over "
        f"{tables.seconds:,.1f} s: {s['messages']:,} messages, {s['failed']:,} failed"
    )
    settings = advice_table(advice)
    short = dataclasses.replace(
        settings, columns=settings.columns[:-1], rows=[row[:-1] for row in settings.rows]
    )
    reasons = [f"  {a.option}: {a.why}" for a in advice if a.recommended != a.current]
    return "\n\n".join(
        [
            head,
            as_text(latency_table(tables["latency_all"])),
            as_text(short),
            *(["\n".join(["Why", *reasons])] if reasons else []),
            *_troubles(tables),
        ]
    )


def _overview(tables: Tables) -> Section:
    s = tables.summary
    share = s["failed"] / s["messages"] if s["messages"] else None
    parts: list[Part] = [
        Facts(
            [
                Fact("records", s["records"], "", f"{s['clients']:,} clients"),
                Fact("messages", s["messages"], "", "requests, notifications, replies, heartbeats"),
                Fact("failed", share, "%", f"{s['failed']:,} messages"),
                Fact("from", s["first"], "UTC"),
                Fact("over", tables.seconds, "s"),
                Fact("bodies", round(s["bytes"] / 2**20, 1), "MiB"),
                Fact("stalls", s["stalls"]),
                Fact("connections lost", tables["losses"][0]["lost"]),
            ]
        )
    ]
    parts += [Text(text, warning=True) for text in _troubles(tables)]
    parts.append(latency_table(tables["latency_all"]))
    return Section("Overview", parts)


def _troubles(tables: Tables) -> list[str]:
    found = []
    if tables.summary["corrupt"]:
        found.append(
            f"Lines that are no records, and are left out: {tables.summary['corrupt']:,}. The end "
            "of the page tells what they are."
        )
    if tables.summary["dropped"]:
        found.append(
            f"The driver dropped {tables.summary['dropped']:,} records that it could not "
            "write in time: counts and rates are too low, and what was dropped is likely "
            "from the busiest moments."
        )
    if tables["unknown"]:
        names = ", ".join(row["name"] for row in tables["unknown"])
        found.append(f"Columns that are not known are left out: {names}.")
    return found


def _settings(advice: Sequence[Advice], needs: Sequence[Need]) -> Section:
    columns = [
        Column("address"),
        Column("traffic"),
        Column("peak", "1/s"),
        Column("round trip p99", "ms"),
        Column("samples"),
        Column("readers stalled"),
        Column("limit"),
        Column("needed"),
        Column("why"),
    ]
    rows = [
        [
            n.flow.place,
            n.flow.traffic,
            n.rate,
            None if n.flow.round_trip is None else n.flow.round_trip * 1e3,
            n.flow.samples,
            n.flow.readers,
            n.flow.limit,
            n.credit,
            n.why,
        ]
        for n in needs
    ]
    return Section(
        "Settings to try",
        [
            advice_table(advice),
            Table("Credit by address", columns, rows, empty="No messages."),
        ],
        intro="Credit follows Little's law: rate x round trip messages are under way on a link "
        "that never runs dry. A subscription is filled up when less than half of its credit "
        "is left, so that half of it has to last for a round trip. Timeouts are to outlast "
        "three times the p99.9, and a change of the bus.\n\n"
        '"Enough" is what the records ask for. What is higher is kept, for records only '
        "hold what happened in their time.",
    )


def _latency(tables: Tables) -> Section:
    parts: list[Part] = [
        _histogram(tables["spread"]),
        _over_time(
            tables, "p99 of the total time over time", "p99", Axis("p99", "ms", log=True), 1e-3
        ),
    ]
    for measure, title in _MEASURES.items():
        rows = [row for row in tables["latency"] if row["measure"] == measure]
        rows.sort(key=lambda row: (-row["p99"], row["place"]))
        parts.append(
            _percentiles(
                title, rows, [Column("address"), Column("operation")], ["place", "operation"]
            )
        )
    return Section("Latency", parts, intro=_ACCURACY)


def _percentiles(title: str, rows: Rows, heads: list[Column], keys: list[str]) -> Table:
    names = ["p50", "p90", "p99", "p999", "max"]
    columns = [
        *heads,
        Column("messages"),
        *(Column(name, "ms") for name in ("p50", "p90", "p99", "p99.9", "max")),
    ]
    return Table(
        title,
        columns,
        [
            [*(row[key] for key in keys), row["count"], *(ms(row[name]) for name in names)]
            for row in rows
        ],
        empty="No values.",
    )


def _histogram(rows: Rows) -> Histogram:
    x = Axis("total time", "ms", log=True)
    if not rows:
        return Histogram("Total times", [0.0, 1.0], {}, x)
    low, high = min(row["class"] for row in rows), max(row["class"] for row in rows)
    edges = [10 ** (n / _CLASSES) / 1e3 for n in range(low, high + 2)]
    counts: dict[str, list[float]] = {}
    for row in rows:
        counts.setdefault(row["operation"], [0.0] * (high - low + 1))[row["class"] - low] += row[
            "count"
        ]
    return Histogram("Total times", edges, counts, x, Axis("messages", log=True))


def _traffic(tables: Tables) -> Section:
    hot = tables["hot"]
    columns = [
        Column("address"),
        Column("messages"),
        Column("rate", "1/s"),
        Column("most in a second"),
        Column("share", "%"),
        Column("skew"),
        Column("bodies", "KiB"),
    ]
    rows = [
        [
            row["place"],
            row["count"],
            row["rate"],
            row["peak"],
            row["share"],
            row["skew"],
            row["bytes"] / 1024,
        ]
        for row in hot
    ]
    return Section(
        "Throughput",
        [
            _over_time(tables, "Messages over time", "rate", Axis("rate", "1/s"), 1.0),
            _hot(hot[:BARS]),
            Table(
                "Hot addresses",
                columns,
                rows,
                empty="No messages.",
                caption="Skew: times the mean of all addresses.",
            ),
        ],
    )


def _hot(rows: Rows) -> Bars:
    return Bars(
        "Hot addresses",
        [row["place"] for row in rows],
        {"share": [row["share"] for row in rows]},
        Axis("share of all messages", "%"),
        across=True,
    )


def _over_time(tables: Tables, title: str, name: str, y: Axis, factor: float) -> Lines:
    lines: dict[str, list[Row]] = {}
    for row in tables["over_time"]:
        lines.setdefault(row["operation"], []).append(row)
    series = [
        Series(
            operation,
            [row["moment"] for row in rows],
            [None if row[name] is None else row[name] * factor for row in rows],
        )
        for operation, rows in lines.items()
    ]
    return Lines(title, series, Axis("time (UTC)"), y, caption=f"In steps of {tables.width} s.")
