# SPDX-License-Identifier: Apache-2.0

"""From when to when a resource was there; usage of it; and what the audit says to that."""

from __future__ import annotations

import datetime
from typing import Any

from tests.pipeline.transform.frames import at, plain, silver

UNTIL = plain("04 12:00:00")
SMALL = {"vcpus": 1, "memory_mb": 1024, "disk_gb": 10, "flavor": "small", "tenant_id": "t"}
LARGE = {"vcpus": 4, "memory_mb": 4096, "disk_gb": 40, "flavor": "large", "tenant_id": "t"}


def _instance(time: str, action: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "time": time,
        "event": f"compute.instance.{action}",
        "kind": "instance",
        "resource_id": name,
        **more,
    }


def test_lifetimes(spark: Any) -> None:
    from amqp1_driver.pipeline.transform.lifetimes import carried, changes, lifetimes
    from amqp1_driver.pipeline.transform.schemas import LIFETIMES

    rows = silver(
        spark,
        # over two midnights, and resized by a payload without a size
        _instance("02 22:00:00", "create.end", "a", **SMALL),
        _instance("03 06:00:00", "resize.confirm.end", "a"),
        # shelved: there until it is offloaded, in one step or in two
        _instance("03 01:00:00", "create.end", "b", **SMALL),
        _instance("03 02:00:00", "shelve.end", "b", state="shelved"),
        _instance("03 03:00:00", "shelve_offload.end", "b", state="shelved_offloaded"),
        _instance("03 01:00:00", "create.end", "c", **SMALL),
        _instance("03 02:00:00", "shelve.end", "c", state="shelved_offloaded"),
        # deleted at midnight, and deleted without having been seen
        _instance("03 01:00:00", "create.end", "d", **SMALL),
        _instance("04 00:00:00", "delete.end", "d"),
        _instance("03 01:00:00", "delete.end", "e", **SMALL),
        # starts and failures are no lives
        _instance("03 01:00:00", "create.start", "f", **SMALL),
        _instance("03 01:00:00", "create.error", "g", **SMALL),
        _instance("03 01:00:00", "reboot.end", "h", **SMALL),
        # from the day before: grown, then gone
        _instance("03 04:00:00", "finish_resize.end", "i", **LARGE),
        _instance("03 05:00:00", "delete.end", "i", **LARGE),
        # after the window
        _instance("05 01:00:00", "create.end", "k", **SMALL),
    )
    before = spark.createDataFrame(
        [
            (
                at("02 00:00:00").date(),
                "instance",
                "i",
                "t",
                None,
                "small",
                1,
                1024,
                10,
                None,
                at("02 20:00:00"),
                at("03 00:00:00"),
                True,
            ),
            (
                at("02 00:00:00").date(),
                "instance",
                "j",
                "t",
                None,
                "small",
                1,
                1024,
                10,
                None,
                at("02 20:00:00"),
                at("02 21:00:00"),
                False,
            ),
        ],
        LIFETIMES,
    )
    made = changes(rows).unionByName(carried(before, datetime.date(2026, 3, 3)))
    frame = lifetimes(made, UNTIL)
    assert frame.schema.fieldNames() == LIFETIMES.fieldNames()
    assert sorted(
        (row.resource_id, row.begin, row.end, row.vcpus, row.open, str(row.day)[8:])
        for row in frame.collect()
    ) == [
        ("a", plain("02 22:00:00"), plain("03 00:00:00"), 1, True, "02"),
        ("a", plain("03 00:00:00"), plain("03 06:00:00"), 1, False, "03"),
        ("a", plain("03 06:00:00"), plain("04 00:00:00"), 1, True, "03"),
        ("a", plain("04 00:00:00"), plain("04 12:00:00"), 1, True, "04"),
        ("b", plain("03 01:00:00"), plain("03 02:00:00"), 1, False, "03"),
        ("b", plain("03 02:00:00"), plain("03 03:00:00"), 1, False, "03"),
        ("c", plain("03 01:00:00"), plain("03 02:00:00"), 1, False, "03"),
        ("d", plain("03 01:00:00"), plain("04 00:00:00"), 1, False, "03"),
        ("i", plain("03 00:00:00"), plain("03 04:00:00"), 1, False, "03"),
        ("i", plain("03 04:00:00"), plain("03 05:00:00"), 4, False, "03"),
    ]


