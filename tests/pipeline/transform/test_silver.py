# SPDX-License-Identifier: Apache-2.0

"""Traits of each service's payloads, malformed rows, and copies."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from amqp1_driver.pipeline.generate import payloads as p
from tests.pipeline.transform.frames import message, plain, raw, silver, wrapped

CREATED = datetime.datetime(2026, 3, 2, 7, 59)
LAUNCHED = datetime.datetime(2026, 3, 2, 8)
GONE = datetime.datetime(2026, 3, 2, 9, 30)
FLAVOR = p.Flavor("m1", 2, 4096, 40, 10)
INSTANCE = p.Instance("uuid-1", "owner", "user-1", FLAVOR, "host-1", CREATED, "active", LAUNCHED)
DELETED = p.Instance(
    "uuid-2", "owner", "user-1", FLAVOR, "host-1", CREATED, "deleted", LAUNCHED, GONE
)
VOLUME = p.Volume(
    "vol-1", "owner", "user-1", 50, "block-1@lvm", CREATED, "in-use", LAUNCHED, attached_to="uuid-1"
)
PORT = p.Port("port-1", "owner", "uuid-1", "host-1", CREATED, "ACTIVE")
DAY = (datetime.datetime(2026, 3, 2), datetime.datetime(2026, 3, 3))


@pytest.fixture(scope="module")
def found(spark: Any) -> dict[str, dict[str, Any]]:
    """Rows of silver by name."""
    from amqp1_driver.pipeline.transform import envelope
    from amqp1_driver.pipeline.transform.silver import silver as table

    def one(
        name: str, event: str, payload: Any, publisher: str = "compute.host-1", **fields: Any
    ) -> bytes:
        made = message(event, payload, message_id=name, publisher_id=publisher, **fields)
        return wrapped(made, request_id="req-1", project_id="admin", user_id="root")

    bodies: list[bytes | None] = [
        one("legacy", "compute.instance.create.end", p.legacy(INSTANCE)),
        one(
            "versioned",
            "instance.create.error",
            p.versioned(INSTANCE, ("NoValidHost", "none left"), request_id="req-p"),
            "nova-compute:host-1",
            priority="error",
        ),
        one("deleted", "instance.delete.end", p.versioned(DELETED)),
        one("exists", "instance.exists", p.exists_versioned(INSTANCE, *DAY)),
        one("exists-legacy", "compute.instance.exists", p.exists_legacy(INSTANCE, *DAY)),
        one(
            "update",
            "instance.update",
            p.versioned(
                INSTANCE,
                state_update={"nova_object.data": {"old_state": "building", "state": "active"}},
            ),
        ),
        one("volume", "volume.attach.end", p.volume(VOLUME), "volume.block-1@lvm"),
        one("request", "port.create.start", p.port_request(PORT), "network.ctrl-1"),
        one("port", "port.create.end", p.port(PORT), "network.ctrl-1"),
        one("port-delete", "port.delete.start", p.port_id(PORT), "network.ctrl-1"),
        one("other", "identity.user.created", {"resource_info": "u"}, "identity.ctrl-1"),
        one("list", "dns.zone.update", ["a", {"b": 1}], "dns"),
        one(
            "odd",
            "compute.instance.create.end",
            {
                "instance_id": "uuid-3",
                "vcpus": "4",
                "memory_mb": 512.0,
                "disk_gb": {"a": 1},
                "launched_at": "soon",
                "nova_object.data": 3,
                "port": [1],
                "state": "",
                "root_gb": -1,
                "size": 1e300,
                "created_at": "+99999-01-01T00:00:00Z",
            },
        ),
        b"{}",
    ]
    frame = table(envelope.opened(raw(spark, bodies)))
    return {row.message_id: row.asDict() for row in frame.collect()}


def _some(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def test_only_the_readable_ones(found: dict[str, dict[str, Any]]) -> None:
    assert len(found) == 13


@pytest.mark.parametrize("name", ["legacy", "versioned"])
def test_an_instance_of_either_kind(found: dict[str, dict[str, Any]], name: str) -> None:
    assert _some(
        found[name],
        "kind",
        "resource_id",
        "instance_id",
        "state",
        "host",
        "node",
        "flavor",
        "vcpus",
        "memory_mb",
        "root_gb",
        "disk_gb",
        "created_at",
        "launched_at",
        "deleted_at",
    ) == (
        "instance",
        "uuid-1",
        "uuid-1",
        "active",
        "host-1",
        "host-1.example",
        "m1",
        2,
        4096,
        40,
        50,
        CREATED,
        LAUNCHED,
        None,
    )
    # the owner's, not those of the administrator in the context
    assert _some(found[name], "tenant_id", "user_id", "request_id") == ("owner", "user-1", "req-1")


def test_event_phase_and_publisher(found: dict[str, dict[str, Any]]) -> None:
    names = ("event", "phase", "failed", "priority", "service", "publisher_host", "error")
    assert _some(found["legacy"], *names) == (
        "compute.instance.create",
        "end",
        False,
        "INFO",
        "compute",
        "host-1",
        None,
    )
    assert _some(found["versioned"], *names) == (
        "instance.create",
        "error",
        True,
        "ERROR",
        "nova-compute",
        "host-1",
        "none left",
    )
    assert _some(found["update"], *names) == (
        "instance.update",
        None,
        False,
        "INFO",
        "compute",
        "host-1",
        None,
    )
    assert _some(found["volume"], *names[4:6]) == ("volume", "block-1@lvm")
    assert _some(found["list"], *names[4:6]) == ("dns", None)


def test_time_and_day(found: dict[str, dict[str, Any]]) -> None:
    assert _some(found["legacy"], "time", "day") == (
        datetime.datetime(2026, 3, 2, 8, 0, 0, 250000),
        datetime.date(2026, 3, 2),
    )


def test_deleted_and_states(found: dict[str, dict[str, Any]]) -> None:
    assert _some(found["deleted"], "state", "deleted_at") == ("deleted", GONE)
    assert _some(found["update"], "old_state", "state") == ("building", "active")


@pytest.mark.parametrize("name", ["exists", "exists-legacy"])
def test_audit_period(found: dict[str, dict[str, Any]], name: str) -> None:
    assert _some(found[name], "audit_begin", "audit_end", "vcpus") == (*DAY, 2)


def test_volume_and_port(found: dict[str, dict[str, Any]]) -> None:
    names = (
        "kind",
        "resource_id",
        "volume_id",
        "port_id",
        "instance_id",
        "size_gb",
        "state",
        "host",
        "tenant_id",
    )
    assert _some(found["volume"], *names) == (
        "volume",
        "vol-1",
        "vol-1",
        None,
        "uuid-1",
        50,
        "in-use",
        "block-1@lvm",
        "owner",
    )
    assert _some(found["port"], *names) == (
        "port",
        "port-1",
        None,
        "port-1",
        "uuid-1",
        None,
        "ACTIVE",
        "host-1",
        "owner",
    )
    assert _some(found["request"], "kind", "resource_id", "tenant_id") == ("port", None, "owner")
    assert found["port-delete"]["resource_id"] == "port-1"


def test_unknown_services_keep_common_traits_and_the_payload(
    found: dict[str, dict[str, Any]],
) -> None:
    names = ("kind", "resource_id", "request_id", "tenant_id", "service")
    assert _some(found["other"], *names) == (None, None, "req-1", "admin", "identity")
    assert json.loads(found["other"]["payload"]) == {"resource_info": "u"}
    assert json.loads(found["list"]["payload"]) == ["a", {"b": 1}]


def test_values_of_other_types_are_read_or_null(found: dict[str, dict[str, Any]]) -> None:
    assert _some(
        found["odd"],
        "resource_id",
        "vcpus",
        "memory_mb",
        "disk_gb",
        "launched_at",
        "state",
        "root_gb",
        "size_gb",
        "created_at",
    ) == ("uuid-3", 4, 512, None, None, None, None, None, None)


def test_first_of_each_and_unknown(spark: Any) -> None:
    from pyspark.sql import functions as F

    from amqp1_driver.pipeline.transform.silver import first_of_each, unknown

    event = "volume.create.end"
    rows = silver(
        spark,
        {"message_id": "a", "time": "02 08:00:00", "event": event, "seq": 2},
        {"message_id": "a", "time": "02 08:00:00", "event": event, "seq": 1},
        # the same id on another day is another notification
        {"message_id": "a", "time": "03 08:00:00", "event": event, "seq": 3},
        {"message_id": "b", "time": "02 08:00:00", "event": event, "seq": 4},
    )
    known = rows.where("message_id = 'b'").select("day", "message_id", F.lit("x").alias("batch"))
    left = unknown(first_of_each(rows), known)
    assert left.columns == rows.columns
    assert sorted((row.message_id, row.time, row.seq) for row in left.collect()) == [
        ("a", plain("02 08:00:00"), 1),
        ("a", plain("03 08:00:00"), 3),
    ]
