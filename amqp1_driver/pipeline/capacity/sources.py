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

"""Who calls: threads that wait for their replies, and open arrivals of agents."""

from __future__ import annotations

import abc
import math
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from amqp1_driver.pipeline.capacity.machine import Process
from amqp1_driver.pipeline.capacity.windows import Window

if TYPE_CHECKING:
    from amqp1_driver.pipeline.capacity.mesh import Mesh

_US = 1e6


class Call:
    """One call on its way.

    :param start: when it was due, microseconds
    :param thread: of the client; it waits
    """

    __slots__ = ("client", "expired", "hops", "left", "over", "router", "server", "start", "there",
                 "thread")

    def __init__(self, client: Caller, router: int, start: float, thread: int) -> None:
        self.client, self.router, self.start, self.thread = client, router, start, thread
        self.there = router
        self.hops = self.left = 0
        self.server: Any = None
        self.expired = self.over = False


class Caller(abc.ABC):
    """What all have in common: windows, and what becomes of a call."""

    #: the processor time of agents is their machines' own: they have no process here
    process: Process | None = None

    def __init__(self, mesh: Mesh, router: int) -> None:
        self.mesh, self.router = mesh, router
        setup = mesh.setup
        # A router gives credit for each message that is settled.
        self.link = Window(setup.link_credit, half=False)
        self.replies = Window(setup.reply_credit)

    @abc.abstractmethod
    def start(self) -> None:
        """Begin to call."""

    @abc.abstractmethod
    def answered(self, call: Call) -> None:
        """A reply has come to the client."""

    @abc.abstractmethod
    def free(self, call: Call) -> None:
        """The caller may go on: the call was answered, or its time is up."""


class Client(Caller):
    """A process with threads that wait; the interpreter's lock makes one of them work at a time."""

    def __init__(self, mesh: Mesh, router: int, index: int) -> None:
        super().__init__(mesh, router)
        self.process = mesh.process(mesh.costs.client, 1)
        setup = mesh.setup
        self._think = setup.think_us
        senders = setup.clients * setup.threads
        self._interval = senders * _US / setup.rate if setup.rate else 0.0
        self._due = [(index * setup.threads + thread) * self._interval / senders
                     for thread in range(setup.threads)]

    def start(self) -> None:
        """All threads at once, or each at its time."""
        for thread, due in enumerate(self._due):
            self.mesh.later(due, self._begin, thread)

    def _begin(self, thread: int) -> None:
        start = self._due[thread] if self._interval else self.mesh.env.now
        call = Call(self, self.router, start, thread)
        self.mesh.tally.begun(call)
        assert self.process is not None
        self.process.submit(self.mesh.client_cost[0], self._handed, call)

    def _handed(self, call: Call) -> None:
        self.link.enter(self.mesh.sent, call)

    def answered(self, call: Call) -> None:
        """Take it off the link, wake the thread."""
        assert self.process is not None
        self.process.submit(self.mesh.client_cost[1], self._over, call)

    def _over(self, call: Call) -> None:
        self.replies.settle()
        self.mesh.tally.ended(call, self.mesh.env.now)

    def free(self, call: Call) -> None:
        """Think, then call again; at a rate: when the next is due, at once if that is past."""
        mesh, thread = self.mesh, call.thread
        if self._interval:
            self._due[thread] += self._interval
            mesh.later(self._due[thread] - mesh.env.now, self._begin, thread)
        else:
            pause = mesh.rng.expovariate(1.0 / self._think) if self._think else 0.0
            mesh.later(pause, self._begin, thread)


class Agents(Caller):
    """Callers with a machine of their own each: their own work is time that passes, no queue.

    :param gaps: between calls, microseconds
    """

    def __init__(self, mesh: Mesh, router: int, gaps: Iterator[float]) -> None:
        super().__init__(mesh, router)
        # Each agent has windows of its own, of which it uses one message: they never fill.
        self.link = Window(1 << 62, half=False)
        self.replies = Window(1 << 62, half=False)
        self._gaps = gaps
        costs, latency = mesh.costs, mesh.costs.latency_us
        sending, self._receiving = (cost + costs.client.wake for cost in mesh.client_cost)
        # Whoever calls once in seconds finds its caches cold.
        pause = mesh.setup.interval_s * _US if mesh.setup.agents else math.inf
        self._sending = sending * (1.0 + costs.chill(pause)) + latency

    def start(self) -> None:
        """The first call comes after the first gap."""
        self.mesh.later(next(self._gaps), self._arrive, None)

    def _arrive(self, _: Any) -> None:
        mesh = self.mesh
        call = Call(self, self.router, mesh.env.now, 0)
        mesh.tally.begun(call)
        self.link.use()
        mesh.later(self._sending, mesh.sent, call)
        # never at once: calls due at the same moment would nest
        mesh.later(max(next(self._gaps), 1e-9), self._arrive, None)

    def answered(self, call: Call) -> None:
        """The rest is the agent's own time."""
        self.replies.settle()
        now, costs = self.mesh.env.now, self.mesh.costs
        own = self._receiving * (1.0 + costs.chill(max(0.0, now - call.start - self._sending)))
        self.mesh.tally.ended(call, now + own + costs.latency_us)

    def free(self, call: Call) -> None:
        """Agents call at their own times, whatever became of the last one."""


def phases(rng: random.Random, agents: int, interval: float) -> Iterator[float]:
    """Gaps between the calls of agents that each call once per interval, at random phases."""
    times = sorted(rng.random() * interval for _ in range(agents))
    last = 0.0
    while True:
        for time in times:
            yield time - last
            last = time
        last -= interval


def poisson(rng: random.Random, rate: float) -> Iterator[float]:
    """Exponential gaps, microseconds, of a rate per second."""
    per_us = rate / _US
    while True:
        yield rng.expovariate(per_us)


def sources(mesh: Mesh, routers: int) -> list[Caller]:
    """Everybody who calls, spread over the routers that are simulated."""
    setup, rng = mesh.setup, mesh.rng
    if setup.threads:
        return [Client(mesh, index % routers, index) for index in range(setup.clients)]
    if setup.poisson:
        return [Agents(mesh, router, poisson(rng, setup.poisson / setup.routers))
                for router in range(routers)]
    shares = [setup.agents * (index + 1) // setup.routers - setup.agents * index // setup.routers
              for index in range(routers)]
    return [Agents(mesh, router, phases(rng, share, setup.interval_s * _US))
            for router, share in enumerate(shares) if share]
