# SPDX-License-Identifier: Apache-2.0
"""Glance: images, kept in files."""

from __future__ import annotations

from tests.cloud.layout import Layout, merged
from tests.cloud.process import Service


def configure(layout: Layout) -> None:
    """Write its configuration."""
    images = layout.state / "glance"
    for folder in ("images", "os_glance_staging_store", "os_glance_tasks_store"):
        (images / folder).mkdir(parents=True, exist_ok=True)
    layout.write(
        layout.etc / "glance" / "glance-api.conf",
        merged(
            layout.common(),
            {
                "DEFAULT": {"enabled_backends": "images:file", "enabled_import_methods": "[]"},
                "database": {"connection": layout.database("glance")},
                "paste_deploy": {
                    "flavor": "keystone",
                    "config_file": str(layout.venv / "etc" / "glance" / "glance-api-paste.ini"),
                },
                "glance_store": {"default_backend": "images"},
                "images": {"filesystem_store_datadir": str(images / "images")},
                "os_glance_staging_store": {
                    "filesystem_store_datadir": str(images / "os_glance_staging_store")
                },
                "os_glance_tasks_store": {
                    "filesystem_store_datadir": str(images / "os_glance_tasks_store")
                },
                "oslo_messaging_notifications": {"topics": "glance"},
            },
        ),
    )


def schema(layout: Layout) -> list[list[str]]:
    """Return the command that makes its tables."""
    configuration = str(layout.etc / "glance" / "glance-api.conf")
    return [[layout.program("glance-manage"), "--config-file", configuration, "db_sync"]]


def services(layout: Layout) -> list[Service]:
    """Return its one process."""
    command = layout.uwsgi("glance.wsgi.api", layout.ports["glance"])
    return [Service("glance", command, layout.url("glance"))]
