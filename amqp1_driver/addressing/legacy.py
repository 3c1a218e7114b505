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

"""Addresses with prefixes and dots, for brokers such as qpidd.

=========  ================================================
one        ``exclusive[.VHOST].EXCHANGE.TOPIC.SERVER``
any one    ``unicast[.VHOST].EXCHANGE.TOPIC``
all        ``broadcast[.VHOST].EXCHANGE.TOPIC.all``
=========  ================================================

Names go in as they are: the brokers provision queues by these patterns, and processes with
the driver that was part of oslo.messaging share the bus during an upgrade. The price, as
ever: RPC and notifications of one exchange and topic share an address, and names with dots
can be read in more than one way.
"""

import dataclasses

from amqp1_driver.addressing.base import AddressConfig, Destination, Node, Service
from amqp1_driver.exceptions import UnsupportedFeature


@dataclasses.dataclass(frozen=True, slots=True)
class LegacyAddresser:
    """See the module. Immutable, for any thread.

    :param bus: name of the bus, for errors.
    :param pools: the bus takes ``address::queue`` as a source.
    """

    config: AddressConfig
    bus: str = "this message bus"
    pools: bool = False

    def target(self, dest: Destination) -> Node:
        if dest.fanout:
            return Node(self._join(self.config.broadcast_prefix, dest, "all"))
        if dest.server:
            return Node(self._join(self.config.server_request_prefix, dest, dest.server))
        return Node(self._join(self.config.group_request_prefix, dest))

    def sources(self, dest: Destination, *, pool: str | None, unique: str) -> tuple[Node, ...]:
        group = self._join(self.config.group_request_prefix, dest)
        if dest.service is Service.NOTIFY:
            return (Node(self._pooled(group, pool)),)
        fanout = Node(self._join(self.config.broadcast_prefix, dest, "all"))
        own = (self.target(dest),) if dest.server else ()
        return (*own, Node(group), fanout)

    def _pooled(self, address: str, pool: str | None) -> str:
        """Fully qualified queue name (as Artemis calls it): one queue per pool."""
        if not pool:
            return address
        if not self.pools:
            raise UnsupportedFeature(
                f"notification pools are not supported by {self.bus}", address=address
            )
        return f"{address}::{pool}"

    def _join(self, prefix: str, dest: Destination, *more: str) -> str:
        vhost = (self.config.vhost,) if self.config.vhost else ()
        return ".".join((prefix, *vhost, self.config.exchange_of(dest), dest.topic, *more))
