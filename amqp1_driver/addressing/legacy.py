# SPDX-License-Identifier: Apache-2.0

"""Addresses with prefixes and dots, for brokers such as qpidd. Pure, for any thread.

=========  ================================================
one        ``exclusive[.VHOST].EXCHANGE.TOPIC.SERVER``
any one    ``unicast[.VHOST].EXCHANGE.TOPIC``
all        ``broadcast[.VHOST].EXCHANGE.TOPIC.all``
=========  ================================================

The addresser does not encode names: brokers provision queues by these patterns, and processes
with the driver that was part of oslo.messaging share the bus during an upgrade. This has two
drawbacks, which that driver had too. RPC and notifications of one exchange and topic share an
address, and an address made from names with dots is ambiguous.
"""

import dataclasses

from amqp1_driver.addressing.base import AddressConfig, Destination, Node, Service
from amqp1_driver.exceptions import UnsupportedFeature


@dataclasses.dataclass(frozen=True, slots=True)
class LegacyAddresser:
    """The addresser with prefixes and dots. Immutable, for any thread.

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
        """Return the fully qualified queue name (the term of Artemis): one queue per pool."""
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
