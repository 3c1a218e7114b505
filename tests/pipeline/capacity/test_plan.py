# SPDX-License-Identifier: Apache-2.0

"""Which simulations are asked for, and what is made of their results."""

from __future__ import annotations

from typing import Any

import pytest

from amqp1_driver.pipeline.capacity import plan
from amqp1_driver.pipeline.capacity.costs import Costs, Part
from amqp1_driver.pipeline.capacity.plan import Goal
from amqp1_driver.pipeline.capacity.setup import Setup

#: a router does 10,000 calls a second, a server 5000
COSTS = Costs(Part(1), Part(100), Part(200))
BASE = Setup(agents=1, interval_s=10.0, size=0, fold=True)
GOAL = Goal(p99_ms=10.0, agents=1_000_000)


def result(
    agents: int,
    p99: float,
    seed: int = 1,
    share: float = 1.0,
    timeouts: float = 0.0,
    routers: int = 1,
    used: float = 0.5,
) -> dict[str, Any]:
    return {
        "routers": routers,
        "servers": 4 * routers,
        "agents": agents,
        "interval_s": 10.0,
        "seed": seed,
        "throughput": agents / 10 * share,
        "p50": p99 / 2,
        "p90": p99 / 1.5,
        "p99": p99,
        "mean": p99 / 2,
        "timeout_share": timeouts,
        "router_used": used,
        "server_used": 0.25,
        "server_stalls": 0.0,
    }


def test_sizes_have_their_servers() -> None:
    found = plan.sizes(BASE, (1, 4), 3)

    assert [(each.routers, each.servers) for each in found] == [(1, 3), (4, 12)]


def test_first_pass_is_fractions_of_the_ceiling() -> None:
    rows = plan.first(plan.sizes(BASE, (1,), 4), COSTS, GOAL, seeds=2)

    # 10,000 calls a second: 100,000 agents at 10 s
    assert [row["agents"] for row in rows if row["seed"] == 1] == [
        20_000,
        40_000,
        55_000,
        70_000,
        80_000,
        87_000,
        93_000,
        97_000,
        100_000,
    ]
    assert sorted({row["seed"] for row in rows}) == [1, 2]
    assert all(row["fold"] for row in rows)


def test_first_pass_asks_for_no_more_than_the_goal() -> None:
    rows = plan.first(plan.sizes(BASE, (1,), 4), COSTS, Goal(10.0, agents=50_000), seeds=1)

    assert [row["agents"] for row in rows] == [20_000, 40_000, 50_000]


def test_second_pass_is_between_the_last_carried_and_the_next() -> None:
    judged = plan.judged([result(100, 5e3), result(200, 9e3), result(320, 11e3)], GOAL)
    rows = plan.second(plan.sizes(BASE, (1,), 4), judged, seeds=1)

    assert [row["agents"] for row in rows] == [220, 240, 260, 280, 300]
    assert plan.second(plan.sizes(BASE, (1,), 4), judged[:2], seeds=1) == []


def test_medians_of_seeds_are_judged() -> None:
    [row] = plan.judged([result(100, 9e3, 1), result(100, 12e3, 2), result(100, 9.5e3, 3)], GOAL)

    assert (row["p99"], row["p99_low"], row["p99_high"], row["seeds"]) == (9.5e3, 9e3, 12e3, 3)
    assert row["carried"] is True


@pytest.mark.parametrize(
    ("found", "carried"),
    [
        (result(1000, 10e3), True),
        (result(1000, 10.1e3), False),
        (result(1000, 5e3, used=0.95), True),
        (result(1000, 5e3, used=0.96), False),
        (result(1000, 5e3, share=0.96), False),
        (result(1000, 5e3, timeouts=0.001), False),
    ],
)
def test_what_is_not_carried(found: dict[str, Any], carried: bool) -> None:
    assert plan.judged([found], GOAL)[0]["carried"] is carried


def test_the_bracket_ends_at_the_first_that_is_not_carried() -> None:
    judged = plan.judged([result(300, 5e3), result(100, 5e3), result(200, 20e3)], GOAL)

    assert plan.bracket(judged, 1) == (100, 200)
    assert plan.bracket(judged[:1], 1) == (100, None)
    assert plan.bracket(judged[1:2], 1) == (0, 200)


def test_answers() -> None:
    setups = plan.sizes(BASE, (1, 2), 4)
    judged = plan.judged(
        [result(100, 5e3), result(200, 20e3), result(400, 5e3, routers=2)], Goal(10.0, agents=400)
    )
    one, two = plan.answers(setups, judged, COSTS, Goal(10.0, agents=400))

    assert (one["carries"], one["first_not"], one["limit"]) == (100, 200, "router")
    assert (one["calls_per_s"], one["p99"]) == (10.0, 5e3)
    assert (two["carries"], two["first_not"], two["limit"]) == (400, None, "the number asked for")


def test_nothing_is_carried() -> None:
    setups = plan.sizes(BASE, (1,), 4)
    [found] = plan.answers(setups, plan.judged([result(100, 20e3)], GOAL), COSTS, GOAL)

    assert (found["carries"], found["first_not"], found["p99"]) == (0, 100, None)


def test_goals_that_are_none() -> None:
    for changes in ({"p99_ms": 0.0}, {"agents": 0}, {"timeouts": 1.0}):
        with pytest.raises(ValueError, match="a goal has"):
            Goal(**changes)
