# SPDX-License-Identifier: Apache-2.0

"""Destinations of oslo.messaging, and the nodes that an addresser makes of them.

Pure: immutable values, for any thread. A *destination* names in the terms of oslo.messaging
where a message should go; a *node* (AMQP 1.0 section 2.1) is that place on one bus.
"""

import dataclasses
import enum
from abc import ABC, abstractmethod
from typing import TypeAlias

from amqp1_driver.exceptions import UnsupportedFeature
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
    def distribution(self) -> str:
        """Return which receivers get a message: ``unicast``, ``anycast`` or ``multicast``."""
        return "multicast" if self.fanout else "unicast" if self.server else "anycast"

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


Declaration: TypeAlias = Queue | Binding | Entity


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
class QueueOptions:
    """Options with which the driver declares RabbitMQ's queues of one purpose.

    Durations are milliseconds; a duration or limit of 0 means none, except where noted.

    :param kind: ``classic``, ``quorum`` or ``stream``
    :param replicas: replicas of a quorum queue or stream; 0: the default of the broker
    :param delivery_limit: delivery limit of a quorum queue; 0: the default of the broker
    :param temporary: Broker-J only: the last reader, on closing in order, deletes the queue
    """

    kind: str = "classic"
    durable: bool = True
    temporary: bool = False
    expiry_ms: int = 0
    ttl_ms: int = 0
    max_length: int = 0
    max_bytes: int = 0
    overflow: str = "drop-head"
    delivery_limit: int = 0
    replicas: int = 0
    single_active: bool = False

    @property
    def lasting(self) -> bool:
        """Return whether the queue survives a restart of the broker."""
        return self.durable or self.kind != "classic"

    def arguments(self) -> tuple[tuple[str, object], ...]:
        """Return the optional arguments of the declaration.

        They always name the queue type, because a virtual host may set another default type.
        """
        given: tuple[tuple[str, object], ...]
        if self.kind == "stream":
            given = (
                ("x-max-age", f"{-(-self.ttl_ms // 1000)}s" if self.ttl_ms else ""),
                ("x-max-length-bytes", self.max_bytes),
                ("x-initial-cluster-size", self.replicas),
            )
        else:
            quorum = self.kind == "quorum"
            limited = self.max_length or self.max_bytes
            given = (
                ("x-expires", self.expiry_ms),
                ("x-message-ttl", self.ttl_ms),
                ("x-max-length", self.max_length),
                ("x-max-length-bytes", self.max_bytes),
                ("x-overflow", self.overflow if limited else ""),
                ("x-delivery-limit", self.delivery_limit if quorum else 0),
                ("x-quorum-initial-group-size", self.replicas if quorum else 0),
                ("x-single-active-consumer", self.single_active),
            )
        return (("x-queue-type", self.kind), *(pair for pair in given if pair[1]))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RabbitmqConfig:
    """The part of the configuration that concerns RabbitMQ.

    :param pools: options for the queues of notification pools
    :param exchange: existing direct exchange for fanouts and notifications
    :param priority: consumer priority of links that share a queue with others; 0: none
    """

    rpc: QueueOptions = QueueOptions()
    notifications: QueueOptions = QueueOptions()
    pools: QueueOptions = QueueOptions()
    exchange: str = "amq.direct"
    priority: int = 0

    @classmethod
    def from_settings(cls, settings: Settings) -> "RabbitmqConfig":
        options = settings.rabbitmq
        common = QueueOptions(
            durable=options.durable_queues,
            overflow=options.queue_overflow,
            delivery_limit=options.queue_delivery_limit,
            replicas=options.queue_replicas,
        )
        rpc = dataclasses.replace(
            common,
            kind=options.rpc_queue_type,
            temporary=options.delete_unused_queues,
            expiry_ms=round(options.queue_expiry * 1000),
            ttl_ms=round(options.rpc_message_ttl * 1000),
            max_length=options.rpc_queue_max_length,
        )
        notifications = dataclasses.replace(
            common,
            kind=options.notification_queue_type,
            expiry_ms=round(options.notification_queue_expiry * 1000),
            ttl_ms=round(options.notification_message_ttl * 1000),
            max_length=options.notification_queue_max_length,
            max_bytes=options.notification_queue_max_bytes,
            single_active=options.notification_single_active_consumer,
        )
        return cls(
            rpc=rpc,
            notifications=notifications,
            pools=dataclasses.replace(notifications, expiry_ms=rpc.expiry_ms),
            exchange=options.binding_exchange,
            priority=options.consumer_priority,
        )


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
        options = settings.addressing
        return cls(
            vhost=vhost or None,
            default_exchange=default_exchange or None,
            default_rpc_exchange=options.default_rpc_exchange or None,
            default_notification_exchange=options.default_notification_exchange or None,
            server_request_prefix=options.server_request_prefix,
            broadcast_prefix=options.broadcast_prefix,
            group_request_prefix=options.group_request_prefix,
            rpc_address_prefix=options.rpc_address_prefix,
            notify_address_prefix=options.notify_address_prefix,
            multicast_address=options.multicast_address,
            unicast_address=options.unicast_address,
            anycast_address=options.anycast_address,
            rabbitmq=RabbitmqConfig.from_settings(settings),
            durable_casts="rpc-cast" in settings.delivery.durable,
        )

    def exchange_of(self, dest: Destination) -> str:
        """Return the exchange of a destination.

        The exchange of the destination comes first, then the configured default of its service,
        then that of the transport, then the name of the service.
        """
        rpc = dest.service is Service.RPC
        configured = self.default_rpc_exchange if rpc else self.default_notification_exchange
        return dest.exchange or configured or self.default_exchange or dest.service.value


