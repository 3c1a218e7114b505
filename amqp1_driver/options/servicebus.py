# SPDX-License-Identifier: Apache-2.0


"""Options: Azure Service Bus, and claims-based security."""

import dataclasses

from oslo_config import cfg

from amqp1_driver.options.kinds import count, seconds, text

#: Domains of the hosts of Azure Service Bus, one for each Azure cloud.
DOMAINS = (
    ".servicebus.windows.net",
    ".servicebus.usgovcloudapi.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.cloudapi.de",
)


OPTS: list[cfg.Opt] = [
    text(
        "token_provider",
        "",
        "Function that makes the tokens for Azure Service Bus, as "
        "package.module:function, instead of user and password of the transport URL. It is "
        "called with the URI of what is to be used, on a thread of its own, and returns (token, "
        "type, expiry): the type is 'jwt' or 'servicebus.windows.net:sastoken', the expiry in "
        "seconds since 1970.",
    ),
    seconds(
        "token_life",
        3600.0,
        "How long a token that is made of user and password (name and "
        "key of a shared access policy) is good for; it is renewed after two thirds to three "
        "quarters of this.",
        minimum=1,
    ),
    cfg.StrOpt(
        "token_scope",
        default="entity",
        help="What a token is put for.",
        choices=[
            ("entity", "each queue, topic and subscription"),
            ("namespace", "all that there is on the host, at once"),
        ],
    ),
    count(
        "servicebus_credit",
        20,
        "Azure Service Bus locks a message for the one who gets it "
        "when it leaves the queue. No more than this many are asked for ahead by each "
        "subscription, also if rpc_server_credit or notify_server_credit say more.",
    ),
    count(
        "servicebus_workers",
        1,
        "On Azure Service Bus: how many processes of this machine "
        "listen with the same name of a server. Each of them then reads fanouts from a "
        "subscription of its own: SERVER, SERVER--2 and so on, which must exist.",
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServiceBusSettings:
    """Checked values of these options. Durations in seconds."""

    token_provider: str
    token_life: float
    token_scope: str
    servicebus_credit: int
    servicebus_workers: int


def is_service_bus(hostname: str | None) -> bool:
    """Return whether a host belongs to Azure Service Bus, by its name."""
    return (hostname or "").lower().rstrip(".").endswith(DOMAINS)
