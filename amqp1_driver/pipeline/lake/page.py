# SPDX-License-Identifier: Apache-2.0

"""The report of a lake: its gold tables as tables and plots. Pure, for any thread."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from amqp1_driver.pipeline.lake.figures import MOST_ROWS, Figures
from amqp1_driver.pipeline.report import (
    Axis,
    Bars,
    Column,
    Fact,
    Facts,
    Page,
    Section,
    Table,
)

#: tenants with a colour of their own; the plot adds up the others
_MOST_TENANTS = 5
_STATUSES = ("matched", "missing", "unexpected", "contradictory")
_NEWEST = f"The newest {MOST_ROWS} at most."


def tables(f: Figures) -> list[Table]:
    """Return the tables of the report that the demo also prints."""
    return [_usage(f), _operations(f), _errors(f), _disagreements(f), _malformed(f)]


def page(f: Figures, made: datetime.datetime | None = None) -> Page:
    """Return the page of the whole report.

    :param made: time of the report, UTC; None: the page shows none
    """
    return Page(
        title="Notifications",
        subtitle="What the cloud's services told: usage, operations, errors and the audit",
        sections=[
            Section("At a glance", [_facts(f)]),
            Section(
                "Usage",
                [_vcpus(f), _usage(f)],
                "From the observed life cycles; what still runs is counted to the end of the "
                "window. A shelved instance counts until it is offloaded.",
            ),
            Section(
                "Operations",
                [_times(f), _outcomes(f), _operations(f), _unmatched(f)],
                "An operation is a start with its end or error. Unmatched is a start without "
                "either, orphaned an end without a start.",
            ),
            Section("Errors", [_error_bars(f), _errors(f)]),
            Section(
                "Audit",
                [_audit(f), _disagreements(f)],
                "The exists notifications of each period against what was observed in it.",
            ),
            Section(
                "Malformed messages",
                [_malformed(f)],
                "Kept with their bytes in the table malformed.",
            ),
        ],
        made=made,
    )


def _facts(f: Figures) -> Facts:
    total = sum(row[1] for row in f.services)
    kinds = ", ".join(f"{kind} {count:,}" for kind, count, _ in f.services)
    audited = sum(count for _, _, count in f.audit)
    matched = sum(count for _, status, count in f.audit if status == "matched")
    unmatched = sum(row[3] for row in f.operations)
    return Facts(
        [
            Fact("notifications", total, note=kinds),
            Fact("of these errors", sum(row[2] for row in f.services)),
            Fact("operations that ended", sum(row[1] for row in f.operations)),
            Fact("starts without an end", unmatched),
            Fact("vCPU hours", round(sum(row[2] for row in f.usage), 1)),
            Fact(
                "audit agrees",
                matched / audited if audited else None,
                "%",
                note=f"{matched} of {audited}",
            ),
            Fact("malformed", sum(count for _, count in f.malformed)),
        ]
    )


def _days(values: Iterable[datetime.date]) -> list[datetime.date]:
    return sorted(set(values))


def _vcpus(f: Figures) -> Bars:
    days = _days(day for day, _, _ in f.vcpus)
    largest = [row[0] for row in f.usage[:_MOST_TENANTS]]
    groups = {name: [0.0] * len(days) for name in largest}
    if len(f.usage) > _MOST_TENANTS:
        groups["others"] = [0.0] * len(days)
    for day, tenant, hours in f.vcpus:
        groups[tenant if tenant in groups else "others"][days.index(day)] += hours
    return Bars(
        "vCPU hours by day and tenant",
        [str(day) for day in days],
        groups,
        y=Axis("vCPU", "h"),
        stacked=True,
    )


def _usage(f: Figures) -> Table:
    columns = [
        Column("tenant"),
        Column("instances", "h", 1),
        Column("vCPU", "h", 1),
        Column("RAM", "GiB h", 1),
        Column("disk", "GB h", 1),
        Column("volumes", "GB h", 1),
        Column("ports", "h", 1),
    ]
    return Table("Usage by tenant", columns, f.usage)


def _times(f: Figures) -> Bars:
    rows = [row for row in f.operations if row[1]]
    return Bars(
        "How long operations took",
        [row[0] for row in rows],
        {"median": [row[5] for row in rows], "p99": [row[6] for row in rows]},
        y=Axis("duration", "s"),
        across=True,
    )


def _outcomes(f: Figures) -> Bars:
    rows = [row for row in f.operations if row[2] or row[3] or row[4]]
    names = ("failed", "unmatched", "orphaned")
    return Bars(
        "Operations that did not end well",
        [row[0] for row in rows],
        {name: [row[at] for row in rows] for at, name in enumerate(names, 2)},
        y=Axis("operations"),
        stacked=True,
        across=True,
    )


def _operations(f: Figures) -> Table:
    columns = [
        Column("event"),
        Column("ended"),
        Column("failed"),
        Column("unmatched"),
        Column("orphaned"),
        Column("median", "s", 2),
        Column("p99", "s", 2),
        Column("longest", "s", 2),
    ]
    return Table("Operations by event", columns, f.operations)


def _unmatched(f: Figures) -> Table:
    columns = [Column(name) for name in ("day", "event", "started", "resource", "tenant", "host")]
    rows = [(str(row[0]), *row[1:]) for row in f.unmatched]
    return Table("Starts without an end", columns, rows, caption=_NEWEST)


def _error_bars(f: Figures) -> Bars:
    hosts: dict[str, int] = {}
    for row in f.errors:
        hosts[row[0]] = hosts.get(row[0], 0) + row[3]
    return Bars(
        "Errors by host",
        list(hosts),
        {"errors": list(hosts.values())},
        y=Axis("errors"),
        across=True,
        caption="Of the hosts and events in the table.",
    )


def _errors(f: Figures) -> Table:
    columns = [
        Column("host"),
        Column("event"),
        Column("results"),
        Column("errors"),
        Column("rate", "%", 1),
        Column("last error"),
    ]
    return Table(
        "Error rate by host and event",
        columns,
        f.errors,
        caption=f"The {MOST_ROWS} with most errors, at most.",
    )


def _audit(f: Figures) -> Bars:
    days = _days(day for day, _, _ in f.audit)
    groups = {status: [0.0] * len(days) for status in _STATUSES}
    for day, status, count in f.audit:
        groups[status][days.index(day)] = float(count)
    return Bars(
        "Audit by day", [str(day) for day in days], groups, y=Axis("resources"), stacked=True
    )


def _disagreements(f: Figures) -> Table:
    columns = [
        Column(name) for name in ("day", "kind", "resource", "tenant", "host", "status", "reason")
    ]
    rows = [(str(row[0]), *row[1:]) for row in f.disagreements]
    return Table("Where audit and observation disagree", columns, rows, caption=_NEWEST)


def _malformed(f: Figures) -> Table:
    return Table(
        "Malformed messages by reason", [Column("reason"), Column("messages")], f.malformed
    )
