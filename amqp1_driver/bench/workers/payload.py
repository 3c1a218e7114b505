# SPDX-License-Identifier: Apache-2.0

"""Contexts and arguments shaped like those that OpenStack services send. Pure.

The names of the fields are those of Nova, Neutron and Cinder; the values come from a random
generator with a seed, so that two processes make the same payload.
"""

from __future__ import annotations

import datetime
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

#: by kind of payload, its default size in bytes
SIZES = {"bytes": 100, "nova": 12 << 10, "neutron": 12 << 10, "cinder": 6 << 10}
#: smallest size of every payload that is not "bytes": its context and one object
LEAST = 2048
_EPOCH = datetime.datetime(2026, 1, 1)


def payload(kind: str, size: int, seed: int = 0) -> tuple[dict[str, Any], Any]:
    """Return the context and the payload of a message.

    For "bytes" the context is empty and the payload is a text. Otherwise both together are ``size``
    bytes of JSON without spaces: as many objects as fit, and a text of the length that is left.

    :param kind: key of ``SIZES``
    :raises ValueError: the size is below ``LEAST``
    """
    if kind == "bytes":
        return {}, "x" * size
    if size < LEAST:
        raise ValueError(f"a payload of {kind} has at least {LEAST} bytes, not {size}")
    source = _Source(random.Random(f"{kind} {seed}"))
    context, large, small = _KINDS[kind]
    ctxt = context(source)
    objects: list[dict[str, Any]] = []
    value = {"objects": objects, "text": ""}
    left = size - _length(ctxt) - _length(value)
    for makers in (itertools.cycle(large), itertools.repeat(small)):
        for make in makers:
            item = make(source)
            length = _length(item) + bool(objects)  # and a comma
            if length > left:
                break
            objects.append(item)
            left -= length
    value["text"] = source.text(left)
    return ctxt, value


def _length(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))


class _Source:
    """Random values of the types that services send."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self.pick = generator.choice
        self.number = generator.randrange

    def hex(self, digits: int) -> str:
        """Return hexadecimal digits, as Keystone's ids are."""
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"

    def uuid(self) -> str:
        digits = self.hex(32)
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def time(self, form: str = "%Y-%m-%dT%H:%M:%SZ") -> str:
        """Return a time in the form that Nova's and Cinder's objects have."""
        return (_EPOCH + datetime.timedelta(seconds=self.number(30_000_000))).strftime(form)

    def host(self) -> str:
        return f"compute-{self.number(1000):03d}.example.org"

    def ip(self) -> str:
        return f"10.{self.number(256)}.{self.number(256)}.{self.number(1, 255)}"

    def mac(self) -> str:
        return "fa:16:3e:" + ":".join(self.hex(2) for _ in range(3))

    def text(self, length: int) -> str:
        """Return a text in base64's alphabet, as user data is: it does not compress well."""
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        return "".join(self._random.choices(letters, k=length))


def _context(source: _Source) -> dict[str, Any]:
    """Return what oslo.context's ``to_dict`` returns for a user with a token."""
    user, project = source.hex(32), source.hex(32)
    request = f"req-{source.uuid()}"
    return {
        "user": user,
        "tenant": project,
        "system_scope": None,
        "project": project,
        "domain": None,
        "user_domain": "default",
        "project_domain": "default",
        "is_admin": False,
        "read_only": False,
        "show_deleted": False,
        "auth_token": f"gAAAAAB{source.text(176)}",
        "request_id": request,
        "global_request_id": None,
        "resource_uuid": None,
        "roles": ["member", "reader"],
        "user_identity": f"{user} {project} - default default",
        "is_admin_project": True,
        "user_id": user,
        "project_id": project,
        "project_name": "demo",
    }


def _nova_context(source: _Source) -> dict[str, Any]:
    return {
        **_context(source),
        "read_deleted": "no",
        "remote_address": source.ip(),
        "timestamp": source.time("%Y-%m-%dT%H:%M:%S.%f"),
        "quota_class": None,
        "user_name": "demo",
        "service_catalog": [
            {
                "type": name,
                "name": name,
                "endpoints": [{"region": "one", "publicURL": f"http://198.51.100.7/{name}"}],
            }
            for name in ("image", "network")
        ],
    }


def _neutron_context(source: _Source) -> dict[str, Any]:
    return {
        **_context(source),
        "timestamp": source.time("%Y-%m-%d %H:%M:%S.%f"),
        "user_name": "demo",
        "tenant_id": source.hex(32),
        "tenant_name": "demo",
        "has_global_access": False,
        "can_set_project_id": False,
    }


