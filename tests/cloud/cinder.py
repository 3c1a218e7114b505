# SPDX-License-Identifier: Apache-2.0
"""Cinder: API, scheduler, and two back ends whose volumes exist in the database only.

Left out: backups, which would read the volumes. Scheduler and back ends run with eventlet, the
only way that Cinder 29 knows; the API runs with native threads.
"""

from __future__ import annotations

from tests.cloud.layout import Layout, Sections, merged
from tests.cloud.process import Service

#: names of the back ends, which are the names of the volume types too
BACKENDS = ("one", "two")


def configure(layout: Layout) -> None:
    """Write the one configuration file."""
    backends: Sections = {
        name: {
            "volume_driver": "fakes_cinder.Backend",
            "volume_backend_name": name,
        }
        for name in BACKENDS
    }
    layout.write(
        layout.etc / "cinder" / "cinder.conf",
        merged(
            layout.common(),
            {
                "DEFAULT": {
                    "host": "volumes",
                    "api_paste_config": str(layout.venv / "etc" / "cinder" / "api-paste.ini"),
                    "resource_query_filters_file": str(
                        layout.venv / "etc" / "cinder" / "resource_filters.json"
                    ),
                    "state_path": str(layout.state / "cinder"),
                    "auth_strategy": "keystone",
                    "enabled_backends": ",".join(BACKENDS),
                    "default_volume_type": BACKENDS[0],
                    "glance_api_servers": layout.url("glance"),
                    "report_interval": 10,
                    # a scheduler that starts after a back end hears of it then
                    "backend_stats_polling_interval": 5,
                    "service_down_time": 30,
                },
                "database": {"connection": layout.database("cinder")},
                "coordination": {"backend_url": f"file://{layout.state}/cinder-coordination"},
                "nova": {**layout.credentials(), "interface": "public"},
                "service_user": {**layout.credentials(), "send_service_user_token": True},
                "oslo_messaging_notifications": {"topics": "cinder"},
            },
            backends,
        ),
    )
    for folder in ("cinder", "cinder-coordination"):
        (layout.state / folder).mkdir(parents=True, exist_ok=True)


def _file(layout: Layout) -> str:
    return str(layout.etc / "cinder" / "cinder.conf")


def schema(layout: Layout) -> list[list[str]]:
    """Return the command that makes its tables."""
    return [[layout.program("cinder-manage"), "--config-file", _file(layout), "db", "sync"]]


def services(layout: Layout) -> list[Service]:
    """Return all processes."""
    option = ["--config-file", _file(layout)]
    api = layout.uwsgi(
        "cinder.wsgi.api", layout.ports["cinder"], "--pyargv", f"--config-file {_file(layout)}"
    )
    return [
        Service("cinder-api", api, layout.url("cinder")),
        Service(
            "cinder-scheduler",
            [layout.program("cinder-scheduler"), *option],
            "Starting cinder-scheduler node",
        ),
        Service(
            "cinder-volume",
            [layout.program("cinder-volume"), *option],
            "Driver post RPC initialization completed successfully",
        ),
    ]
