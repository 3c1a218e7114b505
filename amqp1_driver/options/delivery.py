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
        "Longest pause in seconds before the driver attaches a link again that the "
        "peer refused or detached. The first pause is 0.1 s, and each further one is "
        "twice as long.",
    ),
    count(
        "default_reply_retry",
        1,
        "How often the driver sends a reply again after a recoverable failure: 0 or 1. "
        "Other values, which older files may contain, mean 1.",
        minimum=-1,
    ),
    seconds("default_reply_timeout", 10.0, "Time limit in seconds for delivering an RPC reply."),
    seconds(
        "default_send_timeout",
        30.0,
        "Time limit in seconds for delivering an RPC request whose caller gives no timeout.",
    ),
    seconds("default_notify_timeout", 30.0, "Time limit in seconds for delivering a notification."),
    seconds(
        "default_sender_link_timeout",
        600.0,
        "Time in seconds after which the driver detaches an unused sending link.",
    ),
    cfg.MultiStrOpt(
        "pre_settled",
        default=[],
        help="Kinds of messages that the driver sends without waiting for the peer to "
        "accept them. Such a message may be lost unnoticed: a router drops it in "
        "overload. May be repeated. Values: " + ", ".join(PRE_SETTLED) + ".",
    ),
    cfg.MultiStrOpt(
        "durable",
        default=list(DURABLE),
        help="Kinds of messages that a broker shall keep when it restarts. The broker "
        "accepts such a message only when it has stored it. No effect on routers. May "
        "be repeated; an empty value means none. Values: " + ", ".join(DURABLE) + ".",
    ),
    cfg.BoolOpt(
        "resend_released",
        default=False,
        help="Send a message again if the bus handed it back unprocessed (RELEASED, or "
        "MODIFIED without delivery-failed), within the message's retry and timeout. If "
        "false, such a message fails. No effect on RabbitMQ, which also releases "
        "messages that may have been processed.",
    ),
    count(
        "reply_link_credit",
        200,
        "Credit for replies: how many the peer may send before the driver has handed "
        "them to their callers.",
    ),
    count(
        "rpc_server_credit",
        100,
        "Credit of each subscription of an RPC server: how many requests the peer may "
        "send that the server has not settled.",
    ),
    count(
        "notify_server_credit",
        100,
        "Credit of each subscription of a notification listener: how many "
        "notifications the peer may send that the listener has not settled.",
    ),
    count(
        "session_window",
        0,
        "Number of frames that the peer may send ahead on each session, whatever the "
        "credit of its links. A message that is larger than the window comes in "
        "pieces. 0: only the credit limits the peer.",
        minimum=0,
        max=2147483647,
    ),
    count(
        "max_message_size",
        67108864,
        "Largest message in bytes, both on the wire and after decompression. The "
        "driver announces it to the peer. A larger message from the peer ends its "
        "link, and sending a larger message fails at once. All services of a bus need "
        "the same value. 0: no limit other than that of the bus.",
        minimum=0,
    ),
    count(
        "reply_backlog",
        1000,
        "Number of replies that may wait in the driver. If more wait, the threads that "
        "reply wait too.",
    ),
    count(
        "mailbox_size",
        10000,
        "Number of operations that may wait for the I/O thread. If more wait, their "
        "callers wait too.",
    ),
    seconds(
        "blocked_warning_interval",
        10.0,
        "Interval in seconds between warnings about an address for which the bus gives "
        "no credit. The driver logs shorter waits, from one second on, at INFO, at "
        "most once for each link in this interval.",
    ),
    count(
        "duplicate_window",
        1024,
        "Number of message ids that each subscription remembers, to drop messages that "
        "the bus delivers twice. 0: no check.",
        minimum=0,
    ),
    cfg.StrOpt(
        "compression",
        default="",
        choices=[("", "none"), ("gzip", "gzip")],
        help="Compression of the bodies of large messages. All receivers must support it.",
    ),
    count(
        "compression_threshold",
        16384,
        "Smallest body in bytes that the driver compresses.",
        minimum=0,
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeliverySettings:
    """The checked values of the options in this module. Durations in seconds, sizes in bytes."""

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
