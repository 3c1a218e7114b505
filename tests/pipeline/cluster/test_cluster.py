# SPDX-License-Identifier: Apache-2.0

"""The jobs by spark-submit on a master with two workers: as on one machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.commands import capacity, notifications, telemetry
from amqp1_driver.pipeline.generate import send, story
from amqp1_driver.pipeline.publish.publisher import Publisher
from amqp1_driver.telemetry.events import Record
from amqp1_driver.telemetry.files import make_format
from amqp1_driver.testing.fixture import BusFixture
from tests.pipeline.cluster.standalone import Cluster

#: enough that a batch is read in several tasks
FILLERS = 6000
#: files of telemetry in each format, and records in each
FILES, RECORDS = 4, 25


def long(test: Any) -> Any:
    """A test with a cluster."""
    for mark in (
        pytest.mark.skipif(
            os.environ.get("AMQP1_LONG") != "1",
            reason="Java processes take a minute to start: AMQP1_LONG=1",
        ),
        pytest.mark.timeout(600),
        pytest.mark.filterwarnings("ignore::ResourceWarning"),
    ):
        test = mark(test)
    return test


def _fill(url: str) -> None:
    where = bus.notifications("notifications", "info")
    with Publisher(bus.make_client(url)) as publisher:
        for number in range(FILLERS):
            message = {
                "message_id": f"f-{number}",
                "publisher_id": "x.y",
                "event_type": "filler",
                "priority": "INFO",
                "payload": {},
                "timestamp": "2026-03-02 12:00:00",
            }
            publisher.send(where, f"f-{number}", json.dumps(message).encode())
        publisher.flush()


def _rows(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    table = ds.dataset(folder, partitioning="hive").to_table(list(columns))
    return sorted(tuple(row.values()) for row in table.to_pylist())


@long
def test_notifications_on_two_workers(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with BusFixture("broker", queue_capacity=100_000) as made, Cluster(tmp_path) as cluster:
        send.send(made.url(), story.emissions())
        _fill(made.url())
        done = cluster.submit(
            Path(notifications.__file__),
            "--lake",
            str(lake),
            "--url",
            made.url(),
            "--until",
            story.THIRD.isoformat(),
            "--source-option",
            "partitions=4",
            timeout=500,
            spark_sql_shuffle_partitions=2,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-5000:]
        tasks = [cluster.tasks(number) for number in range(2)]

    assert "taken in from the bus   6,062" in done.stdout
    assert all(tasks), tasks
    silver = [
        name
        for path in lake.glob("silver/day=*/batch=*/*.parquet")
        for name in pq.ParquetFile(path).read(["message_id"]).column(0).to_pylist()
    ]
    assert sorted(silver) == sorted(
        [*(f"s-{number}" for number in range(1, 55)), *(f"f-{number}" for number in range(6000))]
    )
    assert len(_rows(lake / "malformed", "reason")) == 5
    usage = _rows(
        lake / "gold" / "usage",
        "day",
        "tenant_id",
        "instances",
        "vcpu_hours",
        "volume_gb_hours",
        "port_hours",
    )
    assert [(str(day), *rest) for day, *rest in usage] == [
        ("2026-03-02", "blue", 1, 16.0, 600.0, 0.0),
        ("2026-03-02", "green", 1, 6.0, 0.0, 13.0),
        ("2026-03-02", "red", 2, 67.0, 190.0, 16.0),
        ("2026-03-03", "blue", 1, 96.0, 0.0, 0.0),
        ("2026-03-03", "green", 1, 16.0, 0.0, 24.0),
        ("2026-03-03", "red", 2, 48.0, 480.0, 6.0),
    ]


def _records(folder: Path) -> None:
    """Sends of 1, 2, ... 300 ms, a second apart, of 12 containers."""
    number = 0
    for form in map(make_format, ("json", "parquet", "arrow")):
        for file in range(FILES):
            rows = []
            for _ in range(RECORDS):
                number += 1
                rows.append(
                    Record(
                        1795248000_000000 + number * 1_000_000,
                        "send",
                        f"{form.suffix}-{file}",
                        1,
                        "h:5672",
                        "nova",
                        "call",
                        outcome="accepted",
                        total_us=number * 1000,
                    )
                )
            (folder / f"{file}.{form.suffix}").write_bytes(form.add(rows) + form.end())


@long
def test_telemetry_on_two_workers(tmp_path: Path) -> None:
    folder = tmp_path / "telemetry"
    folder.mkdir()
    _records(folder)
    with Cluster(tmp_path) as cluster:
        done = cluster.submit(
            Path(telemetry.__file__),
            str(folder),
            "--json",
            str(tmp_path / "report.json"),
            "--html",
            str(tmp_path / "report.html"),
            timeout=500,
            spark_sql_shuffle_partitions=2,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-5000:]
        tasks = [cluster.tasks(number) for number in range(2)]

    assert all(tasks), tasks
    assert "300 records of 12 clients over 299.0 s: 300 messages, 0 failed" in done.stdout
    found = json.loads((tmp_path / "report.json").read_text())["tables"]
    [total] = [row for row in found["latency_all"] if row["measure"] == "total"]
    assert (total["count"], total["p50"], total["max"]) == (300, 150_000, 300_000)
    assert found["corrupt"] == [] and found["unknown"] == []
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")


@long
def test_capacity_on_two_workers(tmp_path: Path) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text(
        json.dumps(
            {
                "schema": 1,
                "client": {"call": 90, "wake": 50},
                "router": {"call": 40, "wake": 20},
                "server": {"call": 110, "wake": 60},
                "latency_us": 15,
                "noise": 0.3,
            }
        )
    )
    with Cluster(tmp_path) as cluster:
        done = cluster.submit(
            Path(capacity.__file__),
            "--costs",
            str(costs),
            "--routers",
            "1,2",
            "--servers",
            "1",
            "--agents",
            "60000",
            "--interval",
            "10",
            "--service-ms",
            "0",
            "--p99-ms",
            "20",
            "--calls",
            "600",
            "--seeds",
            "1",
            "--output",
            str(tmp_path / "out"),
            timeout=500,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-5000:]
        tasks = [cluster.tasks(number) for number in range(2)]

    assert all(tasks), tasks
    one, two = json.loads((tmp_path / "out" / "capacity.json").read_text())["answers"]
    # 6000 calls a second. A server can do 4348 with 110 + 2 * 60 us for each: one cannot, the two
    # of two routers can.
    assert (one["routers"], one["limit"]) == (1, "server")
    assert (two["routers"], two["carries"]) == (2, 60_000)
    assert pq.read_table(tmp_path / "out" / "capacity.parquet").num_rows >= 18
