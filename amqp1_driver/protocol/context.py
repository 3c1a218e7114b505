#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What application threads need to know of a connection to encode for it.

The I/O thread makes one :class:`BusContext` each time the connection becomes
ready and publishes it by one assignment.  It is never changed, only its caches
fill; a message encoded for an older generation is encoded again before it is
sent.
"""

from dataclasses import dataclass, field

from amqp1_driver.addressing.base import Addresser, Destination, Node, Service
from amqp1_driver.addressing.peer import BusProfile, Peer, raw_node
from amqp1_driver.codec import Template
from amqp1_driver.options import DURABLE

#: addresses whose encoded form is kept; more than that and all are made anew
CACHE_LIMIT = 20000


@dataclass(slots=True)
class BusContext:
    """One generation of the connection, for any thread.

    :param generation: counts up with every connection and reply address
    :param host: ``hostname:port``, for logs
    :param reply_address: where replies to us go, as the bus assigned it
    :param durable: the option
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
        """Where messages for a destination go on this bus."""
        node = self._nodes.get(destination)
        if node is None:
            if len(self._nodes) >= CACHE_LIMIT:
                self._nodes.clear()
            node = self._nodes[destination] = (
                raw_node(self.profile, destination.topic)
                if destination.service is Service.NODE else self.addresser.target(destination))
        return node

    def sources(self, destination: Destination, *, pool: str | None,
                unique: str) -> tuple[Node, ...]:
        """Where messages for a destination come from on this bus, see :class:`Addresser`.

        :raises UnsupportedFeature: the bus knows no pools
        """
        if destination.service is Service.NODE:
            return (raw_node(self.profile, destination.topic),)
        return self.addresser.sources(destination, pool=pool, unique=unique)

    def template(self, destination: Destination,
                 wants_reply: bool) -> tuple[str, Template, Destination]:
        """Address and encoder of messages for a destination, and that."""
        templates = self._call_templates if wants_reply else self._templates
        # by identity, which costs no call: the driver has one object for all messages to a target
        found = templates.get(id(destination))
        if found is None or found[2] is not destination:
            if len(templates) >= CACHE_LIMIT:
                templates.clear()
            address = self.node(destination).address
            # a call's message is worth nothing once its caller is gone, and a fanout's queues go
            # with their servers
            kind = "rpc-cast" if destination.service is Service.RPC else "notify"
            durable = (self.profile.durable and not wants_reply and not destination.fanout
                       and kind in self.durable)
            template = Template(address, self.reply_address if wants_reply else None,
                                durable=durable)
            found = templates[id(destination)] = (address, template, destination)
        return found
