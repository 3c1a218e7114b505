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

from amqp1_driver.addressing.base import Addresser, Destination, Node, Service, escapes

_ESCAPES = escapes("%/")


@dataclasses.dataclass(frozen=True, slots=True)
class RoutableAddresser(Addresser):
    """The addresser for routers, which have no pools. Immutable, for any thread."""

    pools: bool = False

    def target(self, dest: Destination) -> Node:
        config = self.config
        rpc = dest.service is Service.RPC
        prefix = config.rpc_address_prefix if rpc else config.notify_address_prefix
        keyword = {
            "unicast": config.unicast_address,
            "anycast": config.anycast_address,
            "multicast": config.multicast_address,
        }[dest.distribution]
        vhost = (config.vhost,) if config.vhost else ()
        names = (name.translate(_ESCAPES) for name in (*vhost, *self._names(dest)))
        return Node("/".join((prefix, keyword, *names)))
