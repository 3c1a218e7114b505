# SPDX-License-Identifier: Apache-2.0

"""The report of literal tables: what stands where, and that nothing there is no reason to fail."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from amqp1_driver.pipeline.report import Facts, Plot, Table, Text, render
from amqp1_driver.pipeline.telemetry import credit, page, recommend, tables
from amqp1_driver.pipeline.telemetry.tables import Tables

EIGHT = datetime(2026, 11, 21, 8, tzinfo=UTC)
NAMES = (
    "hot",
    "latency",
    "latency_all",
    "spread",
    "over_time",
    "stalls",
    "stalled",
    "errors",
    "causes",
    "timeouts",
    "hosts",
    "outages",
    "links",
    "dropped",
    "flows",
    "times",
    "corrupt",
    "unknown",
)
NOTHING: dict[str, list[dict[str, Any]]] = {
    **{name: [] for name in NAMES},
    "first": [{"count": 0, "p50": None, "max": None, "vain": 0, "once": 0, "longest_once": None}],
    "losses": [{"lost": 0, "recovered": 0, "longest": None}],
    "busiest": [{"sends": None, "calls": None, "replies": None}],
    "waits": [
        {
            "handovers": 0,
            "handover": None,
            "answers": 0,
            "answer_wait": None,
            "call_acks": 0,
            "call_ack": None,
            "replied": 0,
            "call_reply": None,
        }
    ],
    "gaps": [{"count": 0, "p99": None, "links": 0}],
}
TIMES = {"count": 20_000, "p50": 1000, "p90": 2000, "p99": 20_000, "p999": 40_000, "max": 50_000}
SUMMARY = {
    "records": 20_010,
    "clients": 2,
    "messages": 20_000,
    "failed": 10,
    "dropped": 0,
    "first": EIGHT,
    "last": EIGHT,
    "bytes": 2**20,
    "corrupt": 0,
    "stalls": 0,
}
STALL = {
    "place": "nova",
    "side": "subscription",
    "clients": 1,
    "limit": 100,
    "stalls": 3,
    "open": 1,
    "total": 30_000,
    "longest": 20_000,
    "p50": 10_000,
    "share": 0.25,
}
SOME = {
    **NOTHING,
    "hot": [
        {
            "place": "nova",
            "count": 20_000,
            "rate": 10.5,
            "peak": 2000,
            "share": 1.0,
            "skew": 1.0,
            "bytes": 2048,
        }
    ],
    "latency": [
        {"place": "nova", "operation": "cast", "measure": m, **TIMES}
        for m in ("total", "wait", "ack", "handover")
    ],
    "latency_all": [{"operation": "cast", "measure": "total", **TIMES}],
    "spread": [
        {"operation": "cast", "class": 15, "count": 19_000},
        {"operation": "cast", "class": 17, "count": 990},
    ],
    "over_time": [
        {
            "moment": EIGHT,
            "operation": "cast",
            "count": 4,
            "rate": 2.0,
            "failed": 1,
            "p50": 1000,
            "p99": None,
        }
    ],
    "stalls": [STALL],
    "stalled": [STALL],
    "corrupt": [{"reason": "not a record in JSON", "count": 7, "example": "<cut>"}],
    "unknown": [{"name": "colour", "count": 3}],
    "dropped": [{"client": "c/1", "dropped": 5, "kept": 15, "share": 0.25}],
    "flows": [
        {
            "place": "nova",
            "traffic": "rpc",
            "count": 20_000,
            "peak": 2000,
            "fanout": False,
            "acks": 20_000,
            "ack": 20_000,
            "size": 1024,
        }
    ],
    "times": [{"what": "cast", "count": 20_000, "p999": 40_000, "max": 50_000, "late": 10}],
}


def made(data: dict[str, list[dict[str, Any]]], **summary: Any) -> Any:
    found = Tables({**SUMMARY, **summary}, 120.0, 2, data)
    seen = tables.observed(found)
    advice = recommend.recommend(seen)
    needs = [credit.need(flow) for flow in seen.flows]
    return found, advice, needs, page.page(found, advice, needs, ["a.jsonl"])


def parts(of: Any, kind: Any) -> dict[str, Any]:
    return {
        part.title: part
        for section in of.sections
        for part in section.parts
        if isinstance(part, kind)
    }


def test_a_page_of_something() -> None:
    found, advice, needs, shown = made(SOME, dropped=5, corrupt=9)
    rows = parts(shown, Table)
    # microseconds have become milliseconds
    assert rows["Total time by operation"].rows == [["cast", 20_000, 1.0, 2.0, 20.0, 40.0, 50.0]]
    assert rows["From going out to the outcome"].rows[0][:3] == ["nova", "cast", 20_000]
    assert rows["Hot addresses"].rows == [["nova", 20_000, 10.5, 2000, 1.0, 1.0, 2.0]]
    assert rows["Stalls by address"].rows == [
        ["nova", "subscription", 1, 100, 3, 1, 0.03, 20.0, 10.0, 0.25]
    ]
    assert rows["Credit by address"].rows[0][:8] == ["nova", "rpc", 2000, 20.0, 20_000, 1, 100, 122]
    assert rows["Recommended settings"].rows[0][:8] == [
        "rpc_server_credit",
        100,
        "records",
        122,
        130,
        "messages",
        "raise",
        "high",
    ]
    plots = parts(shown, Plot)
    assert list(plots["Total times"].counts["cast"]) == [19_000, 0, 990]
    # 10^(15/5) us to 10^(18/5) us
    assert [round(edge, 3) for edge in plots["Total times"].edges] == [1, 1.585, 2.512, 3.981]
    assert plots["Share of messages that failed"].series[0].y == [0.25]
    warnings = [
        part.text
        for section in shown.sections
        for part in section.parts
        if isinstance(part, Text) and part.warning
    ]
    assert [text.split(" ")[0] for text in warnings] == ["Lines", "The", "Columns"]
    assert "left out: 9." in warnings[0]  # also those that the table leaves out
    assert "dropped 5 records" in warnings[1] and warnings[2].endswith("left out: colour.")
    html = render(shown)
    assert "&lt;cut&gt;" in html and "var(--s0" in html

    text = page.terminal(found, advice)
    assert text.startswith("20,010 records of 2 clients over 120.0 s: 20,000 messages, 10 failed\n")
    assert "\n  rpc_server_credit: nova: 2,000/s x 20 ms, twice and 1.5 times that" in text
    data = json.loads(
        json.dumps(tables.document(found, advice, needs, ["a.jsonl"]), default=tables.as_json)
    )
    assert data["summary"]["first"] == "2026-11-21T08:00:00+00:00"
    assert data["settings"][0]["recommended"] == 130
    assert data["credit"][0]["flow"]["place"] == "nova"


def test_a_page_of_nothing_but_records() -> None:
    found, advice, _, shown = made(NOTHING, messages=0, failed=0)
    assert "nothing to show" in render(shown)
    assert "Why" in page.terminal(found, advice)
    assert {a.verdict for a in advice} == {"too few records"}


def test_key_figures_count_what_the_tables_leave_out() -> None:
    losses = [{"lost": 12, "recovered": 11, "longest": 4_000_000}]
    *_, shown = made({**SOME, "losses": losses}, stalls=8)
    facts = next(part for part in shown.sections[0].parts if isinstance(part, Facts))
    found = {fact.label: fact for fact in facts.facts}
    assert (found["stalls"].value, found["connections lost"].value) == (8, 12)


def test_messages_are_counted_with_heartbeats() -> None:
    *_, shown = made(SOME)
    facts = next(part for part in shown.sections[0].parts if isinstance(part, Facts))
    notes = {fact.label: fact.note for fact in facts.facts}
    assert notes["messages"] == "requests, notifications, replies, heartbeats"
