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

"""Closed forms and bounds: what the model is held against, and where a sweep looks.

``arrivals`` is calls per microsecond, ``service`` the mean time of a server in microseconds.
"""

from __future__ import annotations

from amqp1_driver.pipeline.capacity.costs import Costs, Part
from amqp1_driver.pipeline.capacity.setup import Setup

_US = 1e6


def wait_mg1(arrivals: float, service: float, cv: float = 1.0) -> float:
    """Mean wait in M/G/1 (Pollaczek and Khinchine); cv 1 is M/M/1, 0 is M/D/1.

    :raises ValueError: it is overloaded
    """
    load = _load(arrivals, service, 1)
    return load * service * (1.0 + cv * cv) / (2.0 * (1.0 - load))


def wait_mmc(arrivals: float, service: float, servers: int) -> float:
    """Mean wait in M/M/c (Erlang's C formula).

    :raises ValueError: it is overloaded
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
    """Asymptotic upper bound of the throughput of a closed network, calls per microsecond.

    :param demands: sum of a call's service times, without waits
    :param most: of the station with the highest demand for each of its servers
    """
    return min(callers / (demands + think), 1.0 / most)


def ceilings(setup: Setup, costs: Costs) -> dict[str, float]:
    """Calls per second that each part could do at most, were it the only limit.

    A part that never runs dry takes its two pieces of work of a call in the largest batches, and
    holds a core for ``stretch`` times as long.
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
        # A thread of the executor is held for the service and the reply.
        threads = min(setup.executor, setup.server_credit)
        found["executor"] = setup.servers * threads / (setup.service_us + server / 2)
    return {name: rate * _US for name, rate in found.items()}


def ceiling(setup: Setup, costs: Costs) -> float:
    """Calls per second that the whole can do at most."""
    return min(ceilings(setup, costs).values())
