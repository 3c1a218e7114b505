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

"""Options: deadlines, settlement, credit, bodies of messages."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import count, seconds

PRE_SETTLED = ("rpc-call", "rpc-cast", "rpc-reply", "notify")
#: kinds of messages that may outlive a restart of the broker
DURABLE = ("rpc-cast", "notify")

# fmt: off
OPTS: list[cfg.Opt] = [
    seconds("link_retry_delay", 10.0, "Longest pause before a link that the peer refused or "
            "detached is attached again; the first one is 0.1 s, each further one twice as long."),
    count("default_reply_retry", 1, "How often a reply is sent again after a recoverable "
          "failure: 0 or 1. Other values, which older files may have, mean 1.", minimum=-1),
    seconds("default_reply_timeout", 10.0, "Time to deliver an RPC reply in."),
    seconds("default_send_timeout", 30.0, "Time to deliver an RPC request in when the caller "
            "gives no timeout."),
    seconds("default_notify_timeout", 30.0, "Time to deliver a notification in."),
    seconds("default_sender_link_timeout", 600.0, "A sending link that was not used for this "
            "long is detached."),
    cfg.MultiStrOpt("pre_settled", default=[], help="Kinds of messages that are sent without "
                    "waiting for the peer to take them. A message may then be lost unnoticed: a "
                    "router drops it in overload. May be repeated. Values: "
                    + ", ".join(PRE_SETTLED) + "."),
    cfg.MultiStrOpt("durable", default=list(DURABLE), help="Kinds of messages that a broker shall "
                    "keep when it restarts; it then takes them over only once they are stored. "
                    "Without effect on routers. May be repeated; an empty value means none. "
                    "Values: " + ", ".join(DURABLE) + "."),
    cfg.BoolOpt("resend_released", default=False, help="Send again, within retry and timeout, "
                "messages that the bus handed back unprocessed (RELEASED, or MODIFIED without "
                "delivery-failed), instead of failing them."),
    count("reply_link_credit", 200, "Replies the peer may send ahead."),
    count("rpc_server_credit", 100, "Requests the peer may send ahead to each subscription of "
          "an RPC server; more are sent as those are settled."),
    count("notify_server_credit", 100, "Notifications the peer may send ahead to each "
          "subscription."),
    count("session_window", 0, "Frames that the peer may send ahead on each session, whatever the "
          "credit of its links: messages that are larger come in pieces. 0: no bound but the "
          "credit.", minimum=0, max=2147483647),
    count("reply_backlog", 1000, "Replies that may wait unsent before those who reply have to "
          "wait too."),
    count("mailbox_size", 10000, "Operations that may wait for the I/O thread before callers "
          "have to wait too."),
    seconds("blocked_warning_interval", 10.0, "How often to warn of an address for which the "
            "bus gives no credit."),
    count("duplicate_window", 1024, "How many message ids each subscription remembers to drop "
          "messages that are delivered twice; 0 turns it off.", minimum=0),
    cfg.StrOpt("compression", default="", choices=[("", "none"), ("gzip", "gzip")],
               help="Compress the bodies of large messages. All receivers must know how."),
    count("compression_threshold", 16384, "Bodies of fewer bytes are not compressed.", minimum=0),
]
# fmt: on


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
    reply_backlog: int
    mailbox_size: int
    blocked_warning_interval: float
    duplicate_window: int
    compression: str
    compression_threshold: int
