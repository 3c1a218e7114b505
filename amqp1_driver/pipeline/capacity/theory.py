# SPDX-License-Identifier: Apache-2.0

"""Closed forms and bounds: tests compare the model with them, sweeps begin at them. Pure.

``arrivals`` is calls per microsecond, ``service`` the mean time of a server in microseconds.
"""

from __future__ import annotations

from amqp1_driver.pipeline.capacity.costs import Costs, Part
from amqp1_driver.pipeline.capacity.setup import Setup

_US = 1e6


def wait_mg1(arrivals: float, service: float, cv: float = 1.0) -> float:
    """Return the mean wait in M/G/1 (Pollaczek and Khinchine), microseconds.

    :param cv: coefficient of variation of the service: 1 is M/M/1, 0 is M/D/1
    :raises ValueError: the load is 1 or more
    """
    load = _load(arrivals, service, 1)
    return load * service * (1.0 + cv * cv) / (2.0 * (1.0 - load))


def wait_mmc(arrivals: float, service: float, servers: int) -> float:
    """Return the mean wait in M/M/c (Erlang's C formula), microseconds.

    :raises ValueError: the load is 1 or more
    """
    load = _load(arrivals, service, servers)
    offered = load * servers
    blocked = 1.0  # Erlang's B, by recursion: no factorials
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    waiting = blocked / (1.0 - load * (1.0 - blocked))
    return waiting * service / (servers * (1.0 - load))


def _load(arrivals: float, service: float, servers: int) -> float:
    load = arrivals * service / servers
    if not 0 <= load < 1:
        raise ValueError(f"the load is {load:.2f}: below 1 is needed")
    return load


def closed_bound(callers: int, demands: float, most: float, think: float = 0.0) -> float:
    """Return the asymptotic upper bound of a closed network's throughput, calls per microsecond.

    :param demands: sum of a call's service times without waits, microseconds
    :param most: highest demand of a call at one station, divided by the servers of that station
    :param think: mean time that a caller thinks between calls, microseconds
    """
    return min(callers / (demands + think), 1.0 / most)


def ceilings(setup: Setup, costs: Costs) -> dict[str, float]:
    """Return the calls per second that each part could do at most if it were the only limit.

    A part that is never idle takes its two pieces of work of a call in the largest batches, and
    holds a core for ``stretch`` times their processor time.
    """
    kib = (setup.size + setup.reply_size) / 1024.0

    def held(part: Part, more: float = 0.0) -> float:
        cost = part.call + part.kib * kib + 2.0 * part.wake / costs.batch + more
        return cost * costs.stretch

    router, server = held(costs.router), held(costs.server, setup.work_us)
    found = {
        "router": setup.routers * setup.router_threads / (router * (1.0 + setup.mean_hops)),
        "server": setup.servers / server,
    }
    if setup.service_us:
        # A call keeps a thread of the executor for the service and the reply.
        threads = min(setup.executor, setup.server_credit)
        found["executor"] = setup.servers * threads / (setup.service_us + server / 2)
    return {name: rate * _US for name, rate in found.items()}


def ceiling(setup: Setup, costs: Costs) -> float:
    """Return the calls per second that the whole mesh can do at most."""
    return min(ceilings(setup, costs).values())
