# SPDX-License-Identifier: Apache-2.0

"""The RabbitMQ node of a flow benchmark. Main thread."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from amqp1_driver.bench import buses
from amqp1_driver.bench.flow.slowdisk import fdatasync_us, slowed
from amqp1_driver.bench.plan import RABBITMQ

_SECONDS = 30.0


class Node(NamedTuple):
    """A running RabbitMQ node.

    :param name: name of the bus, with the version
    :param address: USER:PASSWORD@HOST:PORT
    :param suite: Debian suite from which tools/rabbitmq.sh has installed the node
    :param disk: ``fdatasync_us``: duration of ``fdatasync`` on the disk itself; ``added_ms``: delay
        before each ``fsync`` and ``fdatasync``
    """

    name: str
    address: str
    suite: str
    disk: dict[str, float]

    @property
    def url(self) -> str:
        """Return the URL for AMQP 1.0."""
        return f"amqp://{self.address}"

    def connections(self) -> list[str]:
        """Return the protocol of each connection that the node has now, sorted."""
        port = self.address.rpartition(":")[2]
        what = ["-q", "list_connections", "protocol", "--formatter", "json"]
        text = buses.rabbitmq("ctl", self.suite, port, *what, seconds=_SECONDS)
        return sorted(protocol(entry["protocol"]) for entry in json.loads(text))


def protocol(found: Any) -> str:
    """Return "0.9.1" for [0, 9, 1] or "{0,9,1}", "1.0" likewise; return other words unchanged."""
    if isinstance(found, str):
        found = found.strip("{}").split(",")
    return ".".join(map(str, found))


@contextlib.contextmanager
def started(kind: str, fsync_ms: float) -> Iterator[Node]:
    """Start a node, and stop it at the end of the block.

    :param kind: one of ``plan.RABBITMQ``
    :param fsync_ms: delay before each ``fsync`` and ``fdatasync`` of the node, milliseconds
    :raises Trouble: the node does not start
    """
    disk = {"fdatasync_us": round(fdatasync_us()), "added_ms": fsync_ms}
    with slowed(fsync_ms) as environment, buses.started(kind, environment) as bus:
        yield Node(bus.name, bus.address, RABBITMQ[kind], disk)
