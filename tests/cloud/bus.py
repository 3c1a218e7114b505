# SPDX-License-Identifier: Apache-2.0
"""The message bus of a cloud: one that is started for it, or one that runs already."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from tests.chaos import nodes
from tests.functional.buses import JAVA, RABBITMQ

#: what a cell's RPCs and notifications go through
CELL = "nova_cell1"

NAMES = ("router", "broker", *RABBITMQ, *JAVA)


@dataclass(frozen=True)
class Figures:
    """What the bus uses.

    :param cpu: seconds, user and system
    :param memory: bytes of resident memory
    """

    cpu: float
    memory: int
    connections: int


def checked(name: str) -> str:
    """Return the name.

    :raises ArgumentTypeError: it is neither one of NAMES nor a URL
    """
    if name not in NAMES and "://" not in name:
        raise ArgumentTypeError(f"there is no bus {name!r}: {', '.join(NAMES)}, or a URL")
    return name


class Bus:
    """One bus node.

    :param name: as :func:`checked` returns it; the URL is that of a bus that runs
    :param driver: scheme of the transport URLs of other buses: "amqp" or "rabbit"
    """

    def __init__(self, name: str, driver: str, folder: Path) -> None:
        self.name = name
        self._node: nodes.Node | None = None
        if "://" in name:
            self.url = name.rstrip("/")
            self._port = urlsplit(name).port or 5672
        else:
            self._node = nodes.make(name, folder)
            self._port = self._node.port
            self.url = f"{driver}://{nodes.USER}:{nodes.PASSWORD}@127.0.0.1:{self._port}"

    @property
    def ours(self) -> bool:
        """Return whether it can be restarted."""
        return self._node is not None

    @property
    def cell_url(self) -> str:
        """Return the transport URL of the cell's virtual host."""
        return f"{self.url}/{CELL}"

    def start(self) -> None:
        """Start it; return when it listens."""
        if self._node is not None:
            self._node.start()

    def add_cell(self) -> None:
        """Make the cell's virtual host on RabbitMQ, the one bus on which they have to be made."""
        if isinstance(self._node, nodes.Rabbit):
            self._node.add_virtual_host(CELL)

    def kill(self) -> None:
        """End it as a crash would."""
        if self._node is not None:
            self._node.kill()

    def wipe(self) -> None:
        """End it and forget what it stored."""
        if self._node is not None:
            self._node.wipe()

    def figures(self) -> Figures | None:
        """Return what it uses; None for a bus that is not on this machine."""
        sockets = psutil.net_connections("tcp")
        listening = (
            s.pid for s in sockets if s.status == psutil.CONN_LISTEN and s.laddr.port == self._port
        )
        owner = next(listening, None)
        if owner is None:
            return None
        process = psutil.Process(owner)
        times = process.cpu_times()
        found = sum(
            s.status == psutil.CONN_ESTABLISHED and s.laddr.port == self._port for s in sockets
        )
        return Figures(times.user + times.system, process.memory_info().rss, found)
