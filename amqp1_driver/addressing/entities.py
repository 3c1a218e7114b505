# SPDX-License-Identifier: Apache-2.0


"""The entities that Azure Service Bus must have for some topics, and the commands that make them.

Pure, for any thread.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from amqp1_driver.addressing.base import Destination, Entity, Node, Service
from amqp1_driver.addressing.servicebus import ServiceBusAddresser

#: ISO 8601 durations. _LOCK: how long a message stays locked for its receiver; a service that
#: starts to process a message later gets the message again. _REPLY_LIFE: time to live of
#: replies, which are useless after the caller's time-out.
_LOCK, _REPLY_LIFE = "PT1M", "PT10M"


@dataclass(frozen=True, slots=True)
class Use:
    """A topic and its readers.

    :param readers: servers of an RPC topic, or pools of a notification topic
    :param workers: processes of each server
    """

    service: Service
    exchange: str
    topic: str
    readers: tuple[str, ...] = ()
    workers: int = 1


def parse(service: Service, text: str) -> Use:
    """Parse ``EXCHANGE/TOPIC`` or ``EXCHANGE/TOPIC/READER,READER``.

    :raises ValueError: the text has neither form
    """
    exchange, _, rest = text.partition("/")
    topic, _, readers = rest.partition("/")
    if not exchange or not topic:
        raise ValueError(f"{text!r} is not EXCHANGE/TOPIC or EXCHANGE/TOPIC/NAME,NAME")
    return Use(service, exchange, topic, tuple(filter(None, readers.split(","))))


def needed(addresser: ServiceBusAddresser, uses: Iterable[Use]) -> tuple[Entity, ...]:
    """Return all entities that the uses need, each once, a topic before its subscriptions."""
    nodes: list[Node] = []
    for use in uses:
        if use.service is Service.RPC:
            everyone = Destination(use.service, use.exchange, use.topic, fanout=True)
            nodes += [addresser.reply("")[0], addresser.target(everyone)]
        for destination, pool in _read(use):
            nodes += [
                addresser.target(destination),
                *addresser.sources(destination, pool=pool, unique=""),
            ]
    found = dict.fromkeys(d for node in nodes for d in node.declare if isinstance(d, Entity))
    return tuple(sorted(found, key=lambda entity: entity.kind == "subscription"))


def _read(use: Use) -> list[tuple[Destination, str | None]]:
    if use.service is Service.RPC:
        processes = (None, *map(str, range(2, use.workers + 1)))
        return [
            (Destination(use.service, use.exchange, use.topic, server), process)
            for server in use.readers or (None,)
            for process in processes
        ]
    # There is always a subscription for listeners without a pool: without one the topic would
    # keep no message for them.
    return [
        (Destination(use.service, use.exchange, use.topic), pool) for pool in (None, *use.readers)
    ]


def az_commands(entities: Sequence[Entity]) -> list[str]:
    """Return the commands of Azure's CLI that create the entities.

    The commands take resource group and namespace from the variables GROUP and NAMESPACE.
    """
    return [" ".join(["az", *_arguments(entity)]) for entity in entities]


def _arguments(entity: Entity) -> list[str]:
    place = ['--resource-group "$GROUP"', '--namespace-name "$NAMESPACE"']
    if entity.kind == "topic":
        return ["servicebus topic create", *place, "--name", shlex.quote(entity.name)]
    locks = ["--lock-duration", _LOCK]
    if entity.kind == "subscription":
        topic, _, name = entity.name.partition("/Subscriptions/")
        return [
            "servicebus topic subscription create",
            *place,
            "--topic-name",
            shlex.quote(topic),
            "--name",
            shlex.quote(name),
            *locks,
        ]
    if entity.sessions:
        locks = [
            "--enable-session true",
            "--lock-duration PT5M",
            "--default-message-time-to-live",
            _REPLY_LIFE,
        ]
    return ["servicebus queue create", *place, "--name", shlex.quote(entity.name), *locks]