def test_usage_of_large_clouds_does_not_overflow(spark: Any) -> None:
    from amqp1_driver.pipeline.transform.schemas import LIFETIMES
    from amqp1_driver.pipeline.transform.usage import usage

    whole = (at("02 00:00:00"), at("03 00:00:00"), True)
    rows = [
        (
            whole[0].date(),
            "instance",
            f"i{n}",
            "t",
            None,
            "f",
            2_000_000_000,
            2**60,
            None,
            None,
            *whole,
        )
        for n in range(2)
    ]
    rows.append((whole[0].date(), "volume", "v", None, None, None, None, None, None, 7, *whole))
    found = usage(spark.createDataFrame(rows, LIFETIMES)).orderBy("tenant_id").collect()
    assert [tuple(row)[1:] for row in found] == [
        (None, 0, 0.0, 0.0, 0.0, 0.0, 1, 168.0, 0, 0.0),
        ("t", 2, 48.0, 96e9, 48.0 * 2**50, 0.0, 0, 0.0, 0, 0.0),
    ]


def test_audit(spark: Any) -> None:
    from amqp1_driver.pipeline.transform.audit import audit
    from amqp1_driver.pipeline.transform.schemas import LIFETIMES

    day = {"audit_begin": at("02 00:00:00"), "audit_end": at("03 00:00:00")}
    part = {**day, "audit_end": at("02 10:00:00")}

    def told(
        name: str,
        size: dict[str, Any] = SMALL,
        period: Any = day,
        time: str = "03 00:00:10",
        **more: Any,
    ) -> dict[str, Any]:
        return {
            "time": time,
            "event": "compute.instance.exists",
            "kind": "instance",
            "resource_id": name,
            **size,
            **period,
            **more,
        }

    def seen(name: str, begin: str, end: str, size: dict[str, Any] = SMALL) -> tuple[Any, ...]:
        until = at(end)
        return (
            at(begin).date(),
            "instance",
            name,
            size["tenant_id"],
            "h",
            size["flavor"],
            size["vcpus"],
            size["memory_mb"],
            size["disk_gb"],
            None,
            at(begin),
            until,
            until == at("03 00:00:00"),
        )

    exists = silver(
        spark,
        told("running"),
        told("other-size", {**LARGE, "disk_gb": 10}),
        told("other-tenant", {**SMALL, "tenant_id": "u"}),
        told("deleted", deleted_at=at("02 09:00:00")),
        told("deleted-later", deleted_at=at("03 00:00:05")),
        told("never-ended", deleted_at=at("02 09:00:00")),
        told("never-told"),
        # told at its resize, with the old size, and at the end of the period
        told("twice", period=part, time="02 10:00:00"),
        told("twice", LARGE),
        # an offloaded one is told of, and not there
        told("offloaded", state="shelved_offloaded"),
        told("offloaded-before", state="shelved_offloaded"),
        told("unknown"),
    )
    observed = spark.createDataFrame(
        [
            *(
                seen(name, "02 08:00:00", "03 00:00:00")
                for name in (
                    "running",
                    "other-size",
                    "other-tenant",
                    "deleted-later",
                    "never-ended",
                    "untold",
                )
            ),
            seen("deleted", "02 08:00:00", "02 09:00:00"),
            seen("never-told", "02 08:00:00", "02 09:00:00"),
            seen("twice", "02 08:00:00", "02 10:00:00"),
            seen("twice", "02 10:00:00", "03 00:00:00", LARGE),
            seen("offloaded", "02 08:00:00", "02 09:00:00"),
            # not in the period
            seen("after", "03 00:00:00", "03 01:00:00"),
        ],
        LIFETIMES,
    )
    found = audit(exists, observed).collect()
    assert {str(row.day) for row in found} == {"2026-03-02"}
    assert {row.audit_end for row in found} == {plain("03 00:00:00")}
    assert {row.resource_id: (row.status, row.reason) for row in found} == {
        "running": ("matched", None),
        "other-size": ("contradictory", "vcpus 4 observed 1; memory 4096 observed 1024"),
        "other-tenant": ("contradictory", "tenant u observed t"),
        "deleted": ("matched", None),
        "deleted-later": ("matched", None),
        "never-ended": ("contradictory", "deleted in the audit only"),
        "never-told": ("contradictory", "running in the audit only"),
        "twice": ("matched", None),
        "offloaded": ("matched", None),
        "offloaded-before": ("matched", None),
        "unknown": ("unexpected", "in the audit, but never observed"),
        "untold": ("missing", "observed, but not in the audit"),
    }
    assert len(found) == 12
