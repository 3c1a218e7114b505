# SPDX-License-Identifier: Apache-2.0
"""Nova: API, conductors, scheduler, and hosts with a hypervisor that runs nothing."""

from __future__ import annotations

from tests.cloud.layout import Layout, Sections, merged
from tests.cloud.process import Service

#: a line of each service's log once its server listens
_READY = {
    "nova-conductor": "Starting conductor",
    "nova-scheduler": "Starting scheduler",
    "nova-compute": "Starting compute",
}


def _base(layout: Layout, name: str) -> Sections:
    return merged(
        layout.common(),
        {
            "DEFAULT": {
                "state_path": str(layout.state / name),
                "compute_driver": "cloud.Hypervisor",
                "compute_monitors": "",
                "force_config_drive": False,
                "report_interval": 10,
                "service_down_time": 25,
                "concurrency_backend": "eventlet" if name in layout.eventlet else "threading",
                "osapi_compute_workers": 1,
                "reclaim_instance_interval": 0,
                # there is no hypervisor whose servers could differ from the database
                "sync_power_state_interval": 600,
            },
            # this kind of L2 agent tells of an interface once its port has moved, not before
            "compute": {"live_migration_wait_for_vif_plug": False},
            "conductor": {"workers": 1},
            "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": -1},
            "placement": layout.credentials(),
            "neutron": {**layout.credentials(), "service_metadata_proxy": False},
            "cinder": {**layout.credentials(), "os_region_name": "RegionOne"},
            "glance": {**layout.credentials(), "endpoint_override": layout.url("glance")},
            "service_user": {**layout.credentials(), "send_service_user_token": True},
            "notifications": {
                "notification_format": "both",
                "notify_on_state_change": "vm_and_task_state",
                "versioned_notifications_topics": "nova_versioned",
            },
            "oslo_messaging_notifications": {"topics": "nova"},
            # a cell has no way up to the API database
            "workarounds": {"disable_group_policy_check_upcall": True},
            "vnc": {"enabled": True, "novncproxy_base_url": "http://127.0.0.1/vnc"},
            "filter_scheduler": {"track_instance_changes": True},
        },
    )


def _api_level(layout: Layout) -> Sections:
    return {
        "api_database": {"connection": layout.database("nova_api")},
        "database": {"connection": layout.database("nova_cell0")},
    }


def configure(layout: Layout) -> None:
    """Write one configuration file for each process."""
    folder = layout.etc / "nova"
    cell: Sections = {
        "DEFAULT": {"transport_url": layout.cell_url},
        "database": {"connection": layout.database("nova_cell1")},
    }
    parts: dict[str, Sections] = {
        "nova-api": _api_level(layout),
        "nova-conductor": _api_level(layout),
        "nova-conductor-cell1": cell,
        "nova-scheduler": _api_level(layout),
    }
    for name, part in parts.items():
        layout.write(folder / f"{name}.conf", merged(_base(layout, name), part))
    for host in layout.hosts():
        name = f"nova-{host}"
        (layout.state / name).mkdir(parents=True, exist_ok=True)
        (layout.state / name / "instances").mkdir(exist_ok=True)
        own: Sections = {"DEFAULT": {"host": host, "transport_url": layout.cell_url}}
        layout.write(folder / f"{name}.conf", merged(_base(layout, name), own))


def _paste(layout: Layout) -> str:
    return str(layout.venv / "etc" / "nova" / "api-paste.ini")


def _manage(layout: Layout) -> list[str]:
    return [
        layout.program("nova-manage"),
        "--config-file",
        str(layout.etc / "nova" / "nova-conductor.conf"),
    ]


def schema(layout: Layout) -> list[list[str]]:
    """Return the commands that make its tables and cells."""
    manage = _manage(layout)
    cell0 = ["--database_connection", layout.database("nova_cell0")]
    cell1 = ["--database_connection", layout.database("nova_cell1")]
    return [
        [*manage, "api_db", "sync"],
        [*manage, "cell_v2", "map_cell0", *cell0],
        [*manage, "db", "sync"],
        [
            *(*manage, "cell_v2", "create_cell", "--name", "cell1"),
            *("--transport-url", layout.cell_url, *cell1),
        ],
        [
            *(layout.program("nova-manage"), "--config-file"),
            *(str(layout.etc / "nova" / "nova-conductor-cell1.conf"), "db", "sync", "--local_cell"),
        ],
    ]


def relocate(layout: Layout) -> str:
    """Return SQL that tells a copied database where this cloud's bus and databases are."""
    return "".join(
        f"UPDATE nova_api.cell_mappings SET transport_url='{url}', "
        f"database_connection='{layout.database(database)}' WHERE name='{cell}';"
        for cell, url, database in (
            ("cell0", "none:///", "nova_cell0"),
            ("cell1", layout.cell_url, "nova_cell1"),
        )
    )


def discover(layout: Layout) -> list[str]:
    """Return the command that maps new hosts to their cell."""
    return [*_manage(layout), "cell_v2", "discover_hosts", "--by-service"]


def services(layout: Layout) -> list[Service]:
    """Return all processes, in the order in which they start."""
    folder = layout.etc / "nova"
    environment = {"CLOUD_PORTS": str(layout.state / "ports")}

    def daemon(name: str, program: str, needs: str = "") -> Service:
        command = [layout.program(program), "--config-file", str(folder / f"{name}.conf")]
        return Service(name, command, _READY[program], environment, needs)

    api = Service(
        "nova-api",
        layout.uwsgi("nova.wsgi.osapi_compute", layout.ports["nova"]),
        layout.url("nova"),
        {
            "OS_NOVA_CONFIG_DIR": str(folder),
            "OS_NOVA_CONFIG_FILES": f"{_paste(layout)};nova-api.conf",
            # only programs read the option of that name
            "OS_NOVA_DISABLE_EVENTLET_PATCHING": "no" if "nova-api" in layout.eventlet else "yes",
        },
    )
    return [
        daemon("nova-conductor", "nova-conductor"),
        daemon("nova-conductor-cell1", "nova-conductor"),
        daemon("nova-scheduler", "nova-scheduler"),
        *(
            daemon(f"nova-{host}", "nova-compute", "nova-conductor-cell1")
            for host in layout.hosts()
        ),
        api,
    ]
