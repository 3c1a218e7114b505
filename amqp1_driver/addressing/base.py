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

"""Destinations of oslo.messaging, and what an addresser makes of them.

Pure: immutable values, for any thread. A *destination* is where a message should go in the
terms of oslo.messaging; a *node* (AMQP 1.0 section 2.1) is where it goes on this bus.
"""

import dataclasses
import enum
from typing import Protocol, TypeAlias

from amqp1_driver.addressing.queues import RabbitmqConfig
from amqp1_driver.options import Settings


class Service(enum.Enum):
    """What a message is part of; the same topic may serve both without mixing them up.

    NODE: no part of oslo.messaging. The topic is the address of a node (AMQP 1.0 section 2.1),
    which is used as it stands, whatever the bus; nothing is declared for it.
    """

    RPC = "rpc"
    NOTIFY = "notify"
    NODE = "node"


@dataclasses.dataclass(frozen=True, slots=True)
class Destination:
    """Where messages go to or come from, independent of the bus. Key of the link cache.

    :param exchange: None or empty for the default exchange.
    :param topic: for notifications with the priority, ``notifications.info``.
    :param server: one server of the topic; None for any one of them.
    :param fanout: all servers of the topic; then there is no single server.

    Normalised, so that destinations that mean the same are equal: notifications and nodes know
    neither server nor fanout.
    """

    service: Service
    exchange: str | None
    topic: str
    server: str | None = None
    fanout: bool = False
    #: looked up for every message, so reckoned once
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
        """Topic and server, or what stands for it, in logs and errors."""
        if self.fanout:
            return f"{self.topic} (fanout)"
        return f"{self.topic}.{self.server}" if self.server else self.topic


@dataclasses.dataclass(frozen=True, slots=True)
class Queue:
    """A queue that must exist; ``arguments`` as the bus names them.

    :param temporary: the last one who reads it deletes it when it stops in order.
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
    """Messages to ``exchange`` with routing key ``key`` go into ``queue``."""

    exchange: str
    queue: str
    key: str


@dataclasses.dataclass(frozen=True, slots=True)
class Entity:
    """What must exist already, for nobody can declare it over AMQP.

    :param kind: ``queue``, ``topic`` or ``subscription``
    :param name: its address
    :param sessions: it must keep messages apart by their group-id
    """

    kind: str
    name: str
    sessions: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (" (with sessions)" if self.sessions else "")


Declaration: TypeAlias = Queue | Exchange | Binding | Entity


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """An address on the bus, and what must be declared, in this order, before it is used.

    :param capability: of the terminus: what the node has to be (``queue``, ``topic``) where the
        bus asks; empty: none.
    :param properties: of a link that reads it.
    """

    address: str
    declare: tuple[Declaration, ...] = ()
    capability: str = ""
    properties: tuple[tuple[str, object], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AddressConfig:
    """What the configuration says about addresses.

    :param vhost: virtual host that has to be a part of each address; None when there is none,
        or when the bus itself keeps virtual hosts apart.
    :param default_exchange: the transport's, from ``control_exchange``.
    :param rabbitmq: how queues of RabbitMQ are declared.
    :param durable_casts: casts are marked durable (option ``durable``).
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
        """:param vhost: only if it is to be part of addresses (option ``pseudo_vhost``)."""
        return cls(
            vhost=vhost or None,
            default_exchange=default_exchange or None,
            default_rpc_exchange=settings.default_rpc_exchange or None,
            default_notification_exchange=settings.default_notification_exchange or None,
            server_request_prefix=settings.server_request_prefix,
            broadcast_prefix=settings.broadcast_prefix,
            group_request_prefix=settings.group_request_prefix,
            rpc_address_prefix=settings.rpc_address_prefix,
            notify_address_prefix=settings.notify_address_prefix,
            multicast_address=settings.multicast_address,
            unicast_address=settings.unicast_address,
            anycast_address=settings.anycast_address,
            rabbitmq=RabbitmqConfig.from_settings(settings),
            durable_casts="rpc-cast" in settings.durable,
        )

    def exchange_of(self, dest: Destination) -> str:
        """Exchange of a destination, by the precedence that operators know."""
        if dest.service is Service.RPC:
            configured = self.default_rpc_exchange
        else:
            configured = self.default_notification_exchange
        return dest.exchange or configured or self.default_exchange or dest.service.value


class Addresser(Protocol):
    """Turns destinations into nodes of one kind of bus. Immutable, for any thread."""

    def target(self, dest: Destination) -> Node:
        """Where to send a message for ``dest``."""
        ...

    def sources(self, dest: Destination, *, pool: str | None, unique: str) -> tuple[Node, ...]:
        """Where to receive the messages for ``dest`` from.

        RPC: the server's own node (when ``dest`` names a server), the group's and the one for
        all, in that order. Notifications: one node.

        :param pool: name of a pool of notification listeners; each pool gets every message.
        :param unique: distinguishes this listener from all others on the bus.
        :raises UnsupportedFeature: the bus knows no pools.
        """
        ...
