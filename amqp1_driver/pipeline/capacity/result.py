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

"""What a simulation gives: counts while it runs, figures at its end."""

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

    :param throughput: calls answered in time, per second, of the whole mesh
    :param timeouts: calls whose time was up, and their share
    :param client_used: share of the time that its lanes held a core; mean of all such processes
        (routers: of all their threads)
    :param client_cpu: processor time for each call, microseconds, of all such processes together
    :param client_chill: by how much that is more than with work without pause, as a factor
    :param client_wakes: batches of such a process, for each call
    :param server_stalls: calls that waited at a router for credit of a server, per call
    :param link_stalls: that waited in the client for credit of the router
    :param reply_stalls: replies that waited for the client's
    :param seconds: simulated
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
        """As columns."""
        return asdict(self)


class Tally:
    """Counts calls. ``over`` happens when enough have ended.

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
        """A call is under way."""
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
                # the clock of floats may be a hair early
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
        """It was answered at this time; nobody waits for it if it had expired."""
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

    def result(self, clients: Sequence[Process], routers: Sequence[Process],
               servers: Sequence[Process], stalls: Mapping[str, int], folded: float) -> Result:
        """The figures.

        :param folded: routers that each simulated one stands for
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
            p50=percentile(ordered, 50), p90=percentile(ordered, 90), p99=percentile(ordered, 99),
            mean=sum(ordered) / len(ordered) if ordered else float("inf"),
            max=ordered[-1] if ordered else float("inf"),
            timeouts=self._timeouts, timeout_share=self._timeouts / calls,
            **{f"{kind}_used": used(parts) for kind, parts in kinds.items()},
            **{f"{kind}_cpu": each(parts, "cpu") for kind, parts in kinds.items()},
            **{f"{kind}_chill": chill(parts) for kind, parts in kinds.items()},
            **{f"{kind}_wakes": each(parts, "wakes") for kind, parts in kinds.items()},
            **{f"{kind}_stalls": count / calls for kind, count in stalls.items()},
            seconds=span / _US,
        )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """What so many percent do not exceed (nearest rank); infinite if there are none."""
    if not ordered:
        return float("inf")
    rank = max(1, -int(-len(ordered) * percent // 100))
    return ordered[rank - 1]
