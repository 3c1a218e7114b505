# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""All tables of the report, computed: what comes to this process is aggregates, and few of them."""

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
#: rows of a table that are shown
TOP = 50
#: addresses whose credit is judged, and classes of time in plots
FLOWS, MOMENTS = 1_000, 5_000
_US = 1e6


@dataclasses.dataclass(frozen=True)
class Tables:
    """The tables by their names, and the summary; durations in microseconds."""

    summary: Row
    seconds: float
    width: int
    tables: Mapping[str, Rows]

    def __getitem__(self, name: str) -> Rows:
        return self.tables[name]


def compute(found: DataFrame, top: int = TOP) -> Tables:
    """Run all of it over records as they were read.

    The records are parsed once and kept by Spark, in memory as far as they fit, else on disk.

    :param found: as ``telemetry_records.of_lines`` makes it
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
    return {
        "hot": hot,
        "latency": _rows(latency.latency(known), top * 4 * len(latency.MEASURES)),
        "latency_all": _rows(latency.latency(records, ("operation",)), top),
        "spread": _rows(latency.spread(records), MOMENTS),
        "over_time": _rows(traffic.over_time(records, traffic.width_for(seconds)), MOMENTS),
        "stalls": _rows(stalls.stalls(records), top),
        "errors": _rows(errors.rates(records), top),
        "causes": _rows(errors.causes(records), top),
        "timeouts": _rows(errors.timeouts(records), top),
        "hosts": _rows(connections.by_host(spells), top),
        "outages": _rows(connections.outages(spells), top),
        "first": _rows(connections.first(spells), 1),
        "links": _rows(connections.links(records), top),
        "dropped": _rows(base.dropped(records), top),
        "flows": _rows(settings.flows(records), FLOWS),
        "busiest": _rows(settings.busiest(records), 1),
        "times": _rows(settings.times(records), top),
        "waits": _rows(settings.waits(records), 1),
        "gaps": _rows(settings.gaps(records), 1),
    }


def _rows(frame: DataFrame, most: int) -> Rows:
    return [_plain(row) for row in frame.limit(most).collect()]


def _plain(row: Any) -> Row:
    """Spark gives times without zone, in that of this machine."""
    return {name: value.astimezone(UTC) if isinstance(value, datetime) else value
            for name, value in row.asDict().items()}  # fmt: skip


def observed(tables: Tables) -> Observed:
    """What settings are judged by."""
    busiest, waits = tables["busiest"][0], tables["waits"][0]
    first, gaps = tables["first"][0], tables["gaps"][0]
    recovered = sum(row["lost"] - row["open"] for row in tables["hosts"])
    longest = [row["max"] for row in tables["hosts"] if row["max"] is not None]
    return Observed(
        seconds=tables.seconds,
        flows=_flows(tables),
        times={row["what"]: Times(row["count"], _s(row["p999"]), _s(row["max"]), row["late"])
               for row in tables["times"]},
        sends=busiest["sends"] or 0, calls=busiest["calls"] or 0, replies=busiest["replies"] or 0,
        handover=Spread(waits["handovers"], _s(waits["handover"])),
        reply_wait=Spread(waits["answers"], _s(waits["answer_wait"])),
        call_round_trip=_call_round_trip(waits),
        recovered=recovered, recovery=_s(max(longest)) if longest else None,
        first_connections=first["once"], connecting=_s(first["longest_once"]),
        gaps=Spread(gaps["count"], gaps["p99"]),
    )  # fmt: skip


def _call_round_trip(waits: Row) -> Spread:
    """By acknowledgements where half of the calls have one, else by replies."""
    if waits["call_acks"] * 2 >= waits["replied"]:
        return Spread(waits["call_acks"], _s(waits["call_ack"]))
    return Spread(waits["replied"], _s(waits["call_reply"]))


def _flows(tables: Tables) -> list[Flow]:
    stalled = {row["place"]: row for row in tables["stalls"] if row["side"] == "subscription"}
    found = []
    for row in tables["flows"]:
        stall = stalled.get(row["place"], {})
        found.append(Flow(
            place=row["place"], traffic=row["traffic"], peak=row["peak"],
            round_trip=_s(row["ack"]), samples=row["acks"], size=row["size"] or 0,
            fanout=row["fanout"], readers=stall.get("clients", 0), limit=stall.get("limit"),
            stalls=stall.get("stalls", 0), stall=_s(stall.get("p50"))))  # fmt: skip
    return found


def _s(us: float | None) -> float | None:
    return None if us is None else us / _US


def document(tables: Tables, advice: Sequence[Advice], needs: Sequence[Need],
             sources: Sequence[str]) -> dict[str, Any]:
    """All of it for JSON; durations of tables in microseconds, of settings in seconds."""
    return {
        "sources": list(sources), "seconds": tables.seconds, "step_seconds": tables.width,
        "summary": tables.summary, "tables": dict(tables.tables),
        "settings": [dataclasses.asdict(one) for one in advice],
        "credit": [dataclasses.asdict(one) for one in needs],
    }


def as_json(value: Any) -> Any:
    """Values that JSON has no words for: times become ISO 8601 in UTC."""
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is nothing for JSON")
