# SPDX-License-Identifier: Apache-2.0

"""Model of clients, routers and servers, and the way of a call through them.

A call passes these stations; each arrow is a step of ``Mesh``::

    client: send -> [link credit] -> router ... router -> [server credit] -> server: receive
        -> [executor thread] -> service time -> server: reply
        -> router ... router -> [reply credit] -> client: receive -> the call is over

A call has two messages, request and reply. Client, server and every router on the way spend half of
their cost of a call on each of the two.

**Folding.** In a mesh where all routers are alike and calls come at random, each of n routers has
1/n of the callers and servers. It handles as many messages of the other routers' callers as the
other routers handle of its own callers. With ``fold`` the model simulates one router with its share
of agents and servers, and a message for another router comes back to the same router. The rates at
every station are those of the whole mesh. One property is lost: in the whole mesh the queues of
different routers are independent. The tests compare both.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import simpy

from amqp1_driver.pipeline.capacity.costs import Costs, Part
from amqp1_driver.pipeline.capacity.machine import Machine, Others, Process, gamma
from amqp1_driver.pipeline.capacity.result import Result, Tally
from amqp1_driver.pipeline.capacity.setup import Setup, distance
from amqp1_driver.pipeline.capacity.sources import Call, Caller, sources
from amqp1_driver.pipeline.capacity.windows import Window

_KIB = 1024.0


def simulate(setup: Setup, costs: Costs) -> Result:
    """Run one simulation. The same setup, seed and costs give the same result."""
    return Mesh(setup, costs).run()


class _Server:
    """A server process with its executor, its credit and its backlog."""

    __slots__ = ("backlog", "credit", "process", "threads")

    def __init__(self, process: Process, setup: Setup) -> None:
        self.process, self.threads = process, setup.executor
        self.credit = Window(setup.server_credit)
        self.backlog: deque[Call] = deque()


class Mesh:
    """One simulation of a setup with costs."""

    def __init__(self, setup: Setup, costs: Costs) -> None:
        self.setup, self.costs = setup, costs
        self.rng = random.Random(setup.seed)
        self.env = simpy.Environment()
        self._spread = gamma(self.rng, costs.noise)
        self._service = gamma(self.rng, setup.service_cv)
        self._shared = self._machine(setup.cores) if setup.cores else None
        if self._shared and setup.others:
            Others(self._shared, self.rng, setup.others, costs.burst_us)
        self._here = 1 if setup.fold else setup.routers
        self.routers = [self.process(costs.router, setup.router_threads) for _ in range(self._here)]
        share = setup.servers // setup.routers
        self._servers = [
            [_Server(self.process(costs.server, 1), setup) for _ in range(share)]
            for _ in range(self._here)
        ]
        #: calls that wait at each router, because no server has credit for them
        self._held: list[deque[Call]] = [deque() for _ in range(self._here)]
        #: latency between two routers, microseconds
        self._link_us = setup.network_us + costs.hop_us
        self._price()
        self.tally = Tally(self.env, setup)
        self.clients: list[Caller] = []
        self.stalls = {"server": 0}

    def _machine(self, cores: int) -> Machine:
        return Machine(self.env, cores, self.costs.slice_us)

    def process(self, part: Part, lanes: int) -> Process:
        """Create a process of this kind, on the shared machine or on a machine of its own."""
        costs = self.costs
        return Process(
            self._shared or self._machine(lanes),
            lanes,
            self.rng,
            self._spread,
            wake=part.wake,
            batch=costs.batch,
            latency=costs.latency_us,
            stretch=costs.stretch,
            disorder=costs.disorder,
            chill=costs.chill if costs.cold else None,
        )

    def _price(self) -> None:
        """Compute the cost of a request and of a reply at each part, microseconds."""
        setup, costs = self.setup, self.costs

        def both(part: Part) -> tuple[float, float]:
            half = part.call / 2
            return (half + part.kib * setup.size / _KIB, half + part.kib * setup.reply_size / _KIB)

        self.client_cost, self._router_cost = both(costs.client), both(costs.router)
        self._server_cost = both(costs.server)

    def run(self) -> Result:
        """Simulate until enough calls have ended."""
        setup = self.setup
        self.clients = sources(self, self._here)
        for client in self.clients:
            client.start()
        self.tally.begin = self._reset
        self.env.run(until=self.tally.over)
        return self.tally.result(
            [client.process for client in self.clients if client.process is not None],
            self.routers,
            [server.process for row in self._servers for server in row],
            {
                "server": self.stalls["server"],
                "link": sum(client.link.stalls for client in self.clients),
                "reply": sum(client.replies.stalls for client in self.clients),
            },
            setup.routers / self._here,
        )

    def _reset(self) -> None:
        """Set all counters to 0 at the end of the warm-up."""
        for process in self._processes():
            process.reset()
        self.stalls["server"] = 0
        for client in self.clients:
            client.link.stalls = client.replies.stalls = 0

    def _processes(self) -> list[Process]:
        own = [client.process for client in self.clients if client.process is not None]
        return [*own, *self.routers, *(each.process for row in self._servers for each in row)]

    # -- the way of a call -----------------------------------------------------------------------

    def later(self, delay: float, step: Any, call: Any) -> None:
        """Call ``step(call)`` after ``delay`` microseconds; at once if there is no delay."""
        if delay > 0:
            event = simpy.events.Timeout(self.env, delay, call)
            event.callbacks.append(lambda done: step(done.value))
        else:
            step(call)

    def sent(self, call: Call) -> None:
        """Send a call from the client to its router, and choose the router of the server."""
        setup = self.setup
        if setup.routers > 1 and self.rng.random() >= setup.local_share:
            other = self.rng.randrange(setup.routers - 1)
            there = other + (other >= call.router)
            call.hops = call.left = distance(call.router, there, setup.routers, setup.topology)
            call.there = there % self._here
        self.later(setup.network_us, self._at_router, call)

    def _at_router(self, call: Call) -> None:
        # In a ring the routers between cost as much as the last one, which does their work here.
        at = call.router if call.left == call.hops else call.there
        self.routers[at].submit(self._router_cost[0], self._routed, call)

    def _routed(self, call: Call) -> None:
        if call.left:
            call.left -= 1
            self.later(self._link_us, self._at_router, call)
            return
        self._offer(call)

    def _offer(self, call: Call) -> None:
        """Deliver to the server that has credit and the fewest unsettled calls, or hold the call.

        The distribution ``balanced`` of a router does the same.
        """
        best: _Server | None = None
        for server in self._servers[call.there]:
            if server.credit.credit and (
                best is None or server.credit.unsettled < best.credit.unsettled
            ):
                best = server
        held = self._held[call.there]
        if best is None or held:
            self.stalls["server"] += 1
            held.append(call)
        else:
            self._deliver(best, call)

    def _deliver(self, server: _Server, call: Call) -> None:
        server.credit.use()
        call.server = server
        self.later(self.setup.network_us, self._at_server, call)

    def _at_server(self, call: Call) -> None:
        call.server.process.submit(self._server_cost[0], self._received, call)

    def _received(self, call: Call) -> None:
        server = call.server
        if server.threads:
            server.threads -= 1
            self._work(call)
        else:
            server.backlog.append(call)

    def _work(self, call: Call) -> None:
        # A thread of the executor begins: oslo.messaging's server acknowledges now.
        server, setup = call.server, self.setup
        call.client.link.settle()
        if server.credit.settle():
            held = self._held[call.there]
            while held and server.credit.credit:
                self._deliver(server, held.popleft())
        time = setup.service_us
        if time and self._service is not None:
            time *= self._service()
        self.later(time, self._served, call)

    def _served(self, call: Call) -> None:
        cost = self._server_cost[1] + self.setup.work_us
        call.server.process.submit(cost, self._replied, call)

    def _replied(self, call: Call) -> None:
        server = call.server
        if server.backlog:
            self._work(server.backlog.popleft())
        else:
            server.threads += 1
        call.left = call.hops
        self.later(self.setup.network_us, self._back, call)

    def _back(self, call: Call) -> None:
        at = call.router if not call.left else call.there
        self.routers[at].submit(self._router_cost[1], self._returned, call)

    def _returned(self, call: Call) -> None:
        if call.left:
            call.left -= 1
            self.later(self._link_us, self._back, call)
            return
        call.client.replies.enter(self._to_client, call)

    def _to_client(self, call: Call) -> None:
        self.later(self.setup.network_us, call.client.answered, call)
