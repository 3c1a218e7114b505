# SPDX-License-Identifier: Apache-2.0

"""The choice of the host to connect to next, and of the delay before it.

Pure functions over an immutable state; the I/O thread keeps the current state. Call ``succeeded``
or ``failed`` after every attempt, and ``lost`` when an established connection is lost. The reason
of a failure or loss does not matter (refused, unreachable, TLS, SASL, forced close, idle).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from amqp1_driver.options import Host
from amqp1_driver.policy.retry import Backoff

#: Seconds over which agents that lost the same host spread their first attempt at another host.
SPLAY = 1.0


@dataclass(frozen=True, slots=True)
class Failover:
    """The state of the search for a host. Immutable, for any thread.

    :param hosts: in the order of the attempts.
    :param index: index of the host of the next attempt, or of the present connection.
    :param failures: failed attempts since the last success.
    :param after_loss: the next attempt follows the loss of an established connection.
    :param detour: target of a redirect, which gets one attempt instead of the host at ``index``.
    :param prefer_first: begin with the first host again after a loss (strategy ``ordered``).
    :param backoff: delays after each full round.
    """

    hosts: tuple[Host, ...]
    index: int = 0
    failures: int = 0
    after_loss: bool = False
    detour: Host | None = None
    prefer_first: bool = False
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def current(self) -> Host:
        """Return the host of the next attempt, or of the present connection."""
        return self.detour or self.hosts[self.index]


class Attempt(NamedTuple):
    """The decision of ``next_attempt``."""

    host: Host
    delay: float  # seconds


def start(
    hosts: Sequence[Host],
    strategy: str,
    rng: random.Random,
    *,
    turn: int = 0,
    backoff: Backoff | None = None,
) -> Failover:
    """Return the state before the first attempt.

    :param strategy: ``ordered`` keeps the order of ``hosts``, and begins with the first one again
        after each loss; ``shuffle`` chooses a random order; ``round-robin`` keeps the order of
        ``hosts``, and begins with number ``turn``.
    :param turn: number of this transport within the process.
    :raises ValueError: the strategy is unknown, or there are no hosts.
    """
    order = list(hosts)
    if not order:
        raise ValueError("no hosts to connect to")
    if strategy == "shuffle":
        rng.shuffle(order)
    elif strategy not in ("ordered", "round-robin"):
        raise ValueError(f"unknown host selection {strategy!r}")
    return Failover(
        hosts=tuple(order),
        index=turn % len(order) if strategy == "round-robin" else 0,
        prefer_first=strategy == "ordered",
        backoff=backoff or Backoff(),
    )


def next_attempt(state: Failover, rng: random.Random) -> Attempt:
    """Return the next host and the delay before it, in seconds.

    There is no delay before the first attempt, and none between the hosts of a round. After each
    round in which all hosts failed the delay grows. After a loss the delay is random, up to the
    splay. There is none before a detour.
    """
    rounds, within = divmod(state.failures, len(state.hosts))
    if state.detour is not None:
        delay = 0.0
    elif state.after_loss:
        delay = rng.random() * SPLAY
    else:
        delay = 0.0 if rounds == 0 or within else state.backoff.delay(rounds, rng)
    return Attempt(state.current, delay)


def succeeded(state: Failover) -> Failover:
    """Return the state after an attempt led to a usable connection (READY, not just a socket)."""
    return replace(state, failures=0, after_loss=False)


def redirected(state: Failover, host: Host) -> Failover:
    """Return the state after the present host redirected us to ``host``, which is due at once."""
    return replace(state, detour=host)


def failed(state: Failover) -> Failover:
    """Return the state after an attempt failed; the next host is due.

    After a detour the next host is the one that redirected us: it may give a better target now.
    """
    index = _following(state) if state.detour is None else state.index
    return replace(state, index=index, failures=state.failures + 1, after_loss=False, detour=None)


def lost(state: Failover) -> Failover:
    """Return the state after an established connection was lost; another host is due.

    After a detour the host that redirected us is due.
    """
    index = state.index
    if state.detour is None:
        # Another host comes first, if there is one, and not the one just lost.
        index = 0 if state.prefer_first and state.index else _following(state)
    return replace(state, index=index, failures=0, after_loss=True, detour=None)


def _following(state: Failover) -> int:
    return (state.index + 1) % len(state.hosts)
