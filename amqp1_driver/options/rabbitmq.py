# SPDX-License-Identifier: Apache-2.0

"""Options: entities that the driver declares on RabbitMQ, and how it reads queues."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import count, seconds, text

_ALL = " All processes that use the queue need the same value; see the documentation."
_NONE = " 0: no limit."


OPTS: list[cfg.Opt] = [
    seconds(
        "queue_expiry",
        1800.0,
        "Time in seconds after which RabbitMQ deletes an unused queue for RPC or of a "
        "notification pool, with the messages in it.",
        minimum=1,
    ),
    seconds(
        "notification_queue_expiry",
        0.0,
        "Time in seconds after which RabbitMQ deletes an unused queue for "
        "notifications without a pool, with the messages in it. 0: RabbitMQ keeps the "
        "queue for future listeners." + _ALL,
        minimum=0,
    ),
    cfg.BoolOpt(
        "delete_unused_queues",
        default=True,
        help="Qpid Broker-J: let the last RPC server of a topic that stops delete the "
        "topic's queue if it is empty, because unused queues do not expire there. No "
        "effect on RabbitMQ: unused queues expire there (option queue_expiry), and "
        "deleting a queue could lose a message that arrives at the same moment.",
    ),
    cfg.StrOpt(
        "rpc_queue_type",
        default="classic",
        help="RabbitMQ: type of the queues for RPC to a topic and to a server. Queues for "
        "fanouts and replies are always classic." + _ALL,
        choices=[("classic", "fast, on one node of a cluster"), ("quorum", "replicated")],
    ),
    cfg.StrOpt(
        "notification_queue_type",
        default="classic",
        help="RabbitMQ: type of the queues for notifications." + _ALL,
        choices=[
            ("classic", "fast, on one node of a cluster"),
            ("quorum", "replicated"),
            (
                "stream",
                "a replicated log: every listener gets every message that arrives while it listens",
            ),
        ],
    ),
    cfg.BoolOpt(
        "durable_queues",
        default=True,
        help="RabbitMQ: classic queues survive a restart of the broker, except those for "
        "fanouts and replies." + _ALL,
    ),
    seconds(
        "rpc_message_ttl",
        0.0,
        "RabbitMQ: time in seconds after which it drops a request that no server has "
        "fetched. Calls end with their own timeout anyway." + _NONE + _ALL,
        minimum=0,
    ),
    seconds(
        "notification_message_ttl",
        0.0,
        "RabbitMQ: time in seconds after which it drops a notification that no "
        "listener has fetched. From a stream it drops all notifications that are older "
        "than this time." + _NONE + _ALL,
        minimum=0,
    ),
    count(
        "rpc_queue_max_length",
        0,
        "RabbitMQ: largest number of messages in a queue for RPC." + _NONE + _ALL,
        minimum=0,
    ),
    count(
        "notification_queue_max_length",
        0,
        "RabbitMQ: largest number of messages in a queue for notifications. No effect "
        "on streams." + _NONE + _ALL,
        minimum=0,
    ),
    count(
        "notification_queue_max_bytes",
        0,
        "RabbitMQ: largest total size of the message bodies in a queue for "
        "notifications, in bytes. For a stream: its size on disk." + _NONE + _ALL,
        minimum=0,
    ),
    cfg.StrOpt(
        "queue_overflow",
        default="reject-publish",
        help="RabbitMQ: treatment of messages for a full queue." + _ALL,
        choices=[
            ("reject-publish", "the sender gets an error"),
            ("drop-head", "RabbitMQ drops the oldest message in the queue, unnoticed"),
        ],
    ),
    count(
        "queue_delivery_limit",
        0,
        "RabbitMQ: number of failed deliveries after which it drops a message from a "
        "quorum queue. A delivery fails if its reader is lost. 0: the limit of "
        "RabbitMQ itself, which is 20." + _ALL,
        minimum=0,
    ),
    count(
        "queue_replicas",
        0,
        "RabbitMQ: number of nodes of a cluster on which it creates a quorum queue or "
        "stream. 0: the default of the broker." + _ALL,
        minimum=0,
    ),
    cfg.BoolOpt(
        "notification_single_active_consumer",
        default=False,
        help="RabbitMQ: only one of all listeners on a queue for notifications gets "
        "messages, in their order. When it stops, another one follows. No effect on "
        "streams." + _ALL,
    ),
    cfg.IntOpt(
        "consumer_priority",
        default=0,
        help="RabbitMQ: priority of the readers in this process, for the queue of a topic "
        "or of notifications. Readers with the highest number get messages first, as "
        "long as they have credit.",
    ),
    text(
        "binding_exchange",
        "amq.direct",
        "RabbitMQ: exchange for fanouts and notifications. It must exist and be of "
        "type direct." + _ALL,
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RabbitmqSettings:
    """The checked values of the options in this module. Durations in seconds, sizes in bytes."""

    queue_expiry: float
    notification_queue_expiry: float
    delete_unused_queues: bool
    rpc_queue_type: str
    notification_queue_type: str
    durable_queues: bool
    rpc_message_ttl: float
    notification_message_ttl: float
    rpc_queue_max_length: int
    notification_queue_max_length: int
    notification_queue_max_bytes: int
    queue_overflow: str
    queue_delivery_limit: int
    queue_replicas: int
    notification_single_active_consumer: bool
    consumer_priority: int
    binding_exchange: str
