# SPDX-License-Identifier: Apache-2.0
"""Neutron: API, RPC server, and an L2 agent on each host that does everything but touch the host.

Left out, since they need root: the agents for DHCP, routing and metadata, and Open vSwitch.
"""

from __future__ import annotations

from tests.cloud.layout import INSIDE, Layout, Sections, merged
from tests.cloud.process import Service


def _base(layout: Layout) -> Sections:
    return merged(
        layout.common(),
        {
            "DEFAULT": {
                "api_paste_config": str(layout.venv / "etc" / "neutron" / "api-paste.ini"),
                "state_path": str(layout.state / "neutron"),
                "core_plugin": "ml2",
                "service_plugins": "router",
                "rpc_workers": 1,
                "rpc_state_report_workers": 1,
                "notify_nova_on_port_status_changes": True,
                "notify_nova_on_port_data_changes": True,
                "agent_down_time": 30,
            },
            "database": {"connection": layout.database("neutron")},
            "nova": layout.credentials(),
            "placement": layout.credentials(),
            # Neutron's own mechanism driver for agents that are not there
            "ml2": {
                "type_drivers": "local",
                "tenant_network_types": "local",
                "mechanism_drivers": "fake_agent",
            },
            "securitygroup": {"enable_security_group": True, "firewall_driver": "noop"},
            "oslo_messaging_notifications": {"topics": "neutron"},
        },
    )


def configure(layout: Layout) -> None:
    """Write the configuration of the server, and one file for each agent."""
    folder = layout.etc / "neutron"
    layout.write(folder / "neutron.conf", _base(layout))
    for host in layout.hosts():
        own: Sections = {
            "DEFAULT": {"host": host},
            "agent": {"polling_interval": 1, "report_interval": 10},
        }
        layout.write(folder / f"agent-{host}.conf", merged(_base(layout), own))


def schema(layout: Layout) -> list[list[str]]:
    """Return the command that makes its tables."""
    configuration = str(layout.etc / "neutron" / "neutron.conf")
    return [
        [layout.program("neutron-db-manage"), "--config-file", configuration, "upgrade", "head"]
    ]


def services(layout: Layout) -> list[Service]:
    """Return all processes."""
    folder = layout.etc / "neutron"
    configuration = str(folder / "neutron.conf")
    api = Service(
        "neutron-api",
        layout.uwsgi("neutron.wsgi.api", layout.ports["neutron"]),
        layout.url("neutron"),
        {"OS_NEUTRON_CONFIG_FILES": configuration},
    )
    server = Service(
        "neutron-rpc-server",
        [layout.program("neutron-rpc-server"), "--config-file", configuration],
        "AMQP RPC server starting",
    )
    agents = [
        Service(
            f"neutron-agent-{host}",
            [
                *(layout.program("python"), str(INSIDE / "agent_neutron.py")),
                *("--config-file", str(folder / f"agent-{host}.conf")),
            ],
            "Agent RPC Daemon Started",
            {"CLOUD_PORTS": str(layout.state / "ports" / host)},
            needs=server.name,
        )
        for host in layout.hosts()
    ]
    return [api, server, *agents]
