# SPDX-License-Identifier: Apache-2.0

"""The traits in notification payloads of nova, cinder and neutron.  Pure; any thread.

nova's legacy payloads (``compute.instance.*``) are flat; its versioned ones (``instance.*``) have
each object's fields below ``nova_object.data``. This module reads numbers as text first, because
services write them as numbers or as text. A value of an unexpected type becomes null, never an
error.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import number_of, time_of

_FLAVOR = """STRUCT<flavorid: STRING, name: STRING, vcpus: STRING, memory_mb: STRING,
    root_gb: STRING, ephemeral_gb: STRING>"""


def _object(fields: str) -> str:
    return f"STRUCT<`nova_object.data`: {fields}>"


_PAYLOAD = f"""
    tenant_id STRING, project_id STRING, user_id STRING, request_id STRING,
    instance_id STRING, instance_uuid STRING, volume_id STRING, port_id STRING, id STRING,
    instance_type STRING, vcpus STRING, memory_mb STRING, disk_gb STRING, root_gb STRING,
    host STRING, node STRING, state STRING, old_state STRING, status STRING, size STRING,
    created_at STRING, launched_at STRING, deleted_at STRING, terminated_at STRING,
    audit_period_beginning STRING, audit_period_ending STRING,
    exception STRING, message STRING, reason STRING,
    volume_attachment ARRAY<STRUCT<instance_uuid: STRING>>,
    port STRUCT<id: STRING, tenant_id: STRING, project_id: STRING, device_id: STRING,
        device_owner: STRING, status: STRING, `binding:host_id`: STRING, created_at: STRING>,
    `nova_object.data` STRUCT<uuid: STRING, tenant_id: STRING, user_id: STRING, request_id: STRING,
        host: STRING, node: STRING, state: STRING, created_at: STRING, launched_at: STRING,
        deleted_at: STRING, terminated_at: STRING,
        flavor: {_object(_FLAVOR)},
        fault: {_object("STRUCT<exception: STRING, exception_message: STRING>")},
        state_update: {_object("STRUCT<old_state: STRING, state: STRING>")},
        audit_period: {
    _object("STRUCT<audit_period_beginning: STRING, audit_period_ending: STRING>")
}>
"""
_DATA = "`nova_object.data`"
#: prefix of the event types of the three services, kind of the resource
_KINDS = (
    ("compute.instance.", "instance"),
    ("instance.", "instance"),
    ("volume.", "volume"),
    ("port.", "port"),
)


def parsed(payload: Column) -> Column:
    """Parse the payload into a struct; null if the payload is not a JSON object."""
    return F.from_json(payload, _PAYLOAD)


def kind_of(event_type: Column) -> Column:
    """Return ``instance``, ``volume`` or ``port``; null for events of other resources."""
    return F.coalesce(*(F.when(event_type.startswith(prefix), kind) for prefix, kind in _KINDS))


def traits(p: str, kind: Column) -> dict[str, Column]:
    """Return the columns of the silver table that come from the payload.

    :param p: name of the column with the parsed payload
    :param kind: kind of the resource, by :func:`kind_of`
    """
    found = {**_identities(p, kind), **_sizes(p), **_times(p)}
    found.update(
        {
            "state": _first(
                p,
                f"{_DATA}.state_update.{_DATA}.state",
                f"{_DATA}.state",
                "state",
                "status",
                "port.status",
            ),
            "old_state": _first(p, f"{_DATA}.state_update.{_DATA}.old_state", "old_state"),
            "host": _first(p, f"{_DATA}.host", "host", "port.`binding:host_id`"),
            "node": _first(p, f"{_DATA}.node", "node"),
            "error": _first(
                p,
                f"{_DATA}.fault.{_DATA}.exception_message",
                f"{_DATA}.fault.{_DATA}.exception",
                "message",
                "exception",
                "reason",
            ),
        }
    )
    return found


def _first(p: str, *paths: str) -> Column:
    """Return the first of these texts that is not empty, else null."""
    values = [F.col(f"{p}.{path}") for path in paths]
    return F.coalesce(*(F.when(value != "", value) for value in values))


def _identities(p: str, kind: Column) -> dict[str, Column]:
    instance = _first(p, f"{_DATA}.uuid", "instance_id", "instance_uuid")
    volume = _first(p, "volume_id")
    port = _first(p, "port.id", "port_id", "id")
    attached = F.get(F.col(f"{p}.volume_attachment"), F.lit(0))["instance_uuid"]
    served = F.when(
        F.col(f"{p}.port.device_owner").startswith("compute:"), F.col(f"{p}.port.device_id")
    )
    return {
        "resource_id": F.when(kind == "instance", instance)
        .when(kind == "volume", volume)
        .when(kind == "port", port),
        "instance_id": F.coalesce(instance, attached, F.when(served != "", served)),
        "volume_id": volume,
        "port_id": F.when(kind == "port", port).otherwise(_first(p, "port_id")),
        "p_tenant_id": _first(
            p, f"{_DATA}.tenant_id", "tenant_id", "project_id", "port.project_id", "port.tenant_id"
        ),
        "p_user_id": _first(p, f"{_DATA}.user_id", "user_id"),
        "p_request_id": _first(p, f"{_DATA}.request_id", "request_id"),
    }


def _sizes(p: str) -> dict[str, Column]:
    flavor = f"{_DATA}.flavor.{_DATA}"
    root = number_of(_first(p, f"{flavor}.root_gb", "root_gb"), "bigint")
    ephemeral = number_of(_first(p, f"{flavor}.ephemeral_gb"), "bigint")
    whole = number_of(_first(p, "disk_gb"), "bigint")  # legacy: sum of root and ephemeral
    return {
        "flavor": _first(p, f"{flavor}.name", f"{flavor}.flavorid", "instance_type"),
        "vcpus": number_of(_first(p, f"{flavor}.vcpus", "vcpus"), "int"),
        "memory_mb": number_of(_first(p, f"{flavor}.memory_mb", "memory_mb"), "bigint"),
        "root_gb": root,
        "disk_gb": F.coalesce(whole, root + F.coalesce(ephemeral, F.lit(0))),
        "size_gb": number_of(_first(p, "size"), "bigint"),
    }


def _times(p: str) -> dict[str, Column]:
    period = f"{_DATA}.audit_period.{_DATA}"
    names = {
        "created_at": (f"{_DATA}.created_at", "created_at", "port.created_at"),
        "launched_at": (f"{_DATA}.launched_at", "launched_at"),
        "deleted_at": (
            f"{_DATA}.deleted_at",
            f"{_DATA}.terminated_at",
            "deleted_at",
            "terminated_at",
        ),
        "audit_begin": (f"{period}.audit_period_beginning", "audit_period_beginning"),
        "audit_end": (f"{period}.audit_period_ending", "audit_period_ending"),
    }
    return {name: time_of(_first(p, *paths)) for name, paths in names.items()}
