# SPDX-License-Identifier: Apache-2.0

"""Shortened payloads of nova (legacy and versioned), cinder and neutron.

Pure, for any thread.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

Time = datetime.datetime


@dataclasses.dataclass(frozen=True)
class Flavor:
    """The size of an instance; memory in MiB, disks in GB."""

    name: str
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int = 0


@dataclasses.dataclass
class Instance:
    """An instance as nova knows it."""

    uuid: str
    tenant_id: str
    user_id: str
    flavor: Flavor
    host: str
    created_at: Time
    state: str = "building"
    launched_at: Time | None = None
    deleted_at: Time | None = None


@dataclasses.dataclass
class Volume:
    """A volume as cinder knows it."""

    id: str
    tenant_id: str
    user_id: str
    size: int
    host: str
    created_at: Time
    status: str = "creating"
    launched_at: Time | None = None
    deleted_at: Time | None = None
    attached_to: str | None = None


@dataclasses.dataclass
class Port:
    """A port as neutron knows it."""

    id: str
    tenant_id: str
    device_id: str
    host: str
    created_at: Time
    status: str = "DOWN"


def _space(time: Time | None) -> str:
    """Format a time as nova's legacy payloads do: None becomes an empty text."""
    return "" if time is None else str(time.replace(microsecond=0))


def _zulu(time: Time | None) -> str | None:
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _object(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": "1.0",
        "nova_object.data": data,
    }


def legacy(i: Instance, **more: Any) -> dict[str, Any]:
    """Return a legacy payload of nova, for ``compute.instance.*``."""
    return {
        "tenant_id": i.tenant_id,
        "user_id": i.user_id,
        "instance_id": i.uuid,
        "display_name": f"vm-{i.uuid[:8]}",
        "instance_type": i.flavor.name,
        "vcpus": i.flavor.vcpus,
        "memory_mb": i.flavor.memory_mb,
        "disk_gb": i.flavor.root_gb + i.flavor.ephemeral_gb,
        "root_gb": i.flavor.root_gb,
        "ephemeral_gb": i.flavor.ephemeral_gb,
        "host": i.host,
        "node": f"{i.host}.example",
        "availability_zone": "nova",
        "state": i.state,
        "created_at": _space(i.created_at),
        "launched_at": _space(i.launched_at),
        "deleted_at": _space(i.deleted_at),
        "terminated_at": _space(i.deleted_at),
        "metadata": {},
        **more,
    }


def versioned(i: Instance, fault: tuple[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """Return a versioned payload of nova, for ``instance.*``.

    :param fault: class and text of an exception
    """
    flavor = _object(
        "FlavorPayload",
        {
            "flavorid": i.flavor.name,
            "name": i.flavor.name,
            "vcpus": i.flavor.vcpus,
            "memory_mb": i.flavor.memory_mb,
            "root_gb": i.flavor.root_gb,
            "ephemeral_gb": i.flavor.ephemeral_gb,
            "swap": 0,
            "is_public": True,
        },
    )
    failure = (
        None
        if fault is None
        else _object(
            "ExceptionPayload",
            {
                "exception": fault[0],
                "exception_message": fault[1],
                "module_name": "nova.compute.manager",
                "function_name": "_build_and_run_instance",
            },
        )
    )
    return _object(
        "InstanceActionPayload",
        {
            "uuid": i.uuid,
            "tenant_id": i.tenant_id,
            "user_id": i.user_id,
            "display_name": f"vm-{i.uuid[:8]}",
            "host": i.host,
            "node": f"{i.host}.example",
            "state": i.state,
            "power_state": "running",
            "task_state": None,
            "flavor": flavor,
            "created_at": _zulu(i.created_at),
            "launched_at": _zulu(i.launched_at),
            "deleted_at": _zulu(i.deleted_at),
            "terminated_at": _zulu(i.deleted_at),
            "ip_addresses": [],
            "fault": failure,
            **more,
        },
    )


def exists_legacy(i: Instance, begin: Time, end: Time) -> dict[str, Any]:
    """Return the payload of ``compute.instance.exists`` for an audit period."""
    return legacy(i, audit_period_beginning=str(begin), audit_period_ending=str(end), bandwidth={})


def exists_versioned(i: Instance, begin: Time, end: Time) -> dict[str, Any]:
    """Return the payload of ``instance.exists`` for an audit period."""
    return versioned(
        i,
        audit_period=_object(
            "AuditPeriodPayload",
            {"audit_period_beginning": _zulu(begin), "audit_period_ending": _zulu(end)},
        ),
    )


def volume(v: Volume, **more: Any) -> dict[str, Any]:
    """Return a payload of cinder, for ``volume.*``."""
    attached = [{"instance_uuid": v.attached_to, "device": "/dev/vdb"}] if v.attached_to else []
    return {
        "tenant_id": v.tenant_id,
        "user_id": v.user_id,
        "volume_id": v.id,
        "volume_type": "fast",
        "display_name": f"vol-{v.id[:8]}",
        "availability_zone": "nova",
        "host": v.host,
        "size": v.size,
        "status": v.status,
        "created_at": _iso(v.created_at),
        "launched_at": _iso(v.launched_at),
        "deleted_at": _iso(v.deleted_at),
        "volume_attachment": attached,
        "metadata": [],
        **more,
    }


def exists_volume(v: Volume, begin: Time, end: Time) -> dict[str, Any]:
    """Return the payload of ``volume.exists`` for an audit period."""
    return volume(v, audit_period_beginning=str(begin), audit_period_ending=str(end))


def port_request(p: Port) -> dict[str, Any]:
    """Return the payload of ``port.create.start``: the request, which has no port id yet."""
    return {
        "port": {
            "network_id": "net-1",
            "device_id": p.device_id,
            "admin_state_up": True,
            "tenant_id": p.tenant_id,
        }
    }


def port(p: Port) -> dict[str, Any]:
    """Return the payload of ``port.create.end`` and ``port.delete.end``."""
    return {
        "port": {
            "id": p.id,
            "network_id": "net-1",
            "tenant_id": p.tenant_id,
            "project_id": p.tenant_id,
            "device_id": p.device_id,
            "device_owner": "compute:nova",
            "status": p.status,
            "binding:host_id": p.host,
            "mac_address": "fa:16:3e:00:00:01",
            "fixed_ips": [{"subnet_id": "sub-1", "ip_address": "192.0.2.7"}],
            "created_at": _zulu(p.created_at),
        }
    }


def port_id(p: Port) -> dict[str, Any]:
    """Return the payload of ``port.delete.start``: the port id alone."""
    return {"port_id": p.id}


def _iso(time: Time | None) -> str | None:
    return None if time is None else time.replace(tzinfo=datetime.UTC).isoformat()
