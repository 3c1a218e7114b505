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

"""Payloads as nova (legacy and versioned), cinder and neutron write them, shortened."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

Time = datetime.datetime


@dataclasses.dataclass(frozen=True)
class Flavor:
    """What an instance takes; memory in MiB, disks in GB."""

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
    """nova's legacy payloads have an empty text for no time."""
    return "" if time is None else str(time.replace(microsecond=0))


def _zulu(time: Time | None) -> str | None:
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _object(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"nova_object.name": name, "nova_object.namespace": "nova",
            "nova_object.version": "1.0", "nova_object.data": data}


def legacy(i: Instance, **more: Any) -> dict[str, Any]:
    """``compute.instance.*``."""
    return {
        "tenant_id": i.tenant_id, "user_id": i.user_id, "instance_id": i.uuid,
        "display_name": f"vm-{i.uuid[:8]}", "instance_type": i.flavor.name,
        "vcpus": i.flavor.vcpus, "memory_mb": i.flavor.memory_mb,
        "disk_gb": i.flavor.root_gb + i.flavor.ephemeral_gb, "root_gb": i.flavor.root_gb,
        "ephemeral_gb": i.flavor.ephemeral_gb, "host": i.host, "node": f"{i.host}.example",
        "availability_zone": "nova", "state": i.state, "created_at": _space(i.created_at),
        "launched_at": _space(i.launched_at), "deleted_at": _space(i.deleted_at),
        "terminated_at": _space(i.deleted_at), "metadata": {}, **more,
    }


def versioned(i: Instance, fault: tuple[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """``instance.*``; ``fault``: exception and its text."""
    flavor = _object("FlavorPayload", {
        "flavorid": i.flavor.name, "name": i.flavor.name, "vcpus": i.flavor.vcpus,
        "memory_mb": i.flavor.memory_mb, "root_gb": i.flavor.root_gb,
        "ephemeral_gb": i.flavor.ephemeral_gb, "swap": 0, "is_public": True})
    failure = None if fault is None else _object("ExceptionPayload", {
        "exception": fault[0], "exception_message": fault[1],
        "module_name": "nova.compute.manager", "function_name": "_build_and_run_instance"})
    return _object("InstanceActionPayload", {
        "uuid": i.uuid, "tenant_id": i.tenant_id, "user_id": i.user_id,
        "display_name": f"vm-{i.uuid[:8]}", "host": i.host, "node": f"{i.host}.example",
        "state": i.state, "power_state": "running", "task_state": None, "flavor": flavor,
        "created_at": _zulu(i.created_at), "launched_at": _zulu(i.launched_at),
        "deleted_at": _zulu(i.deleted_at), "terminated_at": _zulu(i.deleted_at),
        "ip_addresses": [], "fault": failure, **more})


def exists_legacy(i: Instance, begin: Time, end: Time) -> dict[str, Any]:
    """``compute.instance.exists``."""
    return legacy(i, audit_period_beginning=str(begin), audit_period_ending=str(end),
                  bandwidth={})


def exists_versioned(i: Instance, begin: Time, end: Time) -> dict[str, Any]:
    """``instance.exists``."""
    return versioned(i, audit_period=_object("AuditPeriodPayload", {
        "audit_period_beginning": _zulu(begin), "audit_period_ending": _zulu(end)}))


def volume(v: Volume, **more: Any) -> dict[str, Any]:
    """``volume.*``."""
    attached = [{"instance_uuid": v.attached_to, "device": "/dev/vdb"}] if v.attached_to else []
    return {
        "tenant_id": v.tenant_id, "user_id": v.user_id, "volume_id": v.id, "volume_type": "fast",
        "display_name": f"vol-{v.id[:8]}", "availability_zone": "nova", "host": v.host,
        "size": v.size, "status": v.status, "created_at": _iso(v.created_at),
        "launched_at": _iso(v.launched_at), "deleted_at": _iso(v.deleted_at),
        "volume_attachment": attached, "metadata": [], **more,
    }


def exists_volume(v: Volume, begin: Time, end: Time) -> dict[str, Any]:
    """``volume.exists``."""
    return volume(v, audit_period_beginning=str(begin), audit_period_ending=str(end))


def port_request(p: Port) -> dict[str, Any]:
    """``port.create.start``: the request, which has no id yet."""
    return {"port": {"network_id": "net-1", "device_id": p.device_id, "admin_state_up": True,
                     "tenant_id": p.tenant_id}}


def port(p: Port) -> dict[str, Any]:
    """``port.create.end``, ``port.delete.end``."""
    return {"port": {
        "id": p.id, "network_id": "net-1", "tenant_id": p.tenant_id, "project_id": p.tenant_id,
        "device_id": p.device_id, "device_owner": "compute:nova", "status": p.status,
        "binding:host_id": p.host, "mac_address": "fa:16:3e:00:00:01",
        "fixed_ips": [{"subnet_id": "sub-1", "ip_address": "192.0.2.7"}],
        "created_at": _zulu(p.created_at)}}


def port_id(p: Port) -> dict[str, Any]:
    """``port.delete.start``."""
    return {"port_id": p.id}


def _iso(time: Time | None) -> str | None:
    return None if time is None else time.replace(tzinfo=datetime.UTC).isoformat()
