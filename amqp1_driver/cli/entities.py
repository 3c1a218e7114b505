# SPDX-License-Identifier: Apache-2.0

"""``amqp1 entities``: lists what must exist on Azure Service Bus, by name or as a script.

Main thread.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from amqp1_driver.addressing.base import AddressConfig, Destination, Entity, Node, Service
from amqp1_driver.addressing.servicebus import ServiceBusAddresser
from amqp1_driver.cli.measuring import Options, add_options, checked
from amqp1_driver.options import default_settings

_HEAD = """#!/bin/sh
# Makes what the services need; what exists already gets these settings.
set -e
: "${GROUP:?name of the resource group}" "${NAMESPACE:?name of the Service Bus namespace}"
"""
#: ISO 8601 durations. _LOCK: how long a message stays locked for its receiver; a service that
#: starts to process a message later gets the message again. _REPLY_LIFE: time to live of
#: replies, which are useless after the caller's time-out.
_LOCK, _REPLY_LIFE = "PT1M", "PT10M"
_PLACE = '--resource-group "$GROUP" --namespace-name "$NAMESPACE"'
_KINDS = {
    "queue": "servicebus queue",
    "topic": "servicebus topic",
    "subscription": "servicebus topic subscription",
}


@dataclasses.dataclass(frozen=True, slots=True)
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
    return [_az_command(entity) for entity in entities]


def _az_command(entity: Entity) -> str:
    topic, _, name = entity.name.partition("/Subscriptions/")
    names, options = f"--name {shlex.quote(entity.name)}", f" --lock-duration {_LOCK}"
    if entity.kind == "topic":
        options = ""
    elif entity.kind == "subscription":
        names = f"--topic-name {shlex.quote(topic)} --name {shlex.quote(name)}"
    elif entity.sessions:
        options = (
            " --enable-session true --lock-duration PT5M"
            f" --default-message-time-to-live {_REPLY_LIFE}"
        )
    return f"az {_KINDS[entity.kind]} create {_PLACE} {names}{options}"


def _uses(service: Service) -> dict[str, Any]:
    return {"action": "append", "type": checked(functools.partial(parse, service))}


_OPTIONS: Options = {
    "--rpc EXCHANGE/TOPIC[/SERVER,SERVER]": (
        _uses(Service.RPC),
        [],
        "topic of RPC, and the servers that listen",
    ),
    "--notify EXCHANGE/TOPIC.PRIORITY[/POOL,POOL]": (
        _uses(Service.NOTIFY),
        [],
        "topic and priority of notifications, and the pools that listen",
    ),
    "--workers N": (
        int,
        1,
        "number of processes of each RPC server, as in the option servicebus_workers",
    ),
    "--virtual-host NAME": (str, None, "virtual host of the transport URL, if it has one"),
    "--format": (
        ("names", "az"),
        "names",
        "names: kinds and names; az: a shell script for Azure's CLI",
    ),
}


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "entities",
        help="list the entities that have to exist on Azure Service Bus",
        description="Lists the queues, topics and subscriptions that the driver uses on Azure "
        "Service Bus, for the topics of --rpc and --notify. Both options may be "
        "repeated.",
    )
    add_options(parser, _OPTIONS)


def run(args: argparse.Namespace) -> int:
    """Print the entities; return 0, or 2 if there are none."""
    config = AddressConfig.from_settings(default_settings(), args.virtual_host)
    rpc = [dataclasses.replace(use, workers=args.workers) for use in args.rpc]
    entities = needed(ServiceBusAddresser(config), [*rpc, *args.notify])
    if not entities:
        print("nothing is needed without --rpc or --notify")
        return 2
    if args.format == "az":
        print(_HEAD + "\n".join(az_commands(entities)))
    else:
        for entity in entities:
            print(entity)
    return 0
