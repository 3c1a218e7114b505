# SPDX-License-Identifier: Apache-2.0

"""Plan of a sweep ("how many agents do n routers carry?") and judgement of its results. Pure.

A sweep has two passes for each size of the mesh. The first pass simulates fractions of the load
that the busiest part can take at most (``theory.ceiling``). The second pass simulates numbers of
agents between the last one that the mesh carried and the first that it did not. A mesh carries its
agents if it meets the goal, keeps up with their calls (``KEPT_UP``) and has no overused part
(``USED``). Every row is one simulation and contains its seed, so a repetition gives the same
result.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amqp1_driver.pipeline.capacity.costs import Costs
from amqp1_driver.pipeline.capacity.setup import Setup
from amqp1_driver.pipeline.capacity.theory import ceiling, ceilings

#: fractions of the ceiling that the first pass simulates
FRACTIONS = (0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.93, 0.97, 1.0)
#: numbers of agents that the second pass simulates between two of the first pass
BETWEEN = 5
#: share of the offered calls; with fewer answers calls pile up, however low the latency still is
KEPT_UP = 0.97
#: largest use of a part; above it the queue grows without end, more slowly than a simulation shows
USED = 0.95

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Goal:
    """The conditions under which a mesh carries its agents.

    :param p99_ms: largest 99th percentile of a call, milliseconds
    :param timeouts: share of calls that may time out
    :param agents: largest number of agents that the sweep tries
    """

    p99_ms: float = 100.0
    timeouts: float = 0.0
    agents: int = 100_000

    def __post_init__(self) -> None:
        if self.p99_ms <= 0 or self.agents < 1 or not 0 <= self.timeouts < 1:
            raise ValueError("a goal has p99_ms above 0, 1 agent or more, timeouts from 0 below 1")


def sizes(base: Setup, routers: Sequence[int], servers: int) -> list[Setup]:
    """Return a copy of the base for each number of routers.

    :param servers: number of servers for each router
    """
    return [base.replace(routers=count, servers=count * servers) for count in routers]


def first(setups: Iterable[Setup], costs: Costs, goal: Goal, seeds: int) -> list[Row]:
    """Return the rows of the first pass."""
    rows = []
    for setup in setups:
        most = ceiling(setup, costs) * setup.interval_s
        agents = {min(goal.agents, max(1, int(most * part))) for part in FRACTIONS}
        rows += _rows(setup, agents, seeds)
    return rows


def second(setups: Iterable[Setup], judged: Sequence[Row], seeds: int) -> list[Row]:
    """Return the rows of the second pass, between the numbers of agents of :func:`bracket`.

    :param judged: the judged rows of the first pass
    """
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
    return [
        setup.replace(agents=count, seed=seed).row()
        for count in sorted(agents)
        for seed in range(1, seeds + 1)
    ]


def judged(results: Iterable[Mapping[str, Any]], goal: Goal) -> list[Row]:
    """Return a row for each size of the mesh and number of agents.

    A row has the medians over the seeds, and ``carried``: whether the mesh carried the agents.
    """
    together: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for result in results:
        together.setdefault((int(result["routers"]), int(result["agents"])), []).append(result)
    return [_judged(found, goal) for _, found in sorted(together.items())]


def _judged(found: Sequence[Mapping[str, Any]], goal: Goal) -> Row:
    row: Row = {name: found[0][name] for name in ("routers", "servers", "agents", "interval_s")}
    names = (
        "throughput",
        "p50",
        "p90",
        "p99",
        "mean",
        "timeout_share",
        "router_used",
        "server_used",
        "server_stalls",
    )
    row |= {name: statistics.median(float(each[name]) for each in found) for name in names}
    row["p99_low"] = min(float(each["p99"]) for each in found)
    row["p99_high"] = max(float(each["p99"]) for each in found)
    row["seeds"] = len(found)
    row["offered"] = row["agents"] / row["interval_s"]
    # The number of calls in a short simulation varies by its square root.
    row["carried"] = bool(
        row["p99"] <= goal.p99_ms * 1e3
        and row["timeout_share"] <= goal.timeouts
        and row["throughput"] >= KEPT_UP * row["offered"]
        and max(row["router_used"], row["server_used"]) <= USED
    )
    return row


def bracket(rows: Iterable[Row], routers: int) -> tuple[int, int | None]:
    """Return the two numbers of agents between which the limit of a mesh lies.

    :returns: the largest number that the mesh carried, with all smaller ones, 0 if there is none;
        the smallest number that it did not carry, None if it carried all
    """
    low = 0
    for row in sorted(
        (row for row in rows if row["routers"] == routers), key=lambda row: int(row["agents"])
    ):
        if not row["carried"]:
            return low, int(row["agents"])
        low = int(row["agents"])
    return low, None


def answers(setups: Iterable[Setup], rows: Sequence[Row], costs: Costs, goal: Goal) -> list[Row]:
    """Return a row for each size of the mesh: how many agents it carries, and what limits it."""
    found = []
    for setup in setups:
        low, high = bracket(rows, setup.routers)
        mine = {row["agents"]: row for row in rows if row["routers"] == setup.routers}
        at, over = mine.get(low), mine.get(high)
        found.append(
            {
                "routers": setup.routers,
                "servers": setup.servers,
                "carries": low,
                "calls_per_s": low / setup.interval_s,
                **{
                    name: at[name] if at else None
                    for name in ("p50", "p99", "router_used", "server_used", "server_stalls")
                },
                "first_not": high,
                "limit": _limit(setup, costs, goal, low, over),
            }
        )
    return found


def _limit(setup: Setup, costs: Costs, goal: Goal, low: int, over: Row | None) -> str:
    if over is None:
        return "the number asked for" if low >= goal.agents else "nothing that was tried"
    parts = ceilings(setup, costs)
    return min(parts, key=lambda name: parts[name])
