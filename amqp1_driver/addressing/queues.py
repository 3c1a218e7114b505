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

"""What queues of RabbitMQ are declared with. Pure: immutable values, for any thread."""

import dataclasses

from amqp1_driver.options import Settings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """How queues of one purpose are declared. Durations in milliseconds, 0 means none.

    :param kind: ``classic``, ``quorum`` or ``stream``
    :param replicas: of quorum queues and streams; 0: as the broker has it
    :param delivery_limit: of quorum queues; 0: as the broker has it
    :param temporary: the last one who reads it deletes it
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
        """Whether the queue outlives a restart of the broker."""
        return self.durable or self.kind != "classic"

    def arguments(self) -> tuple[tuple[str, object], ...]:
        """Optional arguments of the declaration.

        The type is always given, because the default type can be set by virtual host.
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
    """What the configuration says about RabbitMQ.

    :param pools: of notification pools
    :param exchange: for fanouts and notifications; exists, of type direct
    :param priority: of those who read a queue together with others
    """

    rpc: QueueOptions = QueueOptions()
    notifications: QueueOptions = QueueOptions()
    pools: QueueOptions = QueueOptions()
    exchange: str = "amq.direct"
    priority: int = 0

    @classmethod
    def from_settings(cls, settings: Settings) -> "RabbitmqConfig":
        rpc = QueueOptions(
            kind=settings.rpc_queue_type,
            durable=settings.durable_queues,
            temporary=settings.delete_unused_queues,
            expiry_ms=round(settings.queue_expiry * 1000),
            ttl_ms=round(settings.rpc_message_ttl * 1000),
            max_length=settings.rpc_queue_max_length,
            overflow=settings.queue_overflow,
            delivery_limit=settings.queue_delivery_limit,
            replicas=settings.queue_replicas,
        )
        notifications = QueueOptions(
            kind=settings.notification_queue_type,
            durable=settings.durable_queues,
            expiry_ms=round(settings.notification_queue_expiry * 1000),
            ttl_ms=round(settings.notification_message_ttl * 1000),
            max_length=settings.notification_queue_max_length,
            max_bytes=settings.notification_queue_max_bytes,
            overflow=settings.queue_overflow,
            delivery_limit=settings.queue_delivery_limit,
            replicas=settings.queue_replicas,
            single_active=settings.notification_single_active_consumer,
        )
        return cls(
            rpc=rpc,
            notifications=notifications,
            pools=dataclasses.replace(notifications, expiry_ms=rpc.expiry_ms),
            exchange=settings.binding_exchange,
            priority=settings.consumer_priority,
        )


def _given(*arguments: tuple[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple((name, value) for name, value in arguments if value)
