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

"""What an embedded Service Bus is told about its namespace: entities, rules and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .sas import ALL_RIGHTS, Rule


@dataclass(frozen=True)
class Namespace:
    """Entities must be named here: none comes into being by its use. Immutable, any thread.

    ``queues``: names; ``session_queues``: names of queues that require sessions; ``topics``:
    name -> names of its subscriptions; ``rules``: name -> key, or :class:`Rule` for less than all
    rights; ``jwt_secret``: key of JSON Web Tokens (HS256), None =
    none is accepted. Times in seconds; sizes in bytes.
    """

    queues: Sequence[str] = ()
    session_queues: Sequence[str] = ()
    topics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: Mapping[str, str | Rule] = field(default_factory=dict)
    jwt_secret: str | None = None
    #: How long a message that was delivered is kept from others.
    lock_duration: float = 60.0
    #: Failed deliveries after which a message goes to the dead-letter queue.
    max_delivery_count: int = 10
    #: How long a connection may be without a token.
    token_grace: float = 20.0
    max_message_size: int = 262144
    #: What links are told whose token has expired. The service was also seen to say
    #: amqp:link:detach-forced.
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
        """The rules by name."""
        return {n: r if isinstance(r, Rule) else Rule(r) for n, r in self.rules.items()}


def parse_rule(text: str) -> tuple[str, Rule]:
    """Read ``NAME:KEY`` or ``NAME:KEY:Send,Listen``; raises ValueError."""
    name, _, rest = text.partition(":")
    key, _, listed = rest.partition(":")
    rights = frozenset(r.strip().capitalize() for r in listed.split(",")) if listed else ALL_RIGHTS
    if not name or not key or not rights <= ALL_RIGHTS:
        raise ValueError("a rule is NAME:KEY or NAME:KEY:RIGHTS, of Send, Listen and Manage")
    return name, Rule(key, rights)


def parse_topic(text: str) -> tuple[str, tuple[str, ...]]:
    """Read ``NAME`` or ``NAME:SUBSCRIPTION,SUBSCRIPTION``; raises ValueError."""
    name, _, listed = text.partition(":")
    subscriptions = tuple(s.strip() for s in listed.split(",")) if listed else ()
    if not name or not all(subscriptions):
        raise ValueError("a topic is NAME or NAME:SUBSCRIPTION,SUBSCRIPTION")
    return name, subscriptions
