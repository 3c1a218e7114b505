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

"""Which host to connect to next, and after what delay.

Pure functions over an immutable description; the I/O thread keeps the current one. After
every attempt call ``succeeded`` or ``failed``, and ``lost`` when an established connection
goes, whatever the reason (refused, unreachable, TLS, SASL, forced close, idle).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from amqp1_driver.options import Host
from amqp1_driver.policy.backoff import Backoff

#: Seconds over which the agents that lost one host spread their first attempt elsewhere.
SPLAY = 1.0


@dataclass(frozen=True, slots=True)
class HostState:
    """One host and what became of it so far."""

    host: Host
    attempts: int = 0
    failures: int = 0  # in a row
    error: str = ""  # of the last failure

    def __str__(self) -> str:
        return f"{self.host} ({self.error})" if self.error else str(self.host)


@dataclass(frozen=True, slots=True)
class Failover:
    """Where the search for a host stands; immutable, any thread.

    hosts: in the order in which they are tried. index: that of the next attempt, or of
    the present connection. failures: failed attempts since the last success.
    after_loss: the next attempt follows the loss of an established connection.
    prefer_first: after a loss begin with the first host again (strategy ``ordered``).
    detour: where a redirect leads; tried once, instead of the host at ``index``.
    backoff: delays after each full round. splay: seconds.
    """

    hosts: tuple[HostState, ...]
    index: int = 0
    failures: int = 0
    after_loss: bool = False
    detour: Host | None = None
    prefer_first: bool = False
    backoff: Backoff = field(default_factory=Backoff)
    splay: float = SPLAY

    @property
    def current(self) -> Host:
        """The host of the next attempt, or of the present connection."""
        return self.detour or self.hosts[self.index].host

    def describe(self) -> str:
        """All hosts with their last errors, for logs and exceptions."""
        return ", ".join(str(state) for state in self.hosts)


class Attempt(NamedTuple):
    """What ``next_attempt`` decided."""

    host: Host
    delay: float  # seconds
    state: Failover


def start(
    hosts: Sequence[Host],
    strategy: str,
    rng: random.Random,
    *,
    turn: int = 0,
    backoff: Backoff | None = None,
    splay: float = SPLAY,
) -> Failover:
    """The state before the first attempt.

    strategy: ``ordered`` tries the hosts as they were given, and begins with the first one
    again after each loss; ``shuffle`` in an order of its own; ``round-robin`` as given,
    beginning with number ``turn`` (a count of the process's transports).
    Raises ValueError for an unknown strategy or without hosts.
    """
    order = list(hosts)
    if not order:
        raise ValueError("no hosts to connect to")
    if strategy == "shuffle":
        rng.shuffle(order)
    elif strategy not in ("ordered", "round-robin"):
        raise ValueError(f"unknown host selection {strategy!r}")
    return Failover(
        hosts=tuple(HostState(host) for host in order),
        index=turn % len(order) if strategy == "round-robin" else 0,
        prefer_first=strategy == "ordered",
        backoff=backoff or Backoff(),
        splay=splay,
    )


def next_attempt(state: Failover, rng: random.Random) -> Attempt:
    """The host to try, the delay before it in seconds, and the state during the attempt.

    No delay for the first attempt and for the other hosts of a round; after each round in
    which all failed a growing one; after a loss a random one within the splay.
    """
    host = state.hosts[state.index]
    if state.detour is not None:
        return Attempt(state.detour, 0.0, state)
    return Attempt(host.host, _delay(state, rng), _update(state, attempts=host.attempts + 1))


def succeeded(state: Failover) -> Failover:
    """The attempt led to a usable connection (READY, not just a socket)."""
    return replace(_update(state, failures=0, error=""), failures=0, after_loss=False)


def redirected(state: Failover, host: Host) -> Failover:
    """The present host sends us to another, which is due at once."""
    return replace(state, detour=host)


def failed(state: Failover, error: object = "") -> Failover:
    """The attempt failed; the next host is due.

    After a detour that is the host which sent us there: it may know better by now.
    """
    if state.detour is not None:
        return replace(state, detour=None, failures=state.failures + 1, after_loss=False)
    marked = _mark_failed(state, error)
    return replace(marked, index=_following(state), failures=state.failures + 1, after_loss=False)


def lost(state: Failover, error: object = "") -> Failover:
    """An established connection went; another host is due."""
    if state.detour is not None:
        return replace(state, detour=None, failures=0, after_loss=True)
    marked = _mark_failed(state, error)
    # Not back to the one just lost while there are others.
    index = 0 if state.prefer_first and state.index else _following(state)
    return replace(marked, index=index, failures=0, after_loss=True)


def _delay(state: Failover, rng: random.Random) -> float:
    if state.after_loss:
        return rng.random() * state.splay
    rounds, within = divmod(state.failures, len(state.hosts))
    if rounds == 0 or within:
        return 0.0
    return state.backoff.delay(rounds, rng)


def _following(state: Failover) -> int:
    return (state.index + 1) % len(state.hosts)


def _mark_failed(state: Failover, error: object) -> Failover:
    return _update(state, failures=state.hosts[state.index].failures + 1, error=str(error))


def _update(state: Failover, **changes: Any) -> Failover:
    """The state with some fields of the current host changed."""
    hosts = list(state.hosts)
    hosts[state.index] = replace(hosts[state.index], **changes)
    return replace(state, hosts=tuple(hosts))
