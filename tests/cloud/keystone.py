# SPDX-License-Identifier: Apache-2.0
"""Keystone: identity with Fernet tokens, and the catalogue of all services."""

from __future__ import annotations

import grp
import os
import pwd

from tests.cloud.layout import Layout, merged
from tests.cloud.process import Service

#: service, its type in the catalogue, the path of its endpoint
_CATALOG = (
    ("keystone", "identity", "/v3"),
    ("placement", "placement", ""),
    ("glance", "image", ""),
    ("nova", "compute", "/v2.1"),
    ("neutron", "network", ""),
    ("cinder", "block-storage", "/v3"),
)


def configure(layout: Layout) -> None:
    """Write its configuration."""
    folder = layout.etc / "keystone"
    keys = layout.state / "keystone"
    layout.write(
        folder / "keystone.conf",
        merged(
            layout.common(),
            {
                "DEFAULT": {"notification_topics": "keystone"},
                "database": {"connection": layout.database("keystone")},
                "token": {"provider": "fernet", "expiration": 86400},
                "fernet_tokens": {"key_repository": str(keys / "fernet")},
                "fernet_receipts": {"key_repository": str(keys / "fernet")},
                "credential": {"key_repository": str(keys / "credential")},
            },
        ),
    )


def schema(layout: Layout) -> list[list[str]]:
    """Return the commands that make its tables, keys and first user."""
    manage = [
        layout.program("keystone-manage"),
        "--config-file",
        str(layout.etc / "keystone" / "keystone.conf"),
    ]
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    owner = ["--keystone-user", user, "--keystone-group", group]
    return [
        [*manage, "db_sync"],
        [*manage, "fernet_setup", *owner],
        [*manage, "credential_setup", *owner],
        [*manage, "bootstrap", "--bootstrap-password", layout.password],
    ]


def relocate(layout: Layout) -> str:
    """Return SQL that makes the catalogue: ports differ from run to run."""
    lines = [
        "DELETE FROM keystone.endpoint; DELETE FROM keystone.service;",
        "INSERT IGNORE INTO keystone.region (id, description, extra)"
        " VALUES ('RegionOne', '', '{}');",
    ]
    for service, kind, path in _CATALOG:
        lines.append(
            "INSERT INTO keystone.service (id, type, enabled, extra) "
            f"VALUES ('{service}', '{kind}', 1, '{{\"name\": \"{service}\"}}');"
        )
        for interface in ("public", "internal", "admin"):
            lines.append(
                "INSERT INTO keystone.endpoint"
                " (id, interface, service_id, url, enabled, region_id, extra) VALUES"
                f" ('{service}-{interface}', '{interface}', '{service}',"
                f" '{layout.url(service)}{path}', 1, 'RegionOne', '{{}}');"
            )
    return "\n".join(lines)


def services(layout: Layout) -> list[Service]:
    """Return its one process."""
    command = layout.uwsgi("keystone.wsgi.api", layout.ports["keystone"])
    return [Service("keystone", command, layout.url("keystone") + "/v3")]
