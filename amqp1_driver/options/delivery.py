# SPDX-License-Identifier: Apache-2.0

"""Options: deadlines, settlement, credit, bodies of messages."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import count, seconds

PRE_SETTLED = ("rpc-call", "rpc-cast", "rpc-reply", "notify")
#: least value of max_message_size, bytes: fast paths do not check smaller received messages
LEAST_MESSAGE = 65536
#: kinds of messages that may survive a restart of the broker
DURABLE = ("rpc-cast", "notify")


OPTS: list[cfg.Opt] = [
    seconds(
        "link_retry_delay",
        10.0,
        "Longest pause before a link that the peer refused or "
        "detached is attached again; the first one is 0.1 s, each further one twice as long.",
    ),
    count(
        "default_reply_retry",
        1,
        "How often a reply is sent again after a recoverable "
        "failure: 0 or 1. Other values, which older files may have, mean 1.",
        minimum=-1,
    ),
    seconds("default_reply_timeout", 10.0, "Time to deliver an RPC reply in."),
    seconds(
        "default_send_timeout",
        30.0,
        "Time to deliver an RPC request in when the caller gives no timeout.",
    ),
    seconds("default_notify_timeout", 30.0, "Time to deliver a notification in."),
    seconds(
        "default_sender_link_timeout",
        600.0,
        "A sending link that was not used for this long is detached.",
    ),
    cfg.MultiStrOpt(
        "pre_settled",
        default=[],
        help="Kinds of messages that are sent without "
        "waiting for the peer to take them. A message may then be lost unnoticed: a "
        "router drops it in overload. May be repeated. Values: " + ", ".join(PRE_SETTLED) + ".",
    ),
    cfg.MultiStrOpt(
        "durable",
        default=list(DURABLE),
        help="Kinds of messages that a broker shall "
        "keep when it restarts; it then takes them over only once they are stored. "
        "Without effect on routers. May be repeated; an empty value means none. "
        "Values: " + ", ".join(DURABLE) + ".",
    ),
    cfg.BoolOpt(
        "resend_released",
        default=False,
        help="Send again, within retry and timeout, "
        "messages that the bus handed back unprocessed (RELEASED, or MODIFIED without "
        "delivery-failed), instead of failing them. Without effect on RabbitMQ, "
        "which also releases messages that may have been processed.",
    ),
    count("reply_link_credit", 200, "Replies the peer may send ahead."),
    count(
        "rpc_server_credit",
        100,
        "Requests the peer may send ahead to each subscription of "
        "an RPC server; more are sent as those are settled.",
    ),
    count(
        "notify_server_credit", 100, "Notifications the peer may send ahead to each subscription."
    ),
    count(
        "session_window",
        0,
        "Frames that the peer may send ahead on each session, whatever the "
        "credit of its links: messages that are larger come in pieces. 0: no bound but the "
        "credit.",
        minimum=0,
        max=2147483647,
    ),
    count(
        "max_message_size",
        67108864,
        "Largest message in bytes, as it is on the wire and after "
        "decompression. The peer is told so, a larger one ends the link that it comes over, and "
        "one to be sent fails at once. The same for all services of a bus. 0: no bound but what "
        "the bus takes.",
        minimum=0,
    ),
    count(
        "reply_backlog",
        1000,
        "Replies that may wait unsent before those who reply have to wait too.",
    ),
    count(
        "mailbox_size",
        10000,
        "Operations that may wait for the I/O thread before callers have to wait too.",
    ),
    seconds(
        "blocked_warning_interval",
        10.0,
        "How often to warn of an address for which the "
        "bus gives no credit. Shorter blockades, from one second on, are logged at INFO, as "
        "often at most for each link.",
    ),
    count(
        "duplicate_window",
        1024,
        "How many message ids each subscription remembers to drop "
        "messages that are delivered twice; 0 turns it off.",
        minimum=0,
    ),
    cfg.StrOpt(
        "compression",
        default="",
        choices=[("", "none"), ("gzip", "gzip")],
        help="Compress the bodies of large messages. All receivers must know how.",
    ),
    count("compression_threshold", 16384, "Bodies of fewer bytes are not compressed.", minimum=0),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeliverySettings:
    """Checked values of these options. Durations in seconds, sizes in bytes."""

    link_retry_delay: float
    default_reply_retry: int
    default_reply_timeout: float
    default_send_timeout: float
    default_notify_timeout: float
    default_sender_link_timeout: float
    pre_settled: frozenset[str]
    durable: frozenset[str]
    resend_released: bool
    reply_link_credit: int
    rpc_server_credit: int
    notify_server_credit: int
    session_window: int
    max_message_size: int
    reply_backlog: int
    mailbox_size: int
    blocked_warning_interval: float
    duplicate_window: int
    compression: str
    compression_threshold: int
