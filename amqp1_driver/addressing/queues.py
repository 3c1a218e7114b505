# SPDX-License-Identifier: Apache-2.0

"""Options with which the driver declares RabbitMQ's queues. Pure, for any thread."""

import dataclasses

from amqp1_driver.options import Settings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Options for the queues of one purpose.

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
        return (
            ("x-queue-type", self.kind),
            *(self._of_stream() if self.kind == "stream" else self._of_queue()),
        )

    def _of_stream(self) -> tuple[tuple[str, object], ...]:
        return _given(
            ("x-max-age", f"{-(-self.ttl_ms // 1000)}s" if self.ttl_ms else ""),
            ("x-max-length-bytes", self.max_bytes),
            ("x-initial-cluster-size", self.replicas),
        )

    def _of_queue(self) -> tuple[tuple[str, object], ...]:
        quorum = self.kind == "quorum"
        limited = self.max_length or self.max_bytes
        return _given(
            ("x-expires", self.expiry_ms),
            ("x-message-ttl", self.ttl_ms),
            ("x-max-length", self.max_length),
            ("x-max-length-bytes", self.max_bytes),
            ("x-overflow", self.overflow if limited else ""),
            ("x-delivery-limit", self.delivery_limit if quorum else 0),
            ("x-quorum-initial-group-size", self.replicas if quorum else 0),
            ("x-single-active-consumer", self.single_active),
        )


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
        rpc = QueueOptions(
            kind=settings.rabbitmq.rpc_queue_type,
            durable=settings.rabbitmq.durable_queues,
            temporary=settings.rabbitmq.delete_unused_queues,
            expiry_ms=round(settings.rabbitmq.queue_expiry * 1000),
            ttl_ms=round(settings.rabbitmq.rpc_message_ttl * 1000),
            max_length=settings.rabbitmq.rpc_queue_max_length,
            overflow=settings.rabbitmq.queue_overflow,
            delivery_limit=settings.rabbitmq.queue_delivery_limit,
            replicas=settings.rabbitmq.queue_replicas,
        )
        notifications = QueueOptions(
            kind=settings.rabbitmq.notification_queue_type,
            durable=settings.rabbitmq.durable_queues,
            expiry_ms=round(settings.rabbitmq.notification_queue_expiry * 1000),
            ttl_ms=round(settings.rabbitmq.notification_message_ttl * 1000),
            max_length=settings.rabbitmq.notification_queue_max_length,
            max_bytes=settings.rabbitmq.notification_queue_max_bytes,
            overflow=settings.rabbitmq.queue_overflow,
            delivery_limit=settings.rabbitmq.queue_delivery_limit,
            replicas=settings.rabbitmq.queue_replicas,
            single_active=settings.rabbitmq.notification_single_active_consumer,
        )
        return cls(
            rpc=rpc,
            notifications=notifications,
            pools=dataclasses.replace(notifications, expiry_ms=rpc.expiry_ms),
            exchange=settings.rabbitmq.binding_exchange,
            priority=settings.rabbitmq.consumer_priority,
        )


def _given(*arguments: tuple[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple((name, value) for name, value in arguments if value)
