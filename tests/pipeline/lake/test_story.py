# SPDX-License-Identifier: Apache-2.0

"""The story's two days through the whole job: every table equals what was computed by hand.

It is taken in two parts; in the first the job dies between two writes and is started again; the
second has the late, doubled and broken ones. The hours are worked out in the comments.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.pipeline.generate import story
from tests.pipeline.lake import support
from tests.pipeline.lake.support import rows

D1, D2 = datetime.date(2026, 3, 2), datetime.date(2026, 3, 3)
NO_HOST = "No valid host was found"


class Died(RuntimeError):
    """In place of a SIGKILL."""


@pytest.fixture(scope="module")
def told(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The lake after both parts, and the summaries of its runs."""
    from pyspark.errors import StreamingQueryException

    from amqp1_driver.pipeline.lake import job
    from amqp1_driver.pipeline.lake.layout import Lake

    folder = tmp_path_factory.mktemp("story")
    lake = Lake(spark, str(folder / "lake"))
    bronze = folder / "bronze"
    emissions = list(story.emissions())
    support.add_bronze(bronze, emissions[:40], 0)
    plan = job.Plan(bronze=str(bronze), until=story.THIRD)
    # Silver's rows are written, but not the note that gold needs; then the process is gone.
    write_json = lake.storage.write_json

    def die(path: str, value: Any) -> None:
        raise Died

    lake.storage.write_json = die
    with pytest.raises(StreamingQueryException, match="Died"):
        job.run(lake, plan)
    assert rows(lake.read_gold("usage"), "day") == []
    lake.storage.write_json = write_json
    first = job.run(lake, plan)
    support.add_bronze(bronze, emissions[40:], 40)
    second = job.run(lake, plan)
    return lake, first, second


