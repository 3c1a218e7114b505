# SPDX-License-Identifier: Apache-2.0
"""Placement: what the hosts have and what is taken of it. It uses no message bus."""

from __future__ import annotations

from tests.cloud.layout import Layout, merged
from tests.cloud.process import Service


def configure(layout: Layout) -> None:
    """Write its configuration."""
    layout.write(
        layout.etc / "placement" / "placement.conf",
        merged(
            layout.common(),
            {"placement_database": {"connection": layout.database("placement")}},
        ),
    )


def schema(layout: Layout) -> list[list[str]]:
    """Return the command that makes its tables."""
    configuration = str(layout.etc / "placement" / "placement.conf")
    return [[layout.program("placement-manage"), "--config-file", configuration, "db", "sync"]]


def services(layout: Layout) -> list[Service]:
    """Return its one process."""
    command = layout.uwsgi("placement.wsgi.api", layout.ports["placement"])
    return [Service("placement", command, layout.url("placement"))]
