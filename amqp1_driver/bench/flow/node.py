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

"""The RabbitMQ node on which it happens."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from amqp1_driver.bench import buses
from amqp1_driver.bench.flow.slowdisk import fdatasync_us, slowed

KINDS = tuple(buses.RABBITMQ)
_SECONDS = 30.0


class Node(NamedTuple):
    """One that runs.

    :param name: with its version
    :param address: USER:PASSWORD@HOST:PORT
    :param suite: where tools/rabbitmq.sh has it from
    :param disk: what is known of its ``fdatasync``: ``us`` of the disk, ``added_ms``
    """

    name: str
    address: str
    suite: str
    disk: dict[str, float]

    @property
    def url(self) -> str:
        """For AMQP 1.0."""
        return f"amqp://{self.address}"

    def connections(self) -> list[str]:
        """The protocols of all connections there are now."""
        port = self.address.rpartition(":")[2]
        text = buses.rabbitmq("ctl", self.suite, port, "-q", "list_connections", "protocol",
                              "--formatter", "json", seconds=_SECONDS)  # fmt: skip
        return sorted(protocol(entry["protocol"]) for entry in json.loads(text))


def protocol(found: Any) -> str:
    """"0.9.1" from [0, 9, 1] or "{0,9,1}", "1.0" likewise; other words as they are."""
    if isinstance(found, str):
        found = found.strip("{}").split(",")
    return ".".join(map(str, found))


@contextlib.contextmanager
def started(kind: str, fsync_ms: float) -> Iterator[Node]:
    """A node whose every ``fsync`` takes so much longer; Trouble if it does not come up."""
    disk = {"fdatasync_us": round(fdatasync_us()), "added_ms": fsync_ms}
    with slowed(fsync_ms) as environment, buses.started(kind, environment) as bus:
        yield Node(bus.name, bus.address, buses.RABBITMQ[kind], disk)
