# SPDX-License-Identifier: Apache-2.0

"""Destinations of oslo.messaging, and the nodes that an addresser makes of them.

Pure: immutable values, for any thread. A *destination* names in the terms of oslo.messaging
where a message should go; a *node* (AMQP 1.0 section 2.1) is that place on one bus.
"""

import dataclasses
import enum
from typing import Protocol, TypeAlias

from amqp1_driver.addressing.queues import RabbitmqConfig
from amqp1_driver.options import Settings


class Service(enum.Enum):
    """The kind of traffic that a message belongs to; RPC and notifications may share a topic name.

    NODE: a node outside oslo.messaging. The topic is the address of the node (AMQP 1.0 section
    2.1). The driver uses this address unchanged on every bus and declares nothing for it.
    """

    RPC = "rpc"
    NOTIFY = "notify"
    NODE = "node"


@dataclasses.dataclass(frozen=True, slots=True)
class Destination:
    """A place that messages go to or come from, independent of the bus. Key of the node cache.

    The constructor normalises the fields, so that destinations with the same meaning are equal:
    a notification or node has neither server nor fanout.

    :param exchange: None or empty for the default exchange.
    :param topic: for notifications it includes the priority: ``notifications.info``.
    :param server: one server of the topic; None for any one of them.
    :param fanout: all servers of the topic; the constructor then sets ``server`` to None.
    """

    service: Service
    exchange: str | None
    topic: str
    server: str | None = None
    fanout: bool = False
    #: computed once, because every message looks up its destination
    _hash: int = dataclasses.field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return self._hash

    def __post_init__(self) -> None:
        fanout = bool(self.fanout) and self.service is Service.RPC
        server = None if fanout or self.service is not Service.RPC else self.server
        object.__setattr__(self, "fanout", fanout)
        object.__setattr__(self, "server", server or None)
        exchange = self.exchange or None
        object.__setattr__(self, "exchange", exchange)
        fields = (self.service, exchange, self.topic, server or None, fanout)
        object.__setattr__(self, "_hash", hash(fields))

    @property
    def routing_key(self) -> str:
        """Return topic and server, or topic and ``(fanout)``, for logs and errors."""
        if self.fanout:
            return f"{self.topic} (fanout)"
        return f"{self.topic}.{self.server}" if self.server else self.topic


@dataclasses.dataclass(frozen=True, slots=True)
class Queue:
    """A queue that must exist.

    :param arguments: optional arguments, by the names that the bus uses.
    :param temporary: Broker-J only: the last reader, on closing in order, deletes the queue.
    """

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: tuple[tuple[str, object], ...] = ()
    temporary: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange that must exist; ``type`` is ``direct`` or ``fanout``."""

    name: str
    type: str
    durable: bool
    auto_delete: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Binding:
    """A binding that routes messages to ``exchange`` with routing key ``key`` into ``queue``."""

    exchange: str
    queue: str
    key: str


@dataclasses.dataclass(frozen=True, slots=True)
class Entity:
    """An entity that must exist already, because no client can declare it over AMQP.

    :param kind: ``queue``, ``topic`` or ``subscription``
    :param name: address of the entity
    :param sessions: the entity must have sessions, which separate messages by their group-id
    """

    kind: str
    name: str
    sessions: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (" (with sessions)" if self.sessions else "")


Declaration: TypeAlias = Queue | Exchange | Binding | Entity


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """An address on the bus, and the declarations that must precede its use.

    :param declare: the declarations, in the order in which the driver must make them.
    :param capability: capability of the terminus (``queue``, ``topic``), which asks the bus for
        this kind of node; empty: none.
    :param properties: properties of a link that reads the node.
    """

    address: str
    declare: tuple[Declaration, ...] = ()
    capability: str = ""
    properties: tuple[tuple[str, object], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AddressConfig:
    """The part of the configuration that concerns addresses.

    :param vhost: virtual host that has to be a part of each address; None when there is none,
        or when the bus itself separates virtual hosts.
    :param default_exchange: default exchange of the transport, from ``control_exchange``.
    :param rabbitmq: options of the queues of RabbitMQ.
    :param durable_casts: the driver marks casts durable (option ``durable``).
    """

    vhost: str | None
    default_exchange: str | None
    default_rpc_exchange: str | None
    default_notification_exchange: str | None
    server_request_prefix: str
    broadcast_prefix: str
    group_request_prefix: str
    rpc_address_prefix: str
    notify_address_prefix: str
    multicast_address: str
    unicast_address: str
    anycast_address: str
    rabbitmq: RabbitmqConfig
    durable_casts: bool = True

    @classmethod
    def from_settings(
        cls, settings: Settings, vhost: str | None = None, default_exchange: str | None = None
    ) -> "AddressConfig":
        """Return the address configuration of some settings.

        :param vhost: virtual host to put into each address (option ``pseudo_vhost``), or None.
        """
        return cls(
            vhost=vhost or None,
            default_exchange=default_exchange or None,
            default_rpc_exchange=settings.addressing.default_rpc_exchange or None,
            default_notification_exchange=settings.addressing.default_notification_exchange or None,
            server_request_prefix=settings.addressing.server_request_prefix,
            broadcast_prefix=settings.addressing.broadcast_prefix,
            group_request_prefix=settings.addressing.group_request_prefix,
            rpc_address_prefix=settings.addressing.rpc_address_prefix,
            notify_address_prefix=settings.addressing.notify_address_prefix,
            multicast_address=settings.addressing.multicast_address,
            unicast_address=settings.addressing.unicast_address,
            anycast_address=settings.addressing.anycast_address,
            rabbitmq=RabbitmqConfig.from_settings(settings),
            durable_casts="rpc-cast" in settings.delivery.durable,
        )

    def exchange_of(self, dest: Destination) -> str:
        """Return the exchange of a destination.

        The exchange of the destination comes first, then the configured default of its service,
        then that of the transport, then the name of the service.
        """
        if dest.service is Service.RPC:
            configured = self.default_rpc_exchange
        else:
            configured = self.default_notification_exchange
        return dest.exchange or configured or self.default_exchange or dest.service.value


class Addresser(Protocol):
    """A translator of destinations into nodes of one kind of bus. Immutable, for any thread."""

    def target(self, dest: Destination) -> Node:
        """Return the node to send messages for ``dest`` to."""
        ...

    def sources(self, dest: Destination, *, pool: str | None, unique: str) -> tuple[Node, ...]:
        """Return the nodes to receive the messages for ``dest`` from.

        RPC: the server's own node (when ``dest`` names a server), the node of the group and the
        fanout node, in that order. Notifications: one node.

        :param pool: name of a pool of notification listeners; each pool gets every message.
        :param unique: text that distinguishes this listener from all others on the bus.
        :raises UnsupportedFeature: the bus has no pools.
        """
        ...