@dataclasses.dataclass(frozen=True, slots=True)
class Addresser(ABC):
    """A translator of destinations into nodes of one kind of bus. Immutable, for any thread.

    :param bus: name of the bus, for errors.
    :param pools: notification pools are possible; False also when an option forces the syntax
        upon another kind of bus.
    """

    config: AddressConfig
    bus: str = "this message bus"
    pools: bool = True

    @abstractmethod
    def target(self, dest: Destination) -> Node:
        """Return the node to send messages for ``dest`` to."""

    def sources(self, dest: Destination, *, pool: str | None, unique: str) -> tuple[Node, ...]:
        """Return the nodes to receive the messages for ``dest`` from.

        RPC: the server's own node (when ``dest`` names a server), the node of the group and the
        fanout node, in that order. Notifications: one node.

        :param pool: name of a pool of notification listeners; each pool gets every message.
        :param unique: text that distinguishes this listener from all others on the bus.
        :raises UnsupportedFeature: the bus has no pools.
        """
        if dest.service is Service.NOTIFY:
            return (self._notify_source(dest, pool or None),)
        own = (self._rpc_source(dest),) if dest.server else ()
        group = self._rpc_source(dataclasses.replace(dest, server=None, fanout=False))
        return (*own, group, self._fanout_source(dest, pool, unique))

    def _rpc_source(self, dest: Destination) -> Node:
        return self.target(dest)

    def _fanout_source(self, dest: Destination, pool: str | None, unique: str) -> Node:
        return self.target(dataclasses.replace(dest, fanout=True))

    def _notify_source(self, dest: Destination, pool: str | None) -> Node:
        node = self.target(dest)
        self._check(pool, node.address)
        return node

    def _check(self, pool: str | None, address: str | None = None) -> None:
        """Refuse a pool, unless there are pools.

        :param address: address of the notifications, for the error.
        """
        if pool and not self.pools:
            raise UnsupportedFeature(
                f"notification pools are not supported by {self.bus}", address=address
            )

    def _names(self, dest: Destination) -> tuple[str, ...]:
        """Return exchange, topic and, if there is one, server of a destination."""
        server = (dest.server,) if dest.server else ()
        return (self.config.exchange_of(dest), dest.topic, *server)


def escapes(characters: str) -> dict[int, str]:
    """Return the table by which ``str.translate`` percent-encodes some ASCII characters."""
    return {ord(character): f"%{ord(character):02X}" for character in characters}
