# SPDX-License-Identifier: Apache-2.0

"""Each table, on frames small enough to compute it by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from amqp1_driver.pipeline.telemetry import tables
from amqp1_driver.pipeline.telemetry.observed import Flow, Spread, Times
from amqp1_driver.pipeline.transform import (
    telemetry_connections as connections,
)
from amqp1_driver.pipeline.transform import (
    telemetry_errors as errors,
)
from amqp1_driver.pipeline.transform import (
    telemetry_latency as latency,
)
from amqp1_driver.pipeline.transform import (
    telemetry_settings as settings,
)
from amqp1_driver.pipeline.transform import (
    telemetry_stalls as stalls,
)
from amqp1_driver.pipeline.transform import (
    telemetry_traffic as traffic,
)

from .frames import good, line, parsed, rows, send


def at(hour: int, minute: int, second: int = 0) -> datetime:
    return datetime(2026, 11, 21, hour, minute, second, tzinfo=UTC)


def test_percentiles_by_address_and_operation(spark: Any) -> None:
    """Of 1 to 1000: half is not above 500, nine tenths not above 900, and so on."""
    hundred = [send("08:00:00", total_us=n, wait_us=7) for n in range(1, 1001)]
    records = good(
        spark,
        *hundred,
        send("08:00:00", operation="cast", total_us=5, ack_us=4),
        send("08:00:00", outcome="timeout", total_us=10**9),
        send("08:00:00", "cinder", total_us=9),
        line(
            "08:00:00", "reply", address="temp", operation="reply", outcome="accepted", total_us=3
        ),
    )
    assert rows(latency.latency(records)) == [
        ("(reply addresses)", "reply", "total", 1, 3, 3, 3, 3, 3),
        ("cinder", "call", "total", 1, 9, 9, 9, 9, 9),
        ("nova", "call", "total", 1000, 500, 900, 990, 999, 1000),
        ("nova", "call", "wait", 1000, 7, 7, 7, 7, 7),
        ("nova", "cast", "ack", 1, 4, 4, 4, 4, 4),
        ("nova", "cast", "total", 1, 5, 5, 5, 5, 5),
    ]
    assert rows(latency.latency(records, ("operation",)), "operation", "measure", "max") == [
        ("call", "total", 1000),
        ("call", "wait", 7),
        ("cast", "ack", 4),
        ("cast", "total", 5),
        ("reply", "total", 3),
    ]


def test_spread_of_total_times(spark: Any) -> None:
    times = (0, 1, 9, 10, 999, 1000, 1584, 1585, 1_000_000)
    records = good(
        spark,
        *(send("08:00:00", total_us=us) for us in times),
        send("08:00:00", outcome="released", total_us=77),
    )
    # 10^(16/5) = 1584.89
    assert rows(latency.spread(records)) == [
        ("call", 0, 2),
        ("call", 4, 1),
        ("call", 5, 1),
        ("call", 14, 1),
        ("call", 15, 2),
        ("call", 16, 1),
        ("call", 30, 1),
    ]


def test_hot_addresses(spark: Any) -> None:
    records = good(
        spark,
        *(
            send(f"08:00:0{second}.{n}", size=10)
            for second, n in ((0, 1), (0, 2), (0, 3), (1, 0), (9, 0), (9, 9))
        ),
        send("08:00:01", "cinder"),
        send("08:00:02", None),
        send("08:00:03", outcome="timeout"),
        line("08:00:04", "reply", operation="reply", address="temp"),
    )
    # 7, 1 and 1 of 9; the mean is 3
    assert rows(traffic.hot(records, 10.0)) == [
        ("nova", 7, 0.7, 3, 7 / 9, 7 / 3, 60),
        ("(none)", 1, 0.1, 1, 1 / 9, 1 / 3, 0),
        ("cinder", 1, 0.1, 1, 1 / 9, 1 / 3, 0),
    ]


def test_throughput_over_time(spark: Any) -> None:
    records = good(
        spark,
        send("08:00:00", total_us=10),
        send("08:00:59.999999", total_us=30),
        send("08:01:00", total_us=50),
        send("08:01:01", outcome="timeout", total_us=999),
        send("08:01:01", operation="cast", outcome="timeout"),
        line("08:00:00", "stall"),
    )
    found = traffic.over_time(records, 60).selectExpr(
        "unix_seconds(moment) - 1795248000", "operation", "count", "rate", "failed", "p50", "p99"
    )
    assert rows(found) == [
        (0, "call", 2, 2 / 60, 0, 10, 30),
        (60, "call", 2, 2 / 60, 1, 50, 50),
        (60, "cast", 1, 1 / 60, 1, None, None),
    ]


def test_classes_of_time_are_few() -> None:
    assert [traffic.width_for(s) for s in (0, 120, 121, 3600, 86400 * 7, 1e9)] == [
        1,
        1,
        2,
        30,
        7200,
        604800,
    ]


def test_stalls(spark: Any) -> None:
    records = good(
        spark,
        line("08:00:00", "stall", address="nova", credit=100),
        line("08:00:01", "resume", address="nova", credit=100, total_us=1_000_000),
        line("08:00:05", "resume", address="nova", credit=100, total_us=3_000_000),
        line("08:00:09", "stall", address="nova", credit=100),
        send("08:00:10", "x"),
        line("08:00:00", "stall", address="nova", credit=50, pid=2),
        line("08:00:10", "resume", address="nova", credit=50, pid=2, total_us=2_000_000),
        line("08:00:10", "stall", address="nova", stage="credit", pid=3),
        send("08:00:00", "nova", pid=4),
    )
    # Client 1: 2 begun, 2 ended; client 2: 1 and 1. 6 s of 10 + 10. Client 3: a moment only.
    assert rows(stalls.stalls(records)) == [
        ("nova", "subscription", 2, 100, 3, 0, 6_000_000, 3_000_000, 2_000_000, 0.3),
        ("nova", "sender", 1, None, 1, 1, 0, None, None, None),
    ]


def test_failures(spark: Any) -> None:
    released = {
        "outcome": "released",
        "error": "MessageDeliveryFailure",
        "stage": "acknowledgement",
    }
    late = {"outcome": "timeout", "error": "MessagingTimeout"}
    records = good(
        spark,
        send("08:00:00"),
        send("08:00:01", **released),
        send("08:00:02", **released),
        send("08:00:03", "cinder", **late, stage="credit", total_us=30_000_000),
        send("08:00:04", "cinder", **late, stage="credit", total_us=10_000_000),
        send("08:00:05", "nova", **late, stage="reply", total_us=60_000_000),
        send("08:00:06", "nova", operation="cast"),
    )
    assert rows(errors.rates(records)) == [
        ("nova", "call", 4, 3, 0.75),
        ("cinder", "call", 2, 2, 1.0),
    ]
    assert rows(
        errors.causes(records).selectExpr(
            "operation",
            "outcome",
            "error",
            "stage",
            "failed",
            "share",
            "unix_seconds(first) - 1795248000",
            "unix_seconds(last) - 1795248000",
        )
    ) == [
        ("call", "released", "MessageDeliveryFailure", "acknowledgement", 2, 2 / 6, 1, 2),
        ("call", "timeout", "MessagingTimeout", "credit", 2, 2 / 6, 3, 4),
        ("call", "timeout", "MessagingTimeout", "reply", 1, 1 / 6, 5, 5),
    ]
    assert rows(errors.timeouts(records)) == [
        ("call", "credit", 2, 10_000_000, 30_000_000, 1),
        ("call", "reply", 1, 60_000_000, 60_000_000, 1),
    ]


def connection(time: str, state: str, host: str = "a:5672", **fields: Any) -> str:
    return line(time, "connection", host=host, state=state, **fields)


CONNECTIONS = (
    connection("08:00:00", "connecting"),
    connection("08:00:00.2", "opening"),
    connection("08:00:00.5", "ready"),
    connection("08:01:00", "backoff", error="ConnectionLost"),
    connection("08:01:01", "connecting", "b:5672"),
    connection("08:01:02", "backoff", "b:5672", error="refused"),
    connection("08:01:03", "connecting", "c:5672"),
    connection("08:01:04", "ready", "c:5672"),
    connection("08:02:00", "attaching", "c:5672"),
    connection("08:02:01", "ready", "c:5672"),
    connection("08:03:00", "closing", "c:5672"),
    connection("08:03:01", "closed", "c:5672"),
    connection("08:00:00", "connecting", pid=2),
    connection("08:00:03", "backoff", pid=2),
    connection("08:00:04", "connecting", pid=2),
    connection("08:00:06", "ready", pid=2),
    connection("08:01:00", "backoff", pid=2, error="ConnectionLost"),
    connection("08:00:00", "connecting", pid=3),
)


def test_connections_lost_and_recovery(spark: Any) -> None:
    spells = connections.spells(good(spark, *CONNECTIONS))
    assert rows(connections.outages(spells).drop("lost")) == [
        ("c1/1", "a:5672", "ConnectionLost", 2, "c:5672", 4_000_000),
        ("c1/2", "a:5672", "ConnectionLost", 0, None, None),
    ]
    assert rows(connections.by_host(spells)) == [
        ("a:5672", 2, 2, 1, 0, 4_000_000, 4_000_000),
        ("c:5672", 2, 0, 0, 1, None, None),
    ]
    assert rows(connections.first(spells)) == [(2, 500_000, 6_000_000, 1, 1, 500_000)]


def test_losses_of_all_hosts(spark: Any) -> None:
    found = connections.losses(connections.spells(good(spark, *CONNECTIONS)))
    assert rows(found) == [(2, 1, 4_000_000)]
    assert rows(connections.losses(connections.spells(good(spark)))) == [(0, 0, None)]


def test_links_attached_again(spark: Any) -> None:
    again = {"address": "nova", "state": "reattach wait", "error": "amqp:not-found"}
    records = good(
        spark,
        line("08:00:00", "link", **again),
        line("08:00:01", "link", **again),
        line("08:00:02", "link", address="nova", state="attached"),
    )
    assert rows(connections.links(records)) == [("nova", "amqp:not-found", 2)]


def test_what_settings_are_judged_by(spark: Any) -> None:
    lines = [
        *(
            send(f"08:00:00.{n}", ack_us=n * 1000, reply_us=9000, handover_us=50, size=n)
            for n in range(1, 5)
        ),
        send("08:00:30", ack_us=9000, total_us=12_000),
        send("08:00:30", "l2", "fanout", total_us=4_000, pid=2),
        send("08:00:31", "info", "notification", ack_us=7000, total_us=7_000, pid=2),
        send("08:00:31", "info", "notification", outcome="timeout", pid=2),
        line(
            "08:00:32",
            "reply",
            operation="reply",
            outcome="accepted",
            address="temp",
            wait_us=800,
            total_us=900,
        ),
        line("08:00:10", "resume", address="nova", credit=64, total_us=2_000_000),
    ]
    records = good(spark, *lines)
    assert rows(settings.flows(records)) == [
        ("nova", "rpc", 5, 4, False, 5, 9000, 4),
        ("info", "notify", 2, 2, False, 1, 7000, None),
        ("l2", "rpc", 1, 1, True, 0, None, None),
    ]
    assert rows(settings.busiest(records)) == [(4, 4, 1)]
    assert rows(settings.times(records)) == [
        ("call", 1, 12_000, 12_000, 0),
        ("cast", 1, 4_000, 4_000, 0),
        ("notification", 1, 7_000, 7_000, 1),
        ("reply", 1, 900, 900, 0),
    ]
    assert rows(settings.waits(records)) == [(4, 50, 1, 800, 5, 9000, 4, 9000)]
    # nova is used in the seconds 0 to 9 and 30 to 39: 20 s between
    assert rows(settings.gaps(records)) == [(1, 20, 3)]

    whole = tables.compute(parsed(spark, *lines, *CONNECTIONS, "cut off"), top=2)
    seen = tables.observed(whole)
    assert seen.flows[0] == Flow("nova", "rpc", 4, 0.009, 5, 4, False, 1, 64, 1, 2.0)
    assert seen.times["call"] == Times(1, 0.012, 0.012, 0)
    assert (seen.sends, seen.calls, seen.replies) == (4, 4, 1)
    assert seen.handover == Spread(4, 0.00005)
    assert seen.call_round_trip == Spread(5, 0.009)
    assert (seen.recovered, seen.recovery, seen.first_connections) == (1, 4.0, 1)
    assert seen.connecting == 0.5
    assert (whole.seconds, whole.width) == (181.0, 2)
    assert whole.summary["first"] == at(8, 0) and whole.summary["last"] == at(8, 3, 1)
    assert [row["place"] for row in whole["hot"]] == ["nova", "info"]  # no more than two
    assert whole["corrupt"] == [
        {"reason": "not a record in JSON", "count": 1, "example": "cut off"}
    ]


def test_fewer_rows_of_a_table_change_no_recommendation_and_no_sum(spark: Any) -> None:
    """Three of each, of which the tables show two: hosts, stalls, operations and reasons."""
    lines = [
        connection("08:00:00", "ready", "a:5672"),
        connection("08:00:10", "backoff", "a:5672"),
        connection("08:00:11", "ready", "a:5672"),
        connection("08:00:20", "backoff", "a:5672"),
        connection("08:00:22", "ready", "b:5672"),
        connection("08:00:30", "backoff", "b:5672"),
        connection("08:00:33", "ready", "c:5672"),
        connection("08:00:40", "backoff", "c:5672"),
        connection("08:00:49", "ready", "a:5672"),
        send("08:00:00", "x"),
        send("08:00:00", "y", "cast"),
        send("08:00:00", "z", "notification", total_us=7_000),
        line("08:00:01", "resume", address="x", credit=30, total_us=3_000_000),
        line("08:00:01", "resume", address="y", credit=20, total_us=2_000_000),
        line("08:00:01", "resume", address="z", credit=10, total_us=1_000_000),
        "cut off",
        "cut off",
        line("08:00:00", "meal"),
        line("08:00:00", "stall", container=None),
    ]
    whole = tables.compute(parsed(spark, *lines), top=2)

    assert [row["host"] for row in whole["hosts"]] == ["a:5672", "b:5672"]
    assert [row["place"] for row in whole["stalls"]] == ["x", "y"]
    assert [row["count"] for row in whole["corrupt"]] == [2, 1]
    seen = tables.observed(whole)
    assert (seen.recovered, seen.recovery) == (4, 9.0)
    assert seen.flows[2] == Flow("z", "notify", 1, None, 0, 0, False, 1, 10, 1, 1.0)
    assert seen.times["notification"] == Times(1, 0.007, 0.007, 0)
    assert (whole.summary["stalls"], whole.summary["corrupt"]) == (3, 4)


def test_the_newest_losses_are_shown_in_order_of_time(spark: Any) -> None:
    lines = [
        connection("08:00:00", "ready"),
        connection("08:00:10", "backoff"),
        connection("08:00:11", "ready"),
        connection("08:00:20", "backoff"),
        connection("08:00:21", "ready"),
        connection("08:00:30", "backoff"),
    ]
    whole = tables.compute(parsed(spark, *lines), top=2)
    assert [row["lost"] for row in whole["outages"]] == [at(8, 0, 20), at(8, 0, 30)]


def test_round_trip_of_calls_by_replies_where_outcomes_are_seldom() -> None:
    waits = {"call_acks": 4, "call_ack": 1000, "replied": 9, "call_reply": 5000}
    assert tables._call_round_trip(waits) == Spread(9, 0.005)
    assert tables._call_round_trip({**waits, "call_acks": 5}) == Spread(5, 0.001)
