# SPDX-License-Identifier: Apache-2.0

"""Options: addresses."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import OLD, text

PRECEDENCE = "The target's exchange comes first, then this option, then control_exchange, then "


OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "addressing_mode",
        default="dynamic",
        help="Syntax of addresses.",
        choices=[
            ("dynamic", "as fits the message bus, known from what it says when it connects"),
            ("legacy", "names with prefixes, for brokers such as qpidd"),
            ("routable", "paths, for routers such as qpid-dispatch and skupper"),
            ("rabbitmq", "queues and exchanges of RabbitMQ 4"),
            ("servicebus", "Azure Service Bus, also where it is to be known by its name"),
        ],
    ),
    cfg.BoolOpt(
        "pseudo_vhost",
        default=True,
        help="Make the virtual host of the transport URL a "
        "part of each address. Turn it off for a bus that has virtual hosts itself: they "
        "are asked for in the Open frame then.",
    ),
    text("server_request_prefix", "exclusive", "Legacy addresses: prefix of one server.", **OLD),
    text("broadcast_prefix", "broadcast", "Legacy addresses: prefix of all servers.", **OLD),
    text(
        "group_request_prefix",
        "unicast",
        "Legacy addresses: prefix of any one server of a group.",
        **OLD,
    ),
    text("rpc_address_prefix", "openstack.org/om/rpc", "Routable addresses: prefix for RPC."),
    text(
        "notify_address_prefix",
        "openstack.org/om/notify",
        "Routable addresses: prefix for notifications.",
    ),
    text("multicast_address", "multicast", "Routable addresses: word for all servers."),
    text("unicast_address", "unicast", "Routable addresses: word for one server."),
    text("anycast_address", "anycast", "Routable addresses: word for any one of a group."),
    text(
        "default_notification_exchange",
        None,
        "Exchange in addresses of notifications. " + PRECEDENCE + "'notify'.",
    ),
    text("default_rpc_exchange", None, "Exchange in addresses of RPC. " + PRECEDENCE + "'rpc'."),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddressingSettings:
    """Checked values of these options. Durations in seconds, sizes in bytes."""

    addressing_mode: str
    pseudo_vhost: bool
    server_request_prefix: str
    broadcast_prefix: str
    group_request_prefix: str
    rpc_address_prefix: str
    notify_address_prefix: str
    multicast_address: str
    unicast_address: str
    anycast_address: str
    default_notification_exchange: str | None
    default_rpc_exchange: str | None
