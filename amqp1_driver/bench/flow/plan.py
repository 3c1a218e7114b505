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

"""What is measured, and which queues a driver uses for it. Pure."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from amqp1_driver.bench.plan import Entry, size_text

KINDS = ("two-senders", "receive-and-send")
#: senders are called after the type of their queue
CLASSIC, QUORUM = "classic", "quorum"
#: a server's name that nobody has: what is cast to it goes to a queue that is there or comes back
SERVER = "flow"

#: what keeps rabbit's driver to one connection for all that it sends
ONE_CONNECTION = (
    "oslo_messaging_rabbit.conn_pool_min_size=1",
    "oslo_messaging_rabbit.rpc_conn_pool_size=1",
)
_PREFETCH = {
    "amqp": "oslo_messaging_amqp.rpc_server_credit=",
    "rabbit": "oslo_messaging_rabbit.rabbit_qos_prefetch_count=",
}
#: rabbit's driver shall not declare as transient what is durable
_BASICS = {
    "amqp": ("oslo_messaging_amqp.delete_unused_queues=false",),  # its messages are counted yet
    "rabbit": ("oslo_messaging_rabbit.amqp_durable_queues=true",),
}
#: what this project's driver gives a queue for RPC by default, in milliseconds
_EXPIRES_MS = 1_800_000


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """What every driver has to do.

    :param kind: one of KINDS
    :param threads: that send to each queue, each waits for its message
    :param quorum_threads: that send to the quorum queue, if it is another number
    :param size: of the payload, bytes
    :param seconds: of each phase
    :param waiting: messages in the queue that is received from
    :param prefetch: messages that the broker may send ahead to the receiver; 0: as the driver
        has it by default
    """

    kind: str
    threads: int = 8
    quorum_threads: int = 0
    size: int = 100
    seconds: float = 5.0
    waiting: int = 1_000_000
    prefetch: int = 200

    def of(self, sender: str) -> int:
        """The threads of a sender."""
        return self.quorum_threads or self.threads if sender == QUORUM else self.threads

    @property
    def title(self) -> str:
        """In words."""
        size = size_text(self.size)
        if self.kind == KINDS[0]:
            return (f"two senders: {_threads(self.of(CLASSIC))} to a classic queue, "
                    f"{_threads(self.of(QUORUM))} to a quorum queue, {size}")  # fmt: skip
        return (f"a receiver and a sender: {self.waiting} messages wait, "
                f"{_threads(self.of(QUORUM))} to a quorum queue, {size}")  # fmt: skip


    def options(self, entry: Entry) -> list[str]:
        """The driver's options with those of this scenario."""
        if self.kind == KINDS[0] or not self.prefetch:
            return list(entry.options)
        return [_PREFETCH[scheme(entry)] + str(self.prefetch), *entry.options]


def _threads(number: int) -> str:
    return f"{number} thread{'s' if number != 1 else ''}"


class Queue(NamedTuple):
    """A queue as a driver would name it.

    :param key: with which rabbit's driver sends to it through its exchange; None: by its name
    """

    name: str
    type: str
    arguments: dict[str, Any]
    key: str | None


def scheme(entry: Entry) -> str:
    """``amqp`` or ``rabbit``: ValueError for others, whose queues are not known."""
    found = entry.url.partition(":")[0].partition("+")[0]
    if found not in ("amqp", "rabbit") or entry.kind != "messaging":
        raise ValueError(f"{entry.label}: only drivers for amqp: and rabbit: share RabbitMQ")
    return found


def queue(entry: Entry, exchange: str, topic: str, kind: str) -> Queue:
    """The queue of ``Target(exchange, topic, server=SERVER)``.

    Neither driver declares it to send to it, so that it can be of any type; a classic one is
    declared as the driver itself would do it, which then may listen to it too.
    """
    arguments: dict[str, Any] = {"x-queue-type": QUORUM} if kind == QUORUM else {}
    if scheme(entry) == "rabbit":
        name = f"{topic}.{SERVER}"
        return Queue(name, kind, arguments, name)
    if kind == CLASSIC:
        arguments = {"x-queue-type": CLASSIC, "x-expires": _EXPIRES_MS}
    return Queue(f"openstack:rpc:unicast:{exchange}:{topic}:{SERVER}", kind, arguments, None)


def defaults() -> list[Entry]:
    """Rabbit's driver with one connection for what it sends and with its pool; this one."""
    rabbit = Entry("rabbit", "rabbit:", sys.executable)
    one = dataclasses.replace(rabbit, label="rabbit, pool of 1", options=ONE_CONNECTION)
    return [one, rabbit, Entry("ours", "amqp:", sys.executable)]


def with_basics(given: Sequence[Entry], more: Sequence[Entry]) -> list[Entry]:
    """The same with the options that they need here, before those of their own.

    :param more: the same entries with what the user has asked for
    """
    return [
        dataclasses.replace(
            entry, options=(*_BASICS[scheme(entry)], *entry.options, *asked.options)
        )
        for entry, asked in zip(given, more, strict=True)
    ]
