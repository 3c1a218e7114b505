# SPDX-License-Identifier: Apache-2.0

"""The scenarios of a flow benchmark, and the queues that a driver uses in them. Pure."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from amqp1_driver.bench.plan import Entry, plural, size_text

KINDS = ("two-senders", "receive-and-send")
#: types of queues; a sender has the name of its queue's type
CLASSIC, QUORUM = "classic", "quorum"
#: kind of an entry: a plain client of AMQP 0.9.1 with one connection
PLAIN = "amqp091"
#: server of every target; no other server has this name. So the broker puts a cast into the queue
#: that the benchmark has declared, or returns the cast
SERVER = "flow"

#: options that limit rabbit's driver to one connection for sending
ONE_CONNECTION = (
    "oslo_messaging_rabbit.conn_pool_min_size=1",
    "oslo_messaging_rabbit.rpc_conn_pool_size=1",
)
_PREFETCH = {
    "amqp": "oslo_messaging_amqp.rpc_server_credit=",
    "rabbit": "oslo_messaging_rabbit.rabbit_qos_prefetch_count=",
}
#: options that every run needs: our driver must not delete the queues, and rabbit's driver must
#: declare them as durable, as the benchmark does
_BASICS = {
    "amqp": ("oslo_messaging_amqp.delete_unused_queues=false",),  # a run counts the messages later
    "rabbit": ("oslo_messaging_rabbit.amqp_durable_queues=true",),
}
#: ``x-expires`` of this project's driver for RPC queues by default, milliseconds
_EXPIRES_MS = 1_800_000


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """A scenario, which every driver runs.

    :param kind: one of ``KINDS``
    :param threads: threads that send to each queue; each waits for the outcome of its message
    :param quorum_threads: threads that send to the quorum queue; 0: as many as ``threads``
    :param size: size of the payload, bytes
    :param seconds: duration of each phase
    :param waiting: messages that wait in the receiver's queue when a run begins
    :param prefetch: messages that the broker may send ahead to the receiver; 0: the default of
        the driver
    """

    kind: str
    threads: int = 8
    quorum_threads: int = 0
    size: int = 100
    seconds: float = 5.0
    waiting: int = 1_000_000
    prefetch: int = 200

    def of(self, sender: str) -> int:
        """Return the number of threads that send to a queue.

        :param sender: type of the queue, CLASSIC or QUORUM
        """
        return self.quorum_threads or self.threads if sender == QUORUM else self.threads

    @property
    def title(self) -> str:
        """Return a description of the scenario, for tables."""
        size = size_text(self.size)
        if self.kind == KINDS[0]:
            return (
                f"two senders: {plural(self.of(CLASSIC), 'thread')} to a classic queue, "
                f"{plural(self.of(QUORUM), 'thread')} to a quorum queue, {size}"
            )
        return (
            f"a receiver and a sender: {self.waiting} messages wait, "
            f"{plural(self.of(QUORUM), 'thread')} to a quorum queue, {size}"
        )

    def options(self, entry: Entry) -> list[str]:
        """Return the scenario's options for a driver, then the driver's, which override these."""
        if self.kind == KINDS[0] or not self.prefetch or entry.kind == PLAIN:
            return list(entry.options)
        return [_PREFETCH[scheme(entry)] + str(self.prefetch), *entry.options]


class Queue(NamedTuple):
    """A queue that the benchmark declares in RabbitMQ for one driver.

    :param name: the name under which the driver uses the queue
    :param type: CLASSIC or QUORUM
    :param arguments: arguments of the queue's declaration
    :param key: routing key with which rabbit's driver sends to the queue through its exchange;
        None: the driver sends to the name of the queue
    """

    name: str
    type: str
    arguments: dict[str, Any]
    key: str | None


def scheme(entry: Entry) -> str:
    """Return the scheme of a driver: ``amqp`` or ``rabbit``.

    The plain client uses the queues of rabbit's driver.

    :raises ValueError: this benchmark does not know the queues of the driver
    """
    if entry.kind == PLAIN:
        return "rabbit"
    found = entry.url.partition(":")[0].partition("+")[0]
    if found not in ("amqp", "rabbit") or entry.kind != "messaging":
        raise ValueError(f"{entry.label}: only drivers for amqp: and rabbit: share RabbitMQ")
    return found


def queue(entry: Entry, exchange: str, topic: str, kind: str) -> Queue:
    """Return the queue of ``Target(exchange, topic, server=SERVER)``.

    Neither driver declares this queue when it sends, so the queue can have any type. A classic
    queue has the arguments that the driver itself declares, so the driver can also listen to it.

    :param kind: CLASSIC or QUORUM
    """
    arguments: dict[str, Any] = {"x-queue-type": QUORUM} if kind == QUORUM else {}
    if scheme(entry) == "rabbit":
        name = f"{topic}.{SERVER}"
        return Queue(name, kind, arguments, name)
    if kind == CLASSIC:
        arguments = {"x-queue-type": CLASSIC, "x-expires": _EXPIRES_MS}
    return Queue(f"openstack:rpc:unicast:{exchange}:{topic}:{SERVER}", kind, arguments, None)


def filler(entry: Entry) -> Entry:
    """Return the driver that makes the waiting messages; for the plain client, rabbit's driver."""
    if entry.kind != PLAIN:
        return entry
    return Entry("rabbit", "rabbit:", entry.python, options=_BASICS["rabbit"])


def defaults() -> list[Entry]:
    """Return the drivers that the benchmark compares by default.

    These are rabbit's driver with one connection for sending, rabbit's driver with its pool of
    connections, and this project's driver.
    """
    rabbit = Entry("rabbit", "rabbit:", sys.executable)
    one = dataclasses.replace(rabbit, label="rabbit, pool of 1", options=ONE_CONNECTION)
    return [one, rabbit, Entry("ours", "amqp:", sys.executable)]


def with_basics(given: Sequence[Entry], more: Sequence[Entry]) -> list[Entry]:
    """Return the entries, each with all its options; the plain client has no options.

    An entry gets the options that every run needs, then its own, then the user's. Later options
    override earlier ones.

    :param given: the entries with their own options
    :param more: the same entries, with the user's options instead of their own
    """
    return [
        entry
        if entry.kind == PLAIN
        else dataclasses.replace(
            entry, options=(*_BASICS[scheme(entry)], *entry.options, *asked.options)
        )
        for entry, asked in zip(given, more, strict=True)
    ]
