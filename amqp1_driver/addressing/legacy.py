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

from amqp1_driver.addressing.base import Addresser, Destination, Node


@dataclasses.dataclass(frozen=True, slots=True)
class LegacyAddresser(Addresser):
    """The addresser with prefixes and dots. Immutable, for any thread.

    :param pools: the bus takes ``address::queue`` as a source.
    """

    pools: bool = False

    def target(self, dest: Destination) -> Node:
        config = self.config
        prefix = {
            "unicast": config.server_request_prefix,
            "anycast": config.group_request_prefix,
            "multicast": config.broadcast_prefix,
        }[dest.distribution]
        vhost = (config.vhost,) if config.vhost else ()
        end = ("all",) if dest.fanout else ()
        return Node(".".join((prefix, *vhost, *self._names(dest), *end)))

    def _notify_source(self, dest: Destination, pool: str | None) -> Node:
        """Return the fully qualified queue name (the term of Artemis): one queue per pool."""
        node = self.target(dest)
        self._check(pool, node.address)
        return Node(f"{node.address}::{pool}") if pool else node
