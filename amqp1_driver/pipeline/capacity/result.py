# SPDX-License-Identifier: Apache-2.0

"""Results of a simulation: counts while it runs, figures at its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import simpy

from amqp1_driver.pipeline.capacity.machine import Process
from amqp1_driver.pipeline.capacity.setup import Setup
from amqp1_driver.pipeline.capacity.sources import Call

_US = 1e6


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of one simulation; latencies in microseconds as the caller sees them.

    ``router_...`` and ``server_...`` are the figures of routers and servers like ``client_...``.

    :param throughput: calls answered in time, per second, of the whole mesh
    :param timeouts: simulated calls that timed out; ``timeout_share``: their share of all calls
    :param client_used: share of the time for which the lanes of the clients held a core; mean over
        all lanes of all clients (routers: over all threads of all routers)
    :param client_cpu: processor time for each call, microseconds, of all clients together
    :param client_chill: factor by which pauses raise that processor time
    :param client_wakes: batches for each call, of all clients together
    :param server_stalls: calls that waited at a router for a server's credit, per call
    :param link_stalls: calls that waited in the client for the router's credit, per call
    :param reply_stalls: replies that waited at the router for the client's credit, per call
    :param seconds: simulated time
    """

    throughput: float
    p50: float
    p90: float
    p99: float
    mean: float
    max: float
    timeouts: int
    timeout_share: float
    client_used: float
    router_used: float
    server_used: float
    client_cpu: float
    router_cpu: float
    server_cpu: float
    client_chill: float
    router_chill: float
    server_chill: float
    client_wakes: float
    router_wakes: float
    server_wakes: float
    server_stalls: float
    link_stalls: float
    reply_stalls: float
    seconds: float

    def row(self) -> dict[str, Any]:
        """Return the figures as columns."""
        return asdict(self)


class Tally:
    """A counter of calls. It triggers the event ``over`` when enough calls have ended.

    :ivar begin: called when the warm-up is over
    """

    def __init__(self, env: simpy.Environment, setup: Setup) -> None:
        self._env, self._setup = env, setup
        self._timeout = setup.timeout_s * _US
        self.over = env.event()
        self.begin: Callable[[], None] = lambda: None
        self._latencies: list[float] = []
        self._timeouts = self._ended = 0
        self._since = 0.0
        # All calls have the same timeout: they expire in the order in which they began.
        self._pending: deque[Call] = deque()
        self._armed = False

    def begun(self, call: Call) -> None:
        """Note that a call has begun, and start its timeout."""
        self._pending.append(call)
        if not self._armed:
            self._arm()

    def _arm(self) -> None:
        self._armed = True
        wait = max(0.0, self._pending[0].start + self._timeout - self._env.now)
        simpy.events.Timeout(self._env, wait).callbacks.append(self._expire)

    def _expire(self, _: Any) -> None:
        now = self._env.now
        while self._pending:
            call = self._pending[0]
            if not call.over:
                # the simulated clock is a float: rounding may make it early
                if call.start + self._timeout > now + 1e-3:
                    break
                call.expired = call.over = True
                self._timeouts += 1
                self._one(call)
            self._pending.popleft()
        self._armed = False
        if self._pending:
            self._arm()

    def ended(self, call: Call, at: float) -> None:
        """Count a call that was answered at this time; ignore the answer to an expired call."""
        if call.over:
            return
        call.over = True
        self._latencies.append(at - call.start)
        self._one(call)

    def _one(self, call: Call) -> None:
        self._ended += 1
        if self._ended == self._setup.warmup:
            self._latencies.clear()
            self._timeouts, self._since = 0, self._env.now
            self.begin()
        elif self._ended == self._setup.warmup + self._setup.calls:
            self.over.succeed()
        call.client.free(call)

    def result(
        self,
        clients: Sequence[Process],
        routers: Sequence[Process],
        servers: Sequence[Process],
        stalls: Mapping[str, int],
        folded: float,
    ) -> Result:
        """Return the figures since the warm-up.

        :param stalls: numbers of stalls, by kind
        :param folded: number of routers that each simulated router stands for
        """
        span = self._env.now - self._since
        calls = len(self._latencies) + self._timeouts
        ordered = sorted(self._latencies)

        def used(parts: Sequence[Process]) -> float:
            lanes = sum(part.lanes for part in parts)
            return sum(part.held for part in parts) / (span * lanes) if lanes else 0.0

        def each(parts: Sequence[Process], name: str) -> float:
            return float(sum(getattr(part, name) for part in parts)) / calls

        def chill(parts: Sequence[Process]) -> float:
            warm = sum(part.warm for part in parts)
            return sum(part.cpu for part in parts) / warm if warm else 1.0

        kinds = {"client": clients, "router": routers, "server": servers}
        return Result(
            throughput=len(ordered) * folded * _US / span,
            p50=percentile(ordered, 50),
            p90=percentile(ordered, 90),
            p99=percentile(ordered, 99),
            mean=sum(ordered) / len(ordered) if ordered else float("inf"),
            max=ordered[-1] if ordered else float("inf"),
            timeouts=self._timeouts,
            timeout_share=self._timeouts / calls,
            **{f"{kind}_used": used(parts) for kind, parts in kinds.items()},
            **{f"{kind}_cpu": each(parts, "cpu") for kind, parts in kinds.items()},
            **{f"{kind}_chill": chill(parts) for kind, parts in kinds.items()},
            **{f"{kind}_wakes": each(parts, "wakes") for kind, parts in kinds.items()},
            **{f"{kind}_stalls": count / calls for kind, count in stalls.items()},
            seconds=span / _US,
        )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile of sorted values (nearest rank); infinity if there are none."""
    if not ordered:
        return float("inf")
    rank = max(1, -int(-len(ordered) * percent // 100))
    return ordered[rank - 1]