def _cinder_context(source: _Source) -> dict[str, Any]:
    return {
        **_context(source),
        "domain_id": None,
        "read_deleted": "no",
        "remote_address": source.ip(),
        "timestamp": source.time("%Y-%m-%dT%H:%M:%S.%f"),
        "quota_class": None,
        "service_catalog": [],
        "message_resource_id": None,
        "message_resource_type": None,
        "message_action": None,
    }


def _object(
    space: str, name: str, version: str, data: dict[str, Any], owner: str = ""
) -> dict[str, Any]:
    """Return an object as oslo.versionedobjects serializes it.

    :param space: beginning of its keys
    :param owner: project that its namespace names; empty: ``space`` without "_object"
    """
    return {
        f"{space}.name": name,
        f"{space}.namespace": owner or space.removesuffix("_object"),
        f"{space}.version": version,
        f"{space}.data": data,
        f"{space}.changes": sorted(data)[:4],
    }


def _nova(name: str, version: str, data: dict[str, Any]) -> dict[str, Any]:
    return _object("nova_object", name, version, data)


def _service(source: _Source) -> dict[str, Any]:
    host = source.host()
    data = {
        "id": source.number(1000),
        "uuid": source.uuid(),
        "host": host,
        "binary": "nova-compute",
        "topic": "compute",
        "report_count": source.number(1_000_000),
        "disabled": False,
        "disabled_reason": None,
        "last_seen_up": source.time(),
        "forced_down": False,
        "version": 69,
    }
    return _nova("Service", "1.22", data)


def _flavor(source: _Source) -> dict[str, Any]:
    cores = source.pick((1, 2, 4, 8))
    data = {
        "id": source.number(100),
        "name": f"m1.{cores}",
        "memory_mb": 2048 * cores,
        "vcpus": cores,
        "root_gb": 10 * cores,
        "ephemeral_gb": 0,
        "flavorid": source.uuid(),
        "swap": 0,
        "rxtx_factor": 1.0,
        "vcpu_weight": 0,
        "disabled": False,
        "is_public": True,
        "extra_specs": {"hw:cpu_policy": "shared", "hw_rng:allowed": "True"},
        "description": None,
        "created_at": source.time(),
        "updated_at": None,
        "deleted_at": None,
        "deleted": False,
    }
    return _nova("Flavor", "1.2", data)


def _request_spec(source: _Source) -> dict[str, Any]:
    data = {
        "id": source.number(100_000),
        "instance_uuid": source.uuid(),
        "project_id": source.hex(32),
        "user_id": source.hex(32),
        "availability_zone": "nova",
        "num_instances": 1,
        "is_bfv": False,
        "ignore_hosts": None,
        "force_hosts": None,
        "force_nodes": None,
        "scheduler_hints": {},
        "requested_destination": None,
        "retry": None,
        "instance_group": None,
        "numa_topology": None,
        "limits": _nova(
            "SchedulerLimits",
            "1.0",
            {"numa_topology": None, "vcpu": None, "disk_gb": None, "memory_mb": None},
        ),
        "flavor": _flavor(source),
        "image": _nova(
            "ImageMeta",
            "1.8",
            {
                "id": source.uuid(),
                "name": "debian-12",
                "status": "active",
                "container_format": "bare",
                "disk_format": "qcow2",
                "size": source.number(1 << 30, 1 << 34),
                "min_ram": 0,
                "min_disk": 0,
            },
        ),
    }
    return _nova("RequestSpec", "1.15", data)


