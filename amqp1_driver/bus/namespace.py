# SPDX-License-Identifier: Apache-2.0

"""The configuration of an embedded Service Bus namespace: entities, rules and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .sas import ALL_RIGHTS, Rule


@dataclass(frozen=True)
class Namespace:
    """The configuration of a namespace. Immutable; any thread.

    The bus never creates an entity on use: all entities must be named here. Times are in seconds,
    sizes in bytes.

    :param queues: names of queues
    :param session_queues: names of queues that require sessions
    :param topics: name of a topic -> names of its subscriptions
    :param rules: name -> key (all rights), or :class:`Rule` for fewer rights
    :param jwt_secret: key of JSON Web Tokens (HS256); None = the bus accepts none
    :raises ValueError: neither a rule nor a secret is given, or a limit is too small
    """

    queues: Sequence[str] = ()
    session_queues: Sequence[str] = ()
    topics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: Mapping[str, str | Rule] = field(default_factory=dict)
    jwt_secret: str | None = None
    #: Lock duration of a delivered message in seconds; other receivers do not get the message
    #: meanwhile.
    lock_duration: float = 60.0
    #: Number of failed deliveries after which a message moves to the dead-letter queue.
    max_delivery_count: int = 10
    #: Seconds that a connection may stay open without a token.
    token_grace: float = 20.0
    max_message_size: int = 262144
    #: Error condition of the detach after a token has expired. We have also seen
    #: amqp:link:detach-forced from the real service.
    expired_condition: str = "amqp:unauthorized-access"

    def __post_init__(self) -> None:
        if not self.rules and self.jwt_secret is None:
            raise ValueError("a namespace needs a rule or a secret for tokens: nobody could use it")
        if self.lock_duration <= 0 or self.token_grace <= 0:
            raise ValueError("lock_duration and token_grace must be more than 0")
        if self.max_delivery_count < 1 or self.max_message_size < 1:
            raise ValueError("max_delivery_count and max_message_size must be at least 1")

    @property
    def known_rules(self) -> dict[str, Rule]:
        """Return the rules by name."""
        return {n: r if isinstance(r, Rule) else Rule(r) for n, r in self.rules.items()}


def parse_rule(text: str) -> tuple[str, Rule]:
    """Parse ``NAME:KEY`` or ``NAME:KEY:Send,Listen``.

    :raises ValueError: the text has another form
    """
    name, _, rest = text.partition(":")
    key, _, listed = rest.partition(":")
    rights = frozenset(r.strip().capitalize() for r in listed.split(",")) if listed else ALL_RIGHTS
    if not name or not key or not rights <= ALL_RIGHTS:
        raise ValueError("a rule is NAME:KEY or NAME:KEY:RIGHTS, of Send, Listen and Manage")
    return name, Rule(key, rights)


def parse_topic(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse ``NAME`` or ``NAME:SUBSCRIPTION,SUBSCRIPTION``.

    :raises ValueError: the text has another form
    """
    name, _, listed = text.partition(":")
    subscriptions = tuple(s.strip() for s in listed.split(",")) if listed else ()
    if not name or not all(subscriptions):
        raise ValueError("a topic is NAME or NAME:SUBSCRIPTION,SUBSCRIPTION")
    return name, subscriptions
