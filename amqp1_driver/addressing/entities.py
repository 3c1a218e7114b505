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


"""What has to exist on Azure Service Bus for some targets, and how to make it. Pure."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from amqp1_driver.addressing.base import Destination, Entity, Node, Service
from amqp1_driver.addressing.servicebus import ServiceBusAddresser

#: How long a message stays locked for who has it, in ISO 8601; a service that is slower to begin
#: with a message than this gets it again. Replies are worth nothing after the last time-out.
_LOCK, _REPLY_LIFE = "PT1M", "PT10M"


@dataclass(frozen=True, slots=True)
class Use:
    """A topic and who reads it.

    :param readers: servers of an RPC topic, or pools of a notification topic
    :param workers: processes of each server
    """

    service: Service
    exchange: str
    topic: str
    readers: tuple[str, ...] = ()
    workers: int = 1


def parse(service: Service, text: str) -> Use:
    """``EXCHANGE/TOPIC`` or ``EXCHANGE/TOPIC/READER,READER``.

    :raises ValueError: it is neither
    """
    exchange, _, rest = text.partition("/")
    topic, _, readers = rest.partition("/")
    if not exchange or not topic:
        raise ValueError(f"{text!r} is not EXCHANGE/TOPIC or EXCHANGE/TOPIC/NAME,NAME")
    return Use(service, exchange, topic, tuple(filter(None, readers.split(","))))


def needed(addresser: ServiceBusAddresser, uses: Iterable[Use]) -> tuple[Entity, ...]:
    """All entities for them, each once, a topic before its subscriptions."""
    nodes: list[Node] = []
    for use in uses:
        if use.service is Service.RPC:
            everyone = Destination(use.service, use.exchange, use.topic, fanout=True)
            nodes += [addresser.reply("")[0], addresser.target(everyone)]
        for destination, pool in _read(use):
            nodes += [addresser.target(destination),
                      *addresser.sources(destination, pool=pool, unique="")]
    found = dict.fromkeys(d for node in nodes for d in node.declare if isinstance(d, Entity))
    return tuple(sorted(found, key=lambda entity: entity.kind == "subscription"))


def _read(use: Use) -> list[tuple[Destination, str | None]]:
    if use.service is Service.RPC:
        processes = (None, *map(str, range(2, use.workers + 1)))
        return [(Destination(use.service, use.exchange, use.topic, server), process)
                for server in use.readers or (None,) for process in processes]
    # listeners without a pool have a subscription in any case: else nothing would be kept
    return [(Destination(use.service, use.exchange, use.topic), pool)
            for pool in (None, *use.readers)]


def az_commands(entities: Sequence[Entity]) -> list[str]:
    """Commands of Azure's CLI that make them; group and namespace come from variables."""
    return [" ".join(["az", *_arguments(entity)]) for entity in entities]


def _arguments(entity: Entity) -> list[str]:
    place = ['--resource-group "$GROUP"', '--namespace-name "$NAMESPACE"']
    if entity.kind == "topic":
        return ["servicebus topic create", *place, "--name", shlex.quote(entity.name)]
    locks = ["--lock-duration", _LOCK]
    if entity.kind == "subscription":
        topic, _, name = entity.name.partition("/Subscriptions/")
        return ["servicebus topic subscription create", *place, "--topic-name",
                shlex.quote(topic), "--name", shlex.quote(name), *locks]
    if entity.sessions:
        locks = ["--enable-session true", "--lock-duration PT5M",
                 "--default-message-time-to-live", _REPLY_LIFE]
    return ["servicebus queue create", *place, "--name", shlex.quote(entity.name), *locks]
