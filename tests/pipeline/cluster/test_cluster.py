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

"""The job notifications by spark-submit on a master with two workers: as on one machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.commands import notifications
from amqp1_driver.pipeline.generate import send, story
from amqp1_driver.pipeline.publish.publisher import Publisher
from amqp1_driver.testing.fixture import BusFixture
from tests.pipeline.cluster.standalone import Cluster

#: enough that a batch is read in several tasks
FILLERS = 6000


def _fill(url: str) -> None:
    where = bus.notifications("notifications", "info")
    with Publisher(bus.make_client(url)) as publisher:
        for number in range(FILLERS):
            message = {"message_id": f"f-{number}", "publisher_id": "x.y", "event_type": "filler",
                       "priority": "INFO", "payload": {}, "timestamp": "2026-03-02 12:00:00"}
            publisher.send(where, f"f-{number}", json.dumps(message).encode())
        publisher.flush()


def _rows(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    table = ds.dataset(folder, partitioning="hive").to_table(list(columns))
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.skipif(os.environ.get("AMQP1_LONG") != "1",
                    reason="six Java processes take a minute or more to start: AMQP1_LONG=1")
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_notifications_on_two_workers(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with BusFixture("broker", queue_capacity=100_000) as made, Cluster(tmp_path) as cluster:
        send.send(made.url(), story.emissions())
        _fill(made.url())
        done = cluster.submit(
            Path(notifications.__file__), "--lake", str(lake), "--url", made.url(),
            "--until", story.THIRD.isoformat(), "--source-option", "partitions=4",
            timeout=500, spark_sql_shuffle_partitions=2)
        assert done.returncode == 0, done.stdout + done.stderr[-5000:]
        tasks = [cluster.tasks(number) for number in range(2)]

    assert "taken in from the bus   6,062" in done.stdout
    assert all(tasks), tasks
    silver = [name for path in lake.glob("silver/day=*/batch=*/*.parquet")
              for name in pq.ParquetFile(path).read(["message_id"]).column(0).to_pylist()]
    assert sorted(silver) == sorted([*(f"s-{number}" for number in range(1, 55)),
                                     *(f"f-{number}" for number in range(6000))])
    assert len(_rows(lake / "malformed", "reason")) == 5
    usage = _rows(lake / "gold" / "usage", "day", "tenant_id", "instances", "vcpu_hours",
                  "volume_gb_hours", "port_hours")
    assert [(str(day), *rest) for day, *rest in usage] == [
        ("2026-03-02", "blue", 1, 16.0, 600.0, 0.0),
        ("2026-03-02", "green", 1, 6.0, 0.0, 13.0),
        ("2026-03-02", "red", 2, 67.0, 190.0, 16.0),
        ("2026-03-03", "blue", 1, 96.0, 0.0, 0.0),
        ("2026-03-03", "green", 1, 16.0, 0.0, 24.0),
        ("2026-03-03", "red", 2, 48.0, 480.0, 6.0),
    ]