@pytest.mark.usefixtures("told")
class TestStory:
    def test_summaries(self, told: Any) -> None:
        _, first, second = told
        taken = first.taken
        assert (taken.rows, taken.notifications, taken.copies, taken.malformed) == (40, 35, 2, 3)
        taken = second.taken
        assert (taken.rows, taken.notifications, taken.copies, taken.malformed) == (22, 19, 1, 2)
        assert first.touched == [D1]
        # the last row of all is of the first day
        assert second.touched == [D1, D2, datetime.date(2026, 3, 4)]

    def test_silver_has_each_once(self, told: Any) -> None:
        found = rows(told[0].read_silver(), "message_id")
        assert found == sorted((f"s-{number}",) for number in range(1, 55))

    def test_malformed_are_kept_with_the_reason(self, told: Any) -> None:
        found = rows(told[0].read_malformed(), "reason", "body")
        assert [(reason, bytes(body)) for reason, body in found] == [
            ("no event_type", story.BROKEN[2]),
            ("oslo.message is not a JSON object", story.BROKEN[1]),
            ("the body is not UTF-8", b"\xff\xfe\x00\x01"),
            ("the body is not a JSON object as a notification is one", story.BROKEN[0]),
            ("the timestamp is not a time", story.BROKEN[3]),
        ]

    def test_operations(self, told: Any) -> None:
        frame = told[0].read_gold("operations")
        assert rows(
            frame, "day", "event", "request_id", "outcome", "resource_id", "seconds", "error"
        ) == [
            (D1, "compute.instance.create", "req-a", "ended", "i1", 10.0, None),
            (D1, "compute.instance.create", "req-e", "failed", "i3", 10.0, NO_HOST),
            (D1, "compute.instance.create", "req-m", "ended", "i5", 12.0, None),
            (D1, "compute.instance.delete", "req-o", "unmatched", "i5", None, None),
            (D1, "compute.instance.finish_resize", "req-g", "ended", "i1", 20.0, None),
            (D1, "compute.instance.resize.confirm", "req-g", "ended", "i1", 1.0, None),
            (D1, "instance.create", "req-c", "ended", "i2", 15.0, None),
            (D1, "instance.create", "req-f", "ended", "i4", 30.0, None),
            (D1, "instance.create", "req-f", "failed", "i4", 20.0, NO_HOST),
            (D1, "instance.reboot", "req-j", "orphaned", "i2", None, None),
            (D1, "instance.shelve_offload", "req-k", "ended", "i4", 10.0, None),
            (D1, "port.create", "req-a", "ended", "p1", 1.0, None),
            (D1, "port.create", "req-f", "ended", "p2", 2.0, None),
            (D1, "port.create", "req-m", "unmatched", None, None, None),
            (D1, "volume.attach", "req-d", "ended", "v1", 3.0, None),
            (D1, "volume.create", "req-b", "ended", "v1", 2.0, None),
            (D1, "volume.create", "req-h", "ended", "v2", 3.0, None),
            (D1, "volume.create", "req-i", "failed", "v3", 4.0, "no backend has room"),
            (D1, "volume.delete", "req-l", "ended", "v2", 2.0, None),
            (D1, "volume.resize", "req-n", "ended", "v1", 5.0, None),
            (D2, "compute.instance.delete", "req-q", "ended", "i1", 4.0, None),
            (D2, "instance.unshelve", "req-r", "ended", "i4", 20.0, None),
            (D2, "port.delete", "req-q", "ended", "p1", 1.0, None),
        ]

    def test_durations(self, told: Any) -> None:
        frame = told[0].read_gold("durations").where("event LIKE '%create' AND day = '2026-03-02'")
        assert rows(
            frame,
            "event",
            "finished",
            "failed",
            "unmatched",
            "orphaned",
            "mean_s",
            "p50_s",
            "p99_s",
            "max_s",
        ) == [
            ("compute.instance.create", 2, 1, 0, 0, 11.0, 11.0, 11.98, 12.0),
            ("instance.create", 2, 1, 0, 0, 22.5, 22.5, 29.85, 30.0),
            ("port.create", 2, 0, 1, 0, 1.5, 1.5, 1.99, 2.0),
            ("volume.create", 2, 1, 0, 0, 2.5, 2.5, 2.99, 3.0),
        ]

    def test_errors(self, told: Any) -> None:
        frame = told[0].read_gold("errors").where("event LIKE '%create' OR event LIKE '%exists'")
        frame = frame.where("day = '2026-03-02' OR event = 'instance.exists'")
        assert rows(
            frame,
            "day",
            "publisher_host",
            "event",
            "notifications",
            "results",
            "errors",
            "error_rate",
            "last_error",
        ) == [
            (D1, "block-1@lvm", "volume.create", 6, 3, 1, 1 / 3, "no backend has room"),
            (D1, "compute-1", "compute.instance.create", 6, 3, 1, 1 / 3, NO_HOST),
            (D1, "compute-1", "instance.create", 2, 1, 1, 1.0, NO_HOST),
            (D1, "compute-2", "instance.create", 4, 2, 0, 0.0, None),
            (D1, "ctrl-1", "port.create", 5, 2, 0, 0.0, None),
            (D2, "compute-2", "instance.exists", 3, 3, 0, 0.0, None),
            (datetime.date(2026, 3, 4), "compute-2", "instance.exists", 2, 2, 0, 0.0, None),
        ]

    def test_usage(self, told: Any) -> None:
        frame = told[0].read_gold("usage")
        assert rows(
            frame,
            "day",
            "tenant_id",
            "instances",
            "instance_hours",
            "vcpu_hours",
            "ram_gib_hours",
            "disk_gb_hours",
            "volumes",
            "volume_gb_hours",
            "ports",
            "port_hours",
        ) == [
            # i5 large 20-24; v2 100 GB 12-18, whose end came late; p3 was never finished
            (D1, "blue", 1, 4.0, 16.0, 32.0, 400.0, 1, 600.0, 0, 0.0),
            # i4 small 11-17, offloaded then; p2 11-24
            (D1, "green", 1, 6.0, 6.0, 12.0, 120.0, 0, 0.0, 1, 13.0),
            # i1 small 8-12, large 12-24: 4+48 vCPU, 8+96 GiB, 80+1200 GB; i2 small 9-24;
            # v1 10 GB 8:30-20:30, 20 GB to 24: 120+70; p1 8-24
            (D1, "red", 2, 31.0, 67.0, 134.0, 1580.0, 1, 190.0, 1, 16.0),
            # i5 all day: the end of its deletion never came
            (D2, "blue", 1, 24.0, 96.0, 192.0, 2400.0, 0, 0.0, 0, 0.0),
            # i4 small 8-24, p2 all day
            (D2, "green", 1, 16.0, 16.0, 32.0, 320.0, 0, 0.0, 1, 24.0),
            # i1 large 0-6, i2 small all day; v1 20 GB all day; p1 0-6
            (D2, "red", 2, 30.0, 48.0, 96.0, 1080.0, 1, 480.0, 1, 6.0),
        ]

    def test_lifetimes_of_a_resized_and_of_a_deleted_one(self, told: Any) -> None:
        def at(day: int, *clock: int) -> datetime.datetime:
            return datetime.datetime(2026, 3, day, *clock)

        frame = told[0].read_gold("lifetimes").where("resource_id IN ('i1', 'v2')")
        assert rows(frame, "resource_id", "begin", "end", "flavor", "size_gb", "open") == [
            ("i1", at(2, 8), at(2, 12), "small", None, False),
            ("i1", at(2, 12), at(2, 12, 5, 1), "large", None, False),
            ("i1", at(2, 12, 5, 1), at(3, 0), "large", None, True),
            ("i1", at(3, 0), at(3, 6), "large", None, False),
            ("v2", at(2, 12), at(2, 18), None, 100, False),
        ]

    def test_audit(self, told: Any) -> None:
        frame = told[0].read_gold("audit")
        assert rows(
            frame, "day", "resource_id", "kind", "status", "tenant_id", "host", "reason"
        ) == [
            (D1, "i1", "instance", "matched", "red", "compute-1", None),
            (D1, "i2", "instance", "matched", "red", "compute-2", None),
            (D1, "i4", "instance", "matched", "green", "compute-2", None),
            (
                D1,
                "i5",
                "instance",
                "contradictory",
                "blue",
                "compute-1",
                "deleted in the audit only",
            ),
            (
                D1,
                "i6",
                "instance",
                "unexpected",
                "blue",
                "compute-2",
                "in the audit, but never observed",
            ),
            (D1, "v1", "volume", "matched", "red", "block-1@lvm", None),
            (
                D1,
                "v2",
                "volume",
                "missing",
                "blue",
                "block-1@lvm",
                "observed, but not in the audit",
            ),
            (D2, "i1", "instance", "matched", "red", "compute-1", None),
            (
                D2,
                "i2",
                "instance",
                "contradictory",
                "red",
                "compute-2",
                "vcpus 4 observed 1; memory 8192 observed 2048; disk 100 observed 20",
            ),
            (D2, "i4", "instance", "matched", "green", "compute-2", None),
            (
                D2,
                "i5",
                "instance",
                "missing",
                "blue",
                "compute-1",
                "observed, but not in the audit",
            ),
            (D2, "v1", "volume", "matched", "red", "block-1@lvm", None),
        ]

    def test_taking_bronze_again_from_the_begin_adds_nothing(self, told: Any) -> None:
        """Without its checkpoint silver reads all of bronze anew; every row is known."""
        import shutil

        from amqp1_driver.pipeline.lake.silver import SilverStage

        lake = told[0]
        shutil.rmtree(Path(lake.checkpoint("silver")))
        stage = SilverStage(lake)
        bronze = str(Path(lake.root).parent / "bronze")
        stage.start(bronze, {"availableNow": True}).awaitTermination()
        assert (stage.taken.rows, stage.taken.notifications, stage.taken.copies) == (62, 0, 57)
        assert lake.read_silver().count() == 54
