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


"""Queues, topics and subscriptions of Azure Service Bus.

================  =============================================  ================================
for               entity                                         receiver
================  =============================================  ================================
RPC, any one      queue ``openstack--rpc--any--EX--TOPIC``       any server
RPC, one          queue ``openstack--rpc--one--EX--TOPIC--SRV``  the server
RPC, all          topic ``openstack--rpc--all--EX--TOPIC``       subscription ``SRV``, ``SRV--2``
replies           queue ``openstack--reply``, with sessions      session of the process
notifications     topic ``openstack--notify--EX--TOPIC``         subscription ``default``, or POOL
================  =============================================  ================================

Nothing can be made over AMQP there, so all entities exist before (``amqp1 entities`` prints
them), and none of them is for one process: replies to all processes are in one queue, in
*sessions*, each of which is read by one receiver alone.

A virtual host that must be part of the address goes in front, after ``openstack--vhost``. Names
may have letters, digits, ``.``, ``-`` and ``_``, and case does not count. Everything else in a
name, capitals too, and what would look like a separator, is written as ``__`` and two hexadecimal
digits for each byte. Different destinations never share an entity. Names that are too long keep
their beginning and end in a digest.
"""

import dataclasses
import hashlib
from collections.abc import Iterable

from amqp1_driver.addressing.base import AddressConfig, Destination, Entity, Node, Service

#: of a queue or topic, and of a subscription, in characters
MAX_NAME, MAX_SUBSCRIPTION = 260, 50
#: what readers of notifications without a pool, and of fanouts without a server's name, share
DEFAULT = "default"
#: between queue and session in a reply address; no name has it
SESSION = "#"

_DIGEST = 32
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-_")


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceBusAddresser:
    """See the module. Immutable, for any thread.

    For RPC the pool of ``sources`` tells the processes of one server apart, so that each has
    every fanout.
    """

    config: AddressConfig

    def target(self, dest: Destination) -> Node:
        if dest.service is Service.NOTIFY or dest.fanout:
            return _node(self._topic(dest))
        return _node(self._queue(dest, dest.server))

    def sources(self, dest: Destination, *, pool: str | None, unique: str) -> tuple[Node, ...]:
        topic = self._topic(dest)
        if dest.service is Service.NOTIFY:
            return (_node(topic, pool or DEFAULT),)
        own = (_node(self._queue(dest, dest.server)),) if dest.server else ()
        fanout = _node(topic, dest.server or DEFAULT, pool)
        return (*own, _node(self._queue(dest, None)), fanout)

    def reply(self, unique: str) -> tuple[Node, str]:
        """Where replies to a process go, and the session they are in.

        :param unique: of the process and fork
        """
        return _node(Entity("queue", self._name("reply"), sessions=True)), unique

    def _queue(self, dest: Destination, server: str | None) -> Entity:
        kind = ("rpc", "one" if server else "any")
        exchange = self.config.exchange_of(dest)
        return Entity("queue", self._name(*kind, exchange, dest.topic, *filter(None, (server,))))

    def _topic(self, dest: Destination) -> Entity:
        kind = ("notify",) if dest.service is Service.NOTIFY else ("rpc", "all")
        return Entity("topic", self._name(*kind, self.config.exchange_of(dest), dest.topic))

    def _name(self, *names: str) -> str:
        vhost = ("vhost", self.config.vhost) if self.config.vhost else ()
        return _short("--".join(map(escape, ("openstack", *vhost, *names))), MAX_NAME)


def _node(entity: Entity, subscription: str | None = None, more: str | None = None) -> Node:
    if subscription is None:
        return Node(entity.name, (entity,))
    name = escape(subscription) + (f"--{escape(more)}" if more else "")
    name = _short(name, MAX_SUBSCRIPTION)
    path = f"{entity.name}/Subscriptions/{name}"
    return Node(path, (Entity("subscription", path),))


def join_reply(entity: str, session: str) -> str:
    """The address that callers give for replies."""
    return f"{entity}{SESSION}{session}"


def split_reply(address: str) -> tuple[str, str | None]:
    """Entity and session of a reply address."""
    entity, _, session = address.partition(SESSION)
    return entity, session or None


def escape(name: str) -> str:
    """A name as a part of an entity's; reversible, so that no two become one."""
    pieces = [c if c in _PLAIN else "".join(f"__{byte:02x}" for byte in c.encode("utf-8"))
              for c in name]
    out = []
    for at, piece in enumerate(pieces):
        after = pieces[at + 1][0] if at + 1 < len(pieces) else ""
        # no two dashes in a row, none at an end, and no underscore before another
        ends = at in (0, len(pieces) - 1)
        if (piece == "-" and (ends or after == "-")) or (piece == "_" and after in ("_", "")):
            piece = f"__{ord(piece):02x}"
        elif piece == "." and ends:
            piece = "__2e"
        out.append(piece)
    return "".join(out)


def _short(name: str, limit: int) -> str:
    """A name within the limit that begins with a letter or digit, as it must."""
    if len(name) <= limit and name[:1].isalnum():
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    start = name.lstrip("._-")[:limit - _DIGEST - 1].rstrip("-")
    return f"{start}-{digest}" if start else digest


def missing(entities: Iterable[Entity], needed: Iterable[Entity] = ()) -> str:
    """What has to be made, in words.

    :param needed: others that are used as well, whether they are there or not
    """
    text = "entities are missing on Azure Service Bus: " + ", ".join(map(str, entities))
    others = ", ".join(map(str, needed))
    return f"{text} (also needed: {others})" if others else text
