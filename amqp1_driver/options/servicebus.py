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
        "package.module:function. It replaces user and password of the transport URL. "
        "The driver calls it with the URI of the resource, on a separate thread. It "
        "returns (token, type, expiry): the type is 'jwt' or "
        "'servicebus.windows.net:sastoken', the expiry is in seconds since 1970.",
    ),
    seconds(
        "token_life",
        3600.0,
        "Life in seconds of a token that the driver makes from user and password (name "
        "and key of a shared access policy). The driver renews it after two thirds to "
        "three quarters of this time.",
        minimum=1,
    ),
    cfg.StrOpt(
        "token_scope",
        default="entity",
        help="Resources that one token covers.",
        choices=[
            ("entity", "one queue, topic or subscription; each has its own token"),
            ("namespace", "all entities of the host together"),
        ],
    ),
    count(
        "servicebus_credit",
        20,
        "Azure Service Bus: largest number of messages that a subscription requests "
        "ahead, even if rpc_server_credit or notify_server_credit is larger. The "
        "service locks a message for its reader when the message leaves the queue.",
    ),
    count(
        "servicebus_workers",
        1,
        "Azure Service Bus: number of processes of this machine that listen with the "
        "same server name. Each process reads fanouts from its own subscription: "
        "SERVER, SERVER--2 and so on. These subscriptions must exist.",
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServiceBusSettings:
    """The checked values of the options in this module. Durations in seconds."""

    token_provider: str
    token_life: float
    token_scope: str
    servicebus_credit: int
    servicebus_workers: int


def is_service_bus(hostname: str | None) -> bool:
    """Return whether the name of a host shows that it belongs to Azure Service Bus."""
    return (hostname or "").lower().rstrip(".").endswith(DOMAINS)