def _instance(source: _Source) -> dict[str, Any]:
    identity, host, image = source.uuid(), source.host(), source.uuid()
    network_info = [
        {
            "id": source.uuid(),
            "address": source.mac(),
            "network": {
                "id": source.uuid(),
                "bridge": "br-int",
                "label": "private",
                "subnets": [
                    {
                        "cidr": "10.0.0.0/8",
                        "ips": [{"address": source.ip(), "type": "fixed", "version": 4}],
                    }
                ],
            },
            "type": "ovs",
            "devname": f"tap{source.hex(8)}-{source.hex(2)}",
            "active": True,
        }
    ]
    data = {
        "id": source.number(1_000_000),
        "uuid": identity,
        "user_id": source.hex(32),
        "project_id": source.hex(32),
        "image_ref": image,
        "kernel_id": "",
        "ramdisk_id": "",
        "hostname": f"vm-{identity[:8]}",
        "launch_index": 0,
        "key_name": None,
        "key_data": None,
        "power_state": 1,
        "vm_state": "active",
        "task_state": source.pick((None, "rebooting", "powering-off")),
        "memory_mb": 4096,
        "vcpus": 2,
        "root_gb": 20,
        "ephemeral_gb": 0,
        "ephemeral_key_uuid": None,
        "host": host,
        "node": host,
        "compute_id": source.number(1000),
        "instance_type_id": source.number(100),
        "user_data": None,
        "reservation_id": f"r-{source.hex(8)}",
        "launched_at": source.time(),
        "terminated_at": None,
        "availability_zone": "nova",
        "display_name": f"vm-{identity[:8]}",
        "display_description": None,
        "launched_on": host,
        "locked": False,
        "locked_by": None,
        "os_type": None,
        "architecture": None,
        "vm_mode": None,
        "root_device_name": "/dev/vda",
        "default_ephemeral_device": None,
        "default_swap_device": None,
        "config_drive": "",
        "access_ip_v4": None,
        "access_ip_v6": None,
        "auto_disk_config": False,
        "progress": 0,
        "shutdown_terminate": False,
        "disable_terminate": False,
        "cell_name": None,
        "metadata": {"role": source.pick(("web", "db", "cache"))},
        "system_metadata": {
            "boot_roles": "member,reader",
            "image_base_image_ref": image,
            "image_container_format": "bare",
            "image_disk_format": "qcow2",
            "image_min_disk": "20",
            "image_min_ram": "0",
            "owner_project_name": "demo",
            "owner_user_name": "demo",
        },
        "info_cache": _nova(
            "InstanceInfoCache",
            "1.5",
            {
                "instance_uuid": identity,
                # Nova stores this one as text
                "network_info": json.dumps(network_info),
                "created_at": source.time(),
                "updated_at": source.time(),
                "deleted": False,
                "deleted_at": None,
            },
        ),
        "cleaned": False,
        "flavor": _flavor(source),
        "old_flavor": None,
        "new_flavor": None,
        "hidden": False,
        "created_at": source.time(),
        "updated_at": source.time(),
        "deleted_at": None,
        "deleted": False,
    }
    return _nova("Instance", "2.8", data)


def _neutron(name: str, version: str, data: dict[str, Any]) -> dict[str, Any]:
    return _object("versioned_object", name, version, data, "neutron")


def _rule(source: _Source) -> dict[str, Any]:
    data = {
        "id": source.uuid(),
        "project_id": source.hex(32),
        "security_group_id": source.uuid(),
        "remote_group_id": None,
        "direction": source.pick(("ingress", "egress")),
        "ethertype": "IPv4",
        "protocol": source.pick(("tcp", "udp", None)),
        "port_range_min": source.number(1, 1024),
        "port_range_max": 65535,
        "remote_ip_prefix": "0.0.0.0/0",
        "remote_address_group_id": None,
        "normalized_cidr": "0.0.0.0/0",
        "belongs_to_default_sg": False,
        "standard_attr_id": source.number(1_000_000),
    }
    return _neutron("SecurityGroupRule", "1.3", data)


def _device(source: _Source) -> dict[str, Any]:
    """Return an item of what ``get_devices_details_list_and_failed_devices`` returns."""
    port = source.uuid()
    return {
        "device": port,
        "network_id": source.uuid(),
        "port_id": port,
        "mac_address": source.mac(),
        "admin_state_up": True,
        "network_type": "vxlan",
        "segmentation_id": source.number(1, 1 << 24),
        "physical_network": None,
        "mtu": 1450,
        "fixed_ips": [{"subnet_id": source.uuid(), "ip_address": source.ip()}],
        "device_owner": "compute:nova",
        "allowed_address_pairs": [],
        "port_security_enabled": True,
        "qos_policy_id": None,
        "network_qos_policy_id": None,
        "profile": {},
        "vif_type": "ovs",
        "propagate_uplink_status": False,
        "security_groups": [source.uuid()],
    }


