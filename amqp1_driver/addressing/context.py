# SPDX-License-Identifier: Apache-2.0

"""The properties of a connection that a thread needs to encode messages. For any thread.

The I/O thread makes one :class:`BusContext` each time the connection becomes ready, and publishes
it by one assignment. Nothing but the caches of a context changes afterwards. The driver encodes a
message again before sending it, if the message was encoded for an older generation.
"""

from dataclasses import dataclass, field

from amqp1_driver.addressing.base import Addresser, Destination, Node, Service
from amqp1_driver.addressing.factory import raw_node
from amqp1_driver.addressing.peer import Peer
from amqp1_driver.addressing.profiles import BusProfile
from amqp1_driver.codec import Template
from amqp1_driver.options import DURABLE

#: entries of each cache; :class:`BusContext` empties a full cache before it adds an entry
CACHE_LIMIT = 20000


@dataclass(slots=True)
class BusContext:
    """A snapshot of one generation of the connection; any thread may use it.

    :param generation: number that grows with every connection and with every reply address
    :param host: ``hostname:port``, for logs
    :param reply_address: address for replies to this driver, as the bus assigned it
    :param durable: kinds of messages to send as durable (the option of that name)
    """

    generation: int
    host: str
    peer: Peer
    profile: BusProfile
    addresser: Addresser
    reply_address: str
    durable: frozenset[str] = frozenset(DURABLE)
    _nodes: dict[Destination, Node] = field(default_factory=dict)
    _templates: dict[int, tuple[str, Template, Destination]] = field(default_factory=dict)
    _call_templates: dict[int, tuple[str, Template, Destination]] = field(default_factory=dict)

    def node(self, destination: Destination) -> Node:
        """Return the node to which messages for a destination go on this bus."""
        node = self._nodes.get(destination)
        if node is None:
            if len(self._nodes) >= CACHE_LIMIT:
                self._nodes.clear()
            node = self._nodes[destination] = (
                raw_node(self.profile, destination.topic)
                if destination.service is Service.NODE
                else self.addresser.target(destination)
            )
        return node

    def sources(
        self, destination: Destination, *, pool: str | None, unique: str
    ) -> tuple[Node, ...]:
        """Return the nodes from which messages for a destination come, see :class:`Addresser`.

        :raises UnsupportedFeature: the bus has no pools
        """
        if destination.service is Service.NODE:
            return (raw_node(self.profile, destination.topic),)
        return self.addresser.sources(destination, pool=pool, unique=unique)

    def template(
        self, destination: Destination, wants_reply: bool
    ) -> tuple[str, Template, Destination]:
        """Return the address and the encoder of messages for a destination, and the destination.

        :param wants_reply: whether the messages carry the reply address
        """
        templates = self._call_templates if wants_reply else self._templates
        # The key is the identity, which costs no call of ``__hash__``: the driver has one object
        # for all messages to a target.
        found = templates.get(id(destination))
        if found is None or found[2] is not destination:
            if len(templates) >= CACHE_LIMIT:
                templates.clear()
            address = self.node(destination).address
            # Calls and fanouts are not durable: a request is worthless once its caller is gone,
            # and the queues of a fanout disappear with their servers.
            kind = "rpc-cast" if destination.service is Service.RPC else "notify"
            durable = (
                self.profile.durable
                and not wants_reply
                and not destination.fanout
                and kind in self.durable
            )
            template = Template(
                address, self.reply_address if wants_reply else None, durable=durable
            )
            found = templates[id(destination)] = (address, template, destination)
        return found
