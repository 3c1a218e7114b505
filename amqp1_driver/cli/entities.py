# SPDX-License-Identifier: Apache-2.0


"""``amqp1 entities``: lists what must exist on Azure Service Bus, by name or as a script.

Main thread.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

from amqp1_driver.addressing.base import AddressConfig, Service
from amqp1_driver.addressing.entities import Use, az_commands, needed, parse
from amqp1_driver.addressing.servicebus import ServiceBusAddresser
from amqp1_driver.options import default_settings

_HEAD = """#!/bin/sh
# Makes what the services need; what exists already gets these settings.
set -e
: "${GROUP:?name of the resource group}" "${NAMESPACE:?name of the Service Bus namespace}"
"""


def _use(service: Service) -> Callable[[str], Use]:
    def read(text: str) -> Use:
        try:
            return parse(service, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def add_parser(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "entities",
        help="list the entities that have to exist on Azure Service Bus",
        description="Lists the queues, topics and subscriptions that the driver uses on Azure "
        "Service Bus, for the topics of --rpc and --notify. Both options may be "
        "repeated.",
    )
    parser.add_argument(
        "--rpc",
        action="append",
        default=[],
        type=_use(Service.RPC),
        metavar="EXCHANGE/TOPIC[/SERVER,SERVER]",
        help="topic of RPC, and the servers that listen",
    )
    parser.add_argument(
        "--notify",
        action="append",
        default=[],
        type=_use(Service.NOTIFY),
        metavar="EXCHANGE/TOPIC.PRIORITY[/POOL,POOL]",
        help="topic and priority of notifications, and the pools that listen",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="number of processes of each RPC server, as in the option servicebus_workers "
        "(default: 1)",
    )
    parser.add_argument(
        "--virtual-host",
        default=None,
        metavar="NAME",
        help="virtual host of the transport URL, if it has one",
    )
    parser.add_argument(
        "--format",
        choices=("names", "az"),
        default="names",
        help="names: kinds and names; az: a shell script for Azure's CLI (default: names)",
    )


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