def _port(source: _Source) -> dict[str, Any]:
    identity, host = source.uuid(), source.host()
    binding = {
        "port_id": identity,
        "host": host,
        "profile": {},
        "vif_type": "ovs",
        "vif_details": {"port_filter": True, "bridge_name": "br-int", "datapath_type": "system"},
        "vnic_type": "normal",
        "status": "ACTIVE",
    }
    data = {
        "id": identity,
        "project_id": source.hex(32),
        "name": "",
        "network_id": source.uuid(),
        "mac_address": source.mac(),
        "admin_state_up": True,
        "device_id": source.uuid(),
        "device_owner": "compute:nova",
        "status": "ACTIVE",
        "allowed_address_pairs": [],
        "bindings": [_neutron("PortBinding", "1.0", binding)],
        "data_plane_status": None,
        "dhcp_options": [],
        "distributed_bindings": [],
        "dns": None,
        "fixed_ips": [
            _neutron(
                "IPAllocation",
                "1.0",
                {
                    "port_id": identity,
                    "subnet_id": source.uuid(),
                    "network_id": source.uuid(),
                    "ip_address": source.ip(),
                },
            )
        ],
        "security": _neutron(
            "PortSecurity", "1.0", {"id": identity, "port_security_enabled": True}
        ),
        "security_group_ids": [source.uuid()],
        "qos_policy_id": None,
        "qos_network_policy_id": None,
        "binding_levels": [],
        "numa_affinity_policy": None,
        "device_profile": None,
        "created_at": source.time(),
        "updated_at": source.time(),
        "revision_number": source.number(100),
        "description": "",
    }
    return _neutron("Port", "1.10", data)


def _cinder(name: str, version: str, data: dict[str, Any]) -> dict[str, Any]:
    return _object("versioned_object", name, version, data, "cinder")


def _snapshot(source: _Source) -> dict[str, Any]:
    data = {
        "id": source.uuid(),
        "user_id": source.hex(32),
        "project_id": source.hex(32),
        "volume_id": source.uuid(),
        "status": "available",
        "progress": "100%",
        "volume_size": source.number(1, 500),
        "display_name": "daily",
        "display_description": None,
        "metadata": {},
        "deleted": False,
    }
    return _cinder("Snapshot", "1.6", data)


def _volume(source: _Source) -> dict[str, Any]:
    identity = source.uuid()
    attachment = {
        "id": source.uuid(),
        "volume_id": identity,
        "instance_uuid": source.uuid(),
        "attached_host": source.host(),
        "mountpoint": "/dev/vdb",
        "attach_time": source.time(),
        "attach_mode": "rw",
        "attach_status": "attached",
        "connection_info": {"driver_volume_type": "rbd", "auth_enabled": True, "secret": None},
    }
    volume_type: dict[str, Any] = {
        "id": source.uuid(),
        "name": "ceph",
        "description": None,
        "is_public": True,
        "projects": [],
        "extra_specs": {"volume_backend_name": "ceph"},
        "qos_specs_id": None,
    }
    data = {
        "id": identity,
        "_name_id": None,
        "ec2_id": None,
        "user_id": source.hex(32),
        "project_id": source.hex(32),
        "use_quota": True,
        "snapshot_id": None,
        "cluster_name": None,
        "host": f"{source.host()}@ceph#ceph",
        "size": source.number(1, 500),
        "availability_zone": "nova",
        "status": "in-use",
        "attach_status": "attached",
        "migration_status": None,
        "scheduled_at": source.time(),
        "launched_at": source.time(),
        "terminated_at": None,
        "display_name": f"volume-{identity[:8]}",
        "display_description": None,
        "provider_id": None,
        "provider_location": None,
        "provider_auth": None,
        "provider_geometry": None,
        "volume_type_id": volume_type["id"],
        "source_volid": None,
        "encryption_key_id": None,
        "consistencygroup_id": None,
        "group_id": None,
        "deleted": False,
        "bootable": True,
        "multiattach": False,
        "replication_status": None,
        "replication_extended_status": None,
        "replication_driver_data": None,
        "previous_status": None,
        "metadata": {"readonly": "False"},
        "admin_metadata": {},
        "glance_metadata": {"image_name": "debian-12", "disk_format": "raw"},
        "volume_type": _cinder("VolumeType", "1.3", volume_type),
        "volume_attachment": _cinder(
            "VolumeAttachmentList",
            "1.1",
            {"objects": [_cinder("VolumeAttachment", "1.3", attachment)]},
        ),
        "service_uuid": source.uuid(),
        "shared_targets": False,
        "created_at": source.time(),
        "updated_at": source.time(),
        "deleted_at": None,
    }
    return _cinder("Volume", "1.9", data)


_Maker = Callable[[_Source], dict[str, Any]]
#: by kind: its context, its large objects, and a small one for the space that is left
_KINDS: dict[str, tuple[_Maker, tuple[_Maker, ...], _Maker]] = {
    "nova": (_nova_context, (_request_spec, _instance, _instance), _service),
    "neutron": (_neutron_context, (_device, _rule, _port), _device),
    "cinder": (_cinder_context, (_volume,), _snapshot),
}
