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

"""Which simulations answer "how many agents do n routers carry", and what their results say. Pure.

Two passes for each size of the mesh: over fractions of what the most loaded part could do at most
(``theory.ceiling``), then between the last number of agents that was carried and the first that
was not. Every row is a simulation of its own, with its seed in it: done again, it gives the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amqp1_driver.pipeline.capacity.costs import Costs
from amqp1_driver.pipeline.capacity.setup import Setup
from amqp1_driver.pipeline.capacity.theory import ceiling, ceilings

#: of the ceiling, in the first pass
FRACTIONS = (0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.93, 0.97, 1.0)
#: numbers of agents between two of the first pass, in the second
BETWEEN = 5
#: less than this share of the offered calls answered: they pile up, whatever the latency still is
KEPT_UP = 0.97
#: a part that is used more has no room left: its queue grows, slower than a simulation can see
USED = 0.95

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Goal:
    """What "carries" means.

    :param p99_ms: of a call, at most
    :param timeouts: share of calls that may time out
    :param agents: more are not asked for
    """

    p99_ms: float = 100.0
    timeouts: float = 0.0
    agents: int = 100_000

    def __post_init__(self) -> None:
        if self.p99_ms <= 0 or self.agents < 1 or not 0 <= self.timeouts < 1:
            raise ValueError("a goal has p99_ms above 0, 1 agent or more, timeouts from 0 below 1")


def sizes(base: Setup, routers: Sequence[int], servers: int) -> list[Setup]:
    """The base for each size of the mesh.

    :param servers: for each router
    """
    return [base.replace(routers=count, servers=count * servers) for count in routers]


def first(setups: Iterable[Setup], costs: Costs, goal: Goal, seeds: int) -> list[Row]:
    """Rows of the first pass."""
    rows = []
    for setup in setups:
        most = ceiling(setup, costs) * setup.interval_s
        agents = {min(goal.agents, max(1, int(most * part))) for part in FRACTIONS}
        rows += _rows(setup, agents, seeds)
    return rows


def second(setups: Iterable[Setup], judged: Sequence[Row], seeds: int) -> list[Row]:
    """Rows between what was carried and what was not."""
    rows = []
    for setup in setups:
        low, high = bracket(judged, setup.routers)
        if high is None:
            continue
        step = (high - low) / (BETWEEN + 1)
        agents = {int(low + step * index) for index in range(1, BETWEEN + 1)} - {low, high, 0}
        rows += _rows(setup, agents, seeds)
    return rows


def _rows(setup: Setup, agents: Iterable[int], seeds: int) -> list[Row]:
    return [setup.replace(agents=count, seed=seed).row()
            for count in sorted(agents) for seed in range(1, seeds + 1)]


def judged(results: Iterable[Mapping[str, Any]], goal: Goal) -> list[Row]:
    """One row for each mesh and number of agents: medians over the seeds, and ``carried``."""
    together: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for result in results:
        together.setdefault((int(result["routers"]), int(result["agents"])), []).append(result)
    return [_judged(found, goal) for _, found in sorted(together.items())]


def _judged(found: Sequence[Mapping[str, Any]], goal: Goal) -> Row:
    row: Row = {name: found[0][name] for name in ("routers", "servers", "agents", "interval_s")}
    names = ("throughput", "p50", "p90", "p99", "mean", "timeout_share", "router_used",
             "server_used", "server_stalls")
    row |= {name: statistics.median(float(each[name]) for each in found) for name in names}
    row["p99_low"] = min(float(each["p99"]) for each in found)
    row["p99_high"] = max(float(each["p99"]) for each in found)
    row["seeds"] = len(found)
    row["offered"] = row["agents"] / row["interval_s"]
    # A short simulation has few calls, and their number varies by its root.
    row["carried"] = bool(row["p99"] <= goal.p99_ms * 1e3 and row["timeout_share"] <= goal.timeouts
                          and row["throughput"] >= KEPT_UP * row["offered"]
                          and max(row["router_used"], row["server_used"]) <= USED)
    return row


def bracket(rows: Iterable[Row], routers: int) -> tuple[int, int | None]:
    """The most agents up to which all were carried, and the first number that was not."""
    low = 0
    for row in sorted((row for row in rows if row["routers"] == routers),
                      key=lambda row: int(row["agents"])):
        if not row["carried"]:
            return low, int(row["agents"])
        low = int(row["agents"])
    return low, None


def answers(setups: Iterable[Setup], rows: Sequence[Row], costs: Costs, goal: Goal) -> list[Row]:
    """For each size of the mesh: the agents that it carries, and what limits it."""
    found = []
    for setup in setups:
        low, high = bracket(rows, setup.routers)
        mine = {row["agents"]: row for row in rows if row["routers"] == setup.routers}
        at, over = mine.get(low), mine.get(high)
        found.append({
            "routers": setup.routers, "servers": setup.servers, "carries": low,
            "calls_per_s": low / setup.interval_s,
            **{name: at[name] if at else None for name in ("p50", "p99", "router_used",
                                                           "server_used", "server_stalls")},
            "first_not": high,
            "limit": _limit(setup, costs, goal, low, over),
        })
    return found


def _limit(setup: Setup, costs: Costs, goal: Goal, low: int, over: Row | None) -> str:
    if over is None:
        return "the number asked for" if low >= goal.agents else "nothing that was tried"
    parts = ceilings(setup, costs)
    return min(parts, key=lambda name: parts[name])
