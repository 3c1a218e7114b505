# SPDX-License-Identifier: Apache-2.0

"""The tables of the report, which Spark computes and this process collects.

The functions run in the process that plans, on the thread that calls. They collect aggregates only,
and few rows of each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from amqp1_driver.pipeline.telemetry.advice import Advice
from amqp1_driver.pipeline.telemetry.credit import Need
from amqp1_driver.pipeline.telemetry.observed import Flow, Observed, Spread, Times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = dict[str, Any]
Rows = list[Row]
#: most rows of a table
TOP = 50
#: most addresses whose credit the report judges, and most rows of a plot
FLOWS, MOMENTS = 1_000, 5_000
#: most operations; the driver has six, but a record may name any
OPERATIONS = 100
_US = 1e6


@dataclasses.dataclass(frozen=True)
class Tables:
    """The tables by name, and the summary. Durations in tables are microseconds.

    :ivar seconds: time from the first record to the last
    :ivar width: seconds that an interval lasts, in tables over time
    :ivar tables: rows by name of the table; the parameter ``top`` of :func:`compute` bounds only
        tables that the page shows, and no table by which :func:`observed` judges
    """

    summary: Row
    seconds: float
    width: int
    tables: Mapping[str, Rows]

    def __getitem__(self, name: str) -> Rows:
        return self.tables[name]


def compute(found: DataFrame, top: int = TOP) -> Tables:
    """Compute all tables, in many jobs of Spark; block until they are done.

    Spark parses the records once and keeps them for these jobs, in memory as far as they fit, else
    on disk.

    :param found: columns of ``telemetry_records.of_lines``
    :param top: most rows of a table
    :raises ValueError: there is no record
    """
    from pyspark import StorageLevel

    from amqp1_driver.pipeline.transform import telemetry_records as base

    found = found.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        records = base.good(found)
        corrupt = _rows(base.bad(found), top)
        summary = _rows(base.summary(records), 1)[0]
        if not summary["records"]:
            raise ValueError(_nothing(corrupt))
        seconds = (summary["last"] - summary["first"]).total_seconds()
        summary |= _sums(found, records)
        tables = _tables(records, seconds, top)
        tables |= {"corrupt": corrupt, "unknown": _rows(base.unknown(found), top)}
        return Tables(summary, seconds, _width(seconds), tables)
    finally:
        found.unpersist()


def _nothing(corrupt: Rows) -> str:
    if not corrupt:
        return "there are no records: the input is empty"
    reasons = "; ".join(f"{row['count']:,} x {row['reason']}" for row in corrupt)
    return f"there is no telemetry of the driver in the input: {reasons}: {corrupt[0]['example']!r}"


def _sums(found: DataFrame, records: DataFrame) -> Row:
    """Return the sums for the summary, which count also the rows that the tables leave out.

    :returns: corrupt (rows that are not records), stalls
    """
    from amqp1_driver.pipeline.transform import telemetry_records as base
    from amqp1_driver.pipeline.transform import telemetry_stalls as stalls

    return {
        "corrupt": found.filter(f"{base.REASON} is not null").count(),
        **_rows(stalls.total(stalls.stalls(records)), 1)[0],
    }


def _width(seconds: float) -> int:
    from amqp1_driver.pipeline.transform.telemetry_traffic import width_for

    return width_for(seconds)


def _tables(records: DataFrame, seconds: float, top: int) -> dict[str, Rows]:
    from amqp1_driver.pipeline.transform import telemetry_connections as connections
    from amqp1_driver.pipeline.transform import telemetry_errors as errors
    from amqp1_driver.pipeline.transform import telemetry_latency as latency
    from amqp1_driver.pipeline.transform import telemetry_records as base
    from amqp1_driver.pipeline.transform import telemetry_settings as settings
    from amqp1_driver.pipeline.transform import telemetry_stalls as stalls
    from amqp1_driver.pipeline.transform import telemetry_traffic as traffic

    hot = _rows(traffic.hot(records, seconds), top)
    busy = [row["place"] for row in hot] + [base.REPLIES]
    known = records.filter(records["place"].isin(busy))
    spells = connections.spells(records)
    stalled = stalls.stalls(records)
    flows = _rows(settings.flows(records), FLOWS)
    of_flows = stalls.of_subscriptions(stalled, [row["place"] for row in flows])
    return {
        "hot": hot,
        "latency": _rows(latency.latency(known), top * 4 * len(latency.MEASURES)),
        "latency_all": _rows(latency.latency(records, ("operation",)), top),
        "spread": _rows(latency.spread(records), MOMENTS),
        "over_time": _rows(traffic.over_time(records, traffic.width_for(seconds)), MOMENTS),
        "stalls": _rows(stalled, top),
        "stalled": _rows(of_flows, FLOWS),
        "errors": _rows(errors.rates(records), top),
        "causes": _rows(errors.causes(records), top),
        "timeouts": _rows(errors.timeouts(records), top),
        "hosts": _rows(connections.by_host(spells), top),
        "outages": _last_rows(connections.outages(spells), top),
        "losses": _rows(connections.losses(spells), 1),
        "first": _rows(connections.first(spells), 1),
        "links": _rows(connections.links(records), top),
        "dropped": _rows(base.dropped(records), top),
        "flows": flows,
        "busiest": _rows(settings.busiest(records), 1),
        "times": _rows(settings.times(records), OPERATIONS),
        "waits": _rows(settings.waits(records), 1),
        "gaps": _rows(settings.gaps(records), 1),
    }


def _rows(frame: DataFrame, most: int) -> Rows:
    return [_plain(row) for row in frame.limit(most).collect()]


def _last_rows(frame: DataFrame, most: int) -> Rows:
    """Return the last rows of a sorted frame, in its order."""
    return [_plain(row) for row in frame.tail(most)]


def _plain(row: Any) -> Row:
    """Return the row as a dict with times in UTC.

    Spark returns times without a zone, in the zone of this machine.
    """
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value
        for name, value in row.asDict().items()
    }


def observed(tables: Tables) -> Observed:
    """Return the observations by which :mod:`.recommend` judges settings."""
    busiest, waits = tables["busiest"][0], tables["waits"][0]
    first, gaps = tables["first"][0], tables["gaps"][0]
    losses = tables["losses"][0]
    return Observed(
        seconds=tables.seconds,
        flows=_flows(tables),
        times={
            row["what"]: Times(row["count"], _s(row["p999"]), _s(row["max"]), row["late"])
            for row in tables["times"]
        },
        sends=busiest["sends"] or 0,
        calls=busiest["calls"] or 0,
        replies=busiest["replies"] or 0,
        handover=Spread(waits["handovers"], _s(waits["handover"])),
        reply_wait=Spread(waits["answers"], _s(waits["answer_wait"])),
        call_round_trip=_call_round_trip(waits),
        recovered=losses["recovered"],
        recovery=_s(losses["longest"]),
        first_connections=first["once"],
        connecting=_s(first["longest_once"]),
        gaps=Spread(gaps["count"], gaps["p99"]),
    )


def _call_round_trip(waits: Row) -> Spread:
    """Return the time to the outcome where at least half as many calls have one as a reply.

    Else return the time to the reply.
    """
    if waits["call_acks"] * 2 >= waits["replied"]:
        return Spread(waits["call_acks"], _s(waits["call_ack"]))
    return Spread(waits["replied"], _s(waits["call_reply"]))


def _flows(tables: Tables) -> list[Flow]:
    stalled = {row["place"]: row for row in tables["stalled"]}
    found = []
    for row in tables["flows"]:
        stall = stalled.get(row["place"], {})
        found.append(
            Flow(
                place=row["place"],
                traffic=row["traffic"],
                peak=row["peak"],
                round_trip=_s(row["ack"]),
                samples=row["acks"],
                size=row["size"] or 0,
                fanout=row["fanout"],
                readers=stall.get("clients", 0),
                limit=stall.get("limit"),
                stalls=stall.get("stalls", 0),
                stall=_s(stall.get("p50")),
            )
        )
    return found


def _s(us: float | None) -> float | None:
    return None if us is None else us / _US


def document(
    tables: Tables, advice: Sequence[Advice], needs: Sequence[Need], sources: Sequence[str]
) -> dict[str, Any]:
    """Return the whole report for JSON.

    Durations are microseconds in tables, and seconds in settings and credit.
    """
    return {
        "sources": list(sources),
        "seconds": tables.seconds,
        "step_seconds": tables.width,
        "summary": tables.summary,
        "tables": dict(tables.tables),
        "settings": [dataclasses.asdict(one) for one in advice],
        "credit": [dataclasses.asdict(one) for one in needs],
    }


def as_json(value: Any) -> Any:
    """Convert a time to ISO 8601 text; ``json.dumps`` calls this as its ``default``.

    :raises TypeError: the value is not a time
    """
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is nothing for JSON")
