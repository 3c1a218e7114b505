# SPDX-License-Identifier: Apache-2.0

"""Addresses that are paths, for routers. Pure, for any thread.

A keyword in the path tells the router how to deliver.

=========  =================================================
one        ``PREFIX/unicast[/VHOST]/EXCHANGE/TOPIC/SERVER``
any one    ``PREFIX/anycast[/VHOST]/EXCHANGE/TOPIC``
all        ``PREFIX/multicast[/VHOST]/EXCHANGE/TOPIC``
=========  =================================================

PREFIX is ``openstack.org/om/rpc`` or ``openstack.org/om/notify`` unless configured. The addresser
percent-encodes slashes and percent signs *inside* a name, so that no two destinations, and above
all no two virtual hosts, share an address.
"""

import dataclasses

from amqp1_driver.addressing.base import AddressConfig, Destination, Node, Service
from amqp1_driver.exceptions import UnsupportedFeature


@dataclasses.dataclass(frozen=True, slots=True)
class RoutableAddresser:
    """The addresser for routers. Immutable, for any thread.

    :param bus: name of the bus, for errors.
    """

    config: AddressConfig
    bus: str = "this message bus"

    def target(self, dest: Destination) -> Node:
        if dest.fanout:
            return Node(self._join(self.config.multicast_address, dest))
        if dest.server:
            return Node(self._join(self.config.unicast_address, dest, dest.server))
        return Node(self._join(self.config.anycast_address, dest))

    def sources(self, dest: Destination, *, pool: str | None, unique: str) -> tuple[Node, ...]:
        group = Node(self._join(self.config.anycast_address, dest))
        if pool:
            raise UnsupportedFeature(
                f"notification pools are not supported by {self.bus}", address=group.address
            )
        if dest.service is Service.NOTIFY:
            return (group,)
        fanout = Node(self._join(self.config.multicast_address, dest))
        own = (self.target(dest),) if dest.server else ()
        return (*own, group, fanout)

    def _join(self, keyword: str, dest: Destination, *more: str) -> str:
        config = self.config
        rpc = dest.service is Service.RPC
        prefix = config.rpc_address_prefix if rpc else config.notify_address_prefix
        vhost = (config.vhost,) if config.vhost else ()
        names = (*vhost, config.exchange_of(dest), dest.topic, *more)
        return "/".join((prefix, keyword, *map(_escape, names)))


def _escape(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")
