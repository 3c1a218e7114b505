# SPDX-License-Identifier: Apache-2.0

"""Simulated callers: threads that wait for their replies, and open arrivals of agents."""

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
    """A call on its way.

    ``router`` and ``there`` are the routers of client and server, ``hops`` the links between the
    two, ``left`` the links that the present message still has to pass.

    :param start: time at which the call was due, microseconds
    :param thread: index of the client's thread that waits for the reply
    """

    __slots__ = (
        "client",
        "expired",
        "hops",
        "left",
        "over",
        "router",
        "server",
        "start",
        "there",
        "thread",
    )

    def __init__(self, client: Caller, router: int, start: float, thread: int) -> None:
        self.client, self.router, self.start, self.thread = client, router, start, thread
        self.there = router
        self.hops = self.left = 0
        self.server: Any = None
        self.expired = self.over = False


class Caller(abc.ABC):
    """Base class of the callers: credit windows, and callbacks for the end of a call."""

    #: None for agents: they use the processors of their own machines
    process: Process | None = None

    def __init__(self, mesh: Mesh, router: int) -> None:
        self.mesh, self.router = mesh, router
        setup = mesh.setup
        # A router grants credit again for each settled message.
        self.link = Window(setup.link_credit, half=False)
        self.replies = Window(setup.reply_credit)

    @abc.abstractmethod
    def start(self) -> None:
        """Begin to call."""

    @abc.abstractmethod
    def answered(self, call: Call) -> None:
        """Handle a reply that has come to the client."""

    @abc.abstractmethod
    def free(self, call: Call) -> None:
        """Let the caller go on, after the answer or the timeout of a call."""


class Client(Caller):
    """A process with threads that wait; the interpreter's lock lets one of them work at a time."""

    def __init__(self, mesh: Mesh, router: int, index: int) -> None:
        super().__init__(mesh, router)
        self.process = mesh.process(mesh.costs.client, 1)
        setup = mesh.setup
        self._think = setup.think_us
        senders = setup.clients * setup.threads
        self._interval = senders * _US / setup.rate if setup.rate else 0.0
        self._due = [
            (index * setup.threads + thread) * self._interval / senders
            for thread in range(setup.threads)
        ]

    def start(self) -> None:
        """Start all threads at once, or at a rate each thread at its time."""
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
        """Queue the client's work for a reply; its end frees the thread."""
        assert self.process is not None
        self.process.submit(self.mesh.client_cost[1], self._over, call)

    def _over(self, call: Call) -> None:
        self.replies.settle()
        self.mesh.tally.ended(call, self.mesh.env.now)

    def free(self, call: Call) -> None:
        """Think, then call again. At a rate: call when the next call is due, or at once if late."""
        mesh, thread = self.mesh, call.thread
        if self._interval:
            self._due[thread] += self._interval
            mesh.later(self._due[thread] - mesh.env.now, self._begin, thread)
        else:
            pause = mesh.rng.expovariate(1.0 / self._think) if self._think else 0.0
            mesh.later(pause, self._begin, thread)


class Agents(Caller):
    """Callers with a machine each: their own work takes time, but never waits in a queue.

    :param gaps: times between calls, microseconds
    """

    def __init__(self, mesh: Mesh, router: int, gaps: Iterator[float]) -> None:
        super().__init__(mesh, router)
        # Each agent has windows of its own and uses one message of them: no window ever fills.
        self.link = Window(1 << 62, half=False)
        self.replies = Window(1 << 62, half=False)
        self._gaps = gaps
        costs, latency = mesh.costs, mesh.costs.latency_us
        sending, self._receiving = (cost + costs.client.wake for cost in mesh.client_cost)
        # An agent pauses for seconds before each call, so that its caches are cold.
        pause = mesh.setup.interval_s * _US if mesh.setup.agents else math.inf
        self._sending = sending * (1.0 + costs.chill(pause)) + latency

    def start(self) -> None:
        """Schedule the first call, after the first gap."""
        self.mesh.later(next(self._gaps), self._arrive, None)

    def _arrive(self, _: Any) -> None:
        mesh = self.mesh
        call = Call(self, self.router, mesh.env.now, 0)
        mesh.tally.begun(call)
        self.link.use()
        mesh.later(self._sending, mesh.sent, call)
        # never 0: later() would call _arrive() recursively for calls due at the same moment
        mesh.later(max(next(self._gaps), 1e-9), self._arrive, None)

    def answered(self, call: Call) -> None:
        """End the call, after the time that the agent needs for the reply."""
        self.replies.settle()
        now, costs = self.mesh.env.now, self.mesh.costs
        own = self._receiving * (1.0 + costs.chill(max(0.0, now - call.start - self._sending)))
        self.mesh.tally.ended(call, now + own + costs.latency_us)

    def free(self, call: Call) -> None:
        """Do nothing: agents call at their own times, independent of the last call."""


def phases(rng: random.Random, agents: int, interval: float) -> Iterator[float]:
    """Yield the gaps between the calls of agents that each call once per interval.

    :param agents: number of agents; each has a random phase
    :param interval: microseconds, as the gaps
    """
    times = sorted(rng.random() * interval for _ in range(agents))
    last = 0.0
    while True:
        for time in times:
            yield time - last
            last = time
        last -= interval


def poisson(rng: random.Random, rate: float) -> Iterator[float]:
    """Yield exponential gaps in microseconds, for a rate per second."""
    per_us = rate / _US
    while True:
        yield rng.expovariate(per_us)


def sources(mesh: Mesh, routers: int) -> list[Caller]:
    """Create all callers, spread over the simulated routers.

    :param routers: number of simulated routers
    """
    setup, rng = mesh.setup, mesh.rng
    if setup.threads:
        return [Client(mesh, index % routers, index) for index in range(setup.clients)]
    if setup.poisson:
        return [
            Agents(mesh, router, poisson(rng, setup.poisson / setup.routers))
            for router in range(routers)
        ]
    shares = [
        setup.agents * (index + 1) // setup.routers - setup.agents * index // setup.routers
        for index in range(routers)
    ]
    return [
        Agents(mesh, router, phases(rng, share, setup.interval_s * _US))
        for router, share in enumerate(shares)
        if share
    ]
