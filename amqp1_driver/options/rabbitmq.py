# SPDX-License-Identifier: Apache-2.0

"""Options: entities that the driver declares on RabbitMQ, and how it reads queues."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import count, seconds, text

_ALL = " Has to be the same in all processes that use the queue; see the documentation."
_NONE = " 0 means no limit."


OPTS: list[cfg.Opt] = [
    seconds(
        "queue_expiry",
        1800.0,
        "RabbitMQ deletes a queue for RPC, or of a notification "
        "pool, that nobody has used for this long.",
        minimum=1,
    ),
    seconds(
        "notification_queue_expiry",
        0.0,
        "RabbitMQ deletes a queue for notifications that "
        "is of no pool when nobody has used it for this long, and what is in it. 0: it is "
        "kept for listeners yet to come." + _ALL,
        minimum=0,
    ),
    cfg.BoolOpt(
        "delete_unused_queues",
        default=True,
        help="Qpid Broker-J, whose queues do not "
        "expire: the last RPC server of a topic that stops deletes the queue of the topic, "
        "if it is empty. On RabbitMQ this has no effect: unused queues expire (option "
        "queue_expiry), because deleting one could lose what is sent to it meanwhile.",
    ),
    cfg.StrOpt(
        "rpc_queue_type",
        default="classic",
        help="RabbitMQ: type of the queues for RPC to "
        "a topic and to a server; those for fanouts and replies are classic always." + _ALL,
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
                "a replicated log: every listener gets every message that comes while it listens",
            ),
        ],
    ),
    cfg.BoolOpt(
        "durable_queues",
        default=True,
        help="RabbitMQ: classic queues, but those for "
        "fanouts and replies, outlive a restart of the broker." + _ALL,
    ),
    seconds(
        "rpc_message_ttl",
        0.0,
        "RabbitMQ: requests that nobody has fetched for this long are "
        "dropped; calls end with their own timeout anyway." + _NONE + _ALL,
        minimum=0,
    ),
    seconds(
        "notification_message_ttl",
        0.0,
        "RabbitMQ: notifications that nobody has fetched for "
        "this long are dropped; in a stream all that are older." + _NONE + _ALL,
        minimum=0,
    ),
    count(
        "rpc_queue_max_length",
        0,
        "RabbitMQ: most messages in a queue for RPC." + _NONE + _ALL,
        minimum=0,
    ),
    count(
        "notification_queue_max_length",
        0,
        "RabbitMQ: most messages in a queue for notifications; not for streams." + _NONE + _ALL,
        minimum=0,
    ),
    count(
        "notification_queue_max_bytes",
        0,
        "RabbitMQ: most bytes of message bodies in a queue "
        "for notifications; of a stream what it takes on disk." + _NONE + _ALL,
        minimum=0,
    ),
    cfg.StrOpt(
        "queue_overflow",
        default="reject-publish",
        help="RabbitMQ: what becomes of messages for a queue that is full." + _ALL,
        choices=[
            ("reject-publish", "their senders get an error"),
            ("drop-head", "the oldest one in the queue is dropped, unnoticed"),
        ],
    ),
    count(
        "queue_delivery_limit",
        0,
        "RabbitMQ: a message is dropped after it was lost so often "
        "with those who had fetched it. For quorum queues, whose own limit is 20, and that is "
        "what 0 means." + _ALL,
        minimum=0,
    ),
    count(
        "queue_replicas",
        0,
        "RabbitMQ: on how many nodes of a cluster a quorum queue or stream "
        "is made; 0: as the broker has it." + _ALL,
        minimum=0,
    ),
    cfg.BoolOpt(
        "notification_single_active_consumer",
        default=False,
        help="RabbitMQ: of all "
        "listeners on a queue for notifications only one gets messages, in their order; "
        "when it goes another one follows. Not for streams." + _ALL,
    ),
    cfg.IntOpt(
        "consumer_priority",
        default=0,
        help="RabbitMQ: of those who read the queue of a "
        "topic or of notifications, messages go first to the ones with the highest number, "
        "as long as these have credit.",
    ),
    text(
        "binding_exchange",
        "amq.direct",
        "RabbitMQ: exchange for fanouts and notifications: an existing one of type direct." + _ALL,
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RabbitmqSettings:
    """Checked values of these options. Durations in seconds, sizes in bytes."""

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
