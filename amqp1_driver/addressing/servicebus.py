# SPDX-License-Identifier: Apache-2.0

"""Queues, topics and subscriptions of Azure Service Bus. Pure, for any thread.

================  =============================================  ================================
for               entity                                         receiver
================  =============================================  ================================
RPC, any one      queue ``openstack--rpc--any--EX--TOPIC``       any server
RPC, one          queue ``openstack--rpc--one--EX--TOPIC--SRV``  the server
RPC, all          topic ``openstack--rpc--all--EX--TOPIC``       subscription ``SRV``, ``SRV--2``
replies           queue ``openstack--reply``, with sessions      session of the process
notifications     topic ``openstack--notify--EX--TOPIC``         subscription ``default``, or POOL
================  =============================================  ================================

A client cannot create entities over AMQP, so all entities must exist before the driver uses them
(``amqp1 entities`` prints them). None of them belongs to one process: replies to all processes are
in one queue, in *sessions*. One receiver alone reads each session.

A virtual host that must be part of the address goes in front, after ``openstack--vhost``. Service
Bus allows letters, digits, ``.``, ``-`` and ``_`` in names and ignores case. The addresser writes
every other character, capitals, and characters that would look like a separator as ``__`` and two
hexadecimal digits for each byte. It cuts names that are too long and appends a digest. Different
destinations never share an entity.
"""

import dataclasses
import hashlib
from collections.abc import Iterable

from amqp1_driver.addressing.base import Addresser, Destination, Entity, Node, Service

#: longest name of a queue or topic, and of a subscription, in characters
MAX_NAME, MAX_SUBSCRIPTION = 260, 50
#: subscription of notification listeners without a pool, and of fanout readers without a server
DEFAULT = "default"
#: separates queue and session in a reply address; no name contains it
SESSION = "#"

_KINDS = {"unicast": "one", "anycast": "any", "multicast": "all"}
_DIGEST = 32
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-_")


class ServiceBusAddresser(Addresser):
    """The addresser for Azure Service Bus. Immutable, for any thread.

    For RPC the argument ``pool`` of :meth:`sources` distinguishes the processes of one server, so
    that each process gets every fanout.
    """

    __slots__ = ()

    def target(self, dest: Destination) -> Node:
        return _node(self._entity(dest))

    def _fanout_source(self, dest: Destination, pool: str | None, unique: str) -> Node:
        topic = self._entity(dataclasses.replace(dest, fanout=True))
        return _node(topic, dest.server or DEFAULT, pool)

    def _notify_source(self, dest: Destination, pool: str | None) -> Node:
        return _node(self._entity(dest), pool or DEFAULT)

    def reply(self, unique: str) -> tuple[Node, str]:
        """Return the node for replies to a process, and the session that holds them.

        :param unique: text that identifies the process and fork
        """
        return _node(Entity("queue", self._name("reply"), sessions=True)), unique

    def _entity(self, dest: Destination) -> Entity:
        rpc = dest.service is Service.RPC
        kind = ("rpc", _KINDS[dest.distribution]) if rpc else ("notify",)
        name = self._name(*kind, *self._names(dest))
        return Entity("queue" if rpc and not dest.fanout else "topic", name)

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
    """Return the reply address for a session of an entity, as requests carry it."""
    return f"{entity}{SESSION}{session}"


def split_reply(address: str) -> tuple[str, str | None]:
    """Return entity and session of a reply address; the session is None if the address has none."""
    entity, _, session = address.partition(SESSION)
    return entity, session or None


def escape(name: str) -> str:
    """Encode a name as a part of an entity's name, reversibly, so that no two names collide."""
    pieces = [
        c if c in _PLAIN else "".join(f"__{byte:02x}" for byte in c.encode("utf-8")) for c in name
    ]
    out = []
    for at, piece in enumerate(pieces):
        after = pieces[at + 1][0] if at + 1 < len(pieces) else ""
        # Encode dashes and underscores that would read as separator or escape, and dots at an end.
        ends = at in (0, len(pieces) - 1)
        if (piece == "-" and (ends or after == "-")) or (piece == "_" and after in ("_", "")):
            piece = f"__{ord(piece):02x}"
        elif piece == "." and ends:
            piece = "__2e"
        out.append(piece)
    return "".join(out)


def _short(name: str, limit: int) -> str:
    """Shorten a name to the limit; the result begins with a letter or digit, as the bus demands."""
    if len(name) <= limit and name[:1].isalnum():
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    start = name.lstrip("._-")[: limit - _DIGEST - 1].rstrip("-")
    return f"{start}-{digest}" if start else digest


def missing(entities: Iterable[Entity], needed: Iterable[Entity] = ()) -> str:
    """Return an error text that names the missing entities.

    :param needed: further entities in use, which may exist or not
    """
    text = "entities are missing on Azure Service Bus: " + ", ".join(map(str, entities))
    others = ", ".join(map(str, needed))
    return f"{text} (also needed: {others})" if others else text
