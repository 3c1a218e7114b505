# SPDX-License-Identifier: Apache-2.0

"""Options: addresses."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import OLD, text

PRECEDENCE = "The driver uses the target's exchange, else this option, else control_exchange, else "


OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "addressing_mode",
        default="dynamic",
        help="Syntax of the addresses on the message bus.",
        choices=[
            (
                "dynamic",
                "the driver recognizes the bus by its Open frame, and Azure Service Bus by "
                "its host name",
            ),
            ("legacy", "names with prefixes, for brokers such as qpidd"),
            ("routable", "paths, for routers such as qpid-dispatch and skupper"),
            ("rabbitmq", "queues and exchanges of RabbitMQ 4"),
            (
                "servicebus",
                "Azure Service Bus; set this if its host name is not in one of Azure's domains",
            ),
        ],
    ),
    cfg.BoolOpt(
        "pseudo_vhost",
        default=True,
        help="Make the virtual host of the transport URL a part of each address. Turn this "
        "off for a bus that has virtual hosts itself: the driver then asks for the "
        "virtual host in the Open frame.",
    ),
    text(
        "server_request_prefix",
        "exclusive",
        "Legacy addresses: prefix for messages to one server.",
        **OLD,
    ),
    text(
        "broadcast_prefix",
        "broadcast",
        "Legacy addresses: prefix for messages to all servers.",
        **OLD,
    ),
    text(
        "group_request_prefix",
        "unicast",
        "Legacy addresses: prefix for messages to any one server of a group.",
        **OLD,
    ),
    text("rpc_address_prefix", "openstack.org/om/rpc", "Routable addresses: prefix for RPC."),
    text(
        "notify_address_prefix",
        "openstack.org/om/notify",
        "Routable addresses: prefix for notifications.",
    ),
    text("multicast_address", "multicast", "Routable addresses: word that stands for all servers."),
    text("unicast_address", "unicast", "Routable addresses: word that stands for one server."),
    text(
        "anycast_address",
        "anycast",
        "Routable addresses: word that stands for any one server of a group.",
    ),
    text(
        "default_notification_exchange",
        None,
        "Exchange in the addresses of notifications. " + PRECEDENCE + "'notify'.",
    ),
    text(
        "default_rpc_exchange", None, "Exchange in the addresses of RPC. " + PRECEDENCE + "'rpc'."
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddressingSettings:
    """The checked values of the options in this module. Durations in seconds, sizes in bytes."""

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
