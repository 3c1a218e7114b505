# SPDX-License-Identifier: Apache-2.0

"""Single stations against closed forms, whose values are literals from the formulas by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest
import simpy
from simpy.events import Timeout

from amqp1_driver.pipeline.capacity.machine import Machine, Others, Process, gamma


def sojourn(
    arrivals: float,
    cv: float,
    *,
    lanes: int = 1,
    count: int = 100_000,
    seed: int = 1,
    **more: float,
) -> tuple[float, Process]:
    """Mean time in a queue with Poisson arrivals and work of mean 1."""
    env, rng = simpy.Environment(), random.Random(seed)
    process = Process(Machine(env, lanes, 3000.0), lanes, rng, gamma(rng, cv), **more)
    total = 0.0
    over = env.event()
    left = count

    def done(came: float) -> None:
        nonlocal total, left
        total += env.now - came
        left -= 1
        if not left:
            over.succeed()

    def come(_: Any) -> None:
        process.submit(1.0, done, env.now)
        Timeout(env, rng.expovariate(arrivals)).callbacks.append(come)

    come(None)
    env.run(until=over)
    return total / count, process


def test_m_m_1() -> None:
    # 1 / (1 - 0.7)
    assert sojourn(0.7, 1.0)[0] == pytest.approx(3.3333, rel=0.05)


def test_m_d_1() -> None:
    # 1 + 0.7 / (2 * (1 - 0.7))
    assert sojourn(0.7, 0.0)[0] == pytest.approx(2.1667, rel=0.03)


def test_m_m_4() -> None:
    # Erlang's C(4, 2.8) = 0.4287; 1 + 0.4287 / (4 - 2.8)
    assert sojourn(2.8, 1.0, lanes=4)[0] == pytest.approx(1.3572, rel=0.03)


def test_the_use_of_a_station_is_its_load() -> None:
    _, process = sojourn(0.7, 1.0)

    assert process.cpu == pytest.approx(process.held)
    assert process.cpu / process.machine.env.now == pytest.approx(0.7, rel=0.02)


def test_a_wake_is_part_of_each_batch() -> None:
    # batches of 1: M/D/1 with 1.25 for each, 1.25 + 0.5 * 1.25 ** 2 / (2 * (1 - 0.625))
    mean, process = sojourn(0.5, 0.0, wake=0.25)

    assert mean == pytest.approx(2.2917, rel=0.03)
    assert process.wakes == pytest.approx(100_000, abs=10)


def test_latency_delays_as_a_set_up_but_uses_no_core() -> None:
    # M/D/1 with a set-up of 1: 1 + 0.5 + (2 * 1 + 0.5 * 1) / (2 * (1 + 0.5 * 1))
    mean, process = sojourn(0.5, 0.0, latency=1.0)

    assert mean == pytest.approx(2.3333, rel=0.03)
    assert process.held / process.machine.env.now == pytest.approx(0.5, rel=0.02)


def batches(count: int, **more: float) -> tuple[list[float], Process]:
    """When each of so many pieces of 10, there at once, was given on; batches without end."""
    env = simpy.Environment()
    process = Process(Machine(env, 1, 3000.0), 1, random.Random(1), batch=1e9, **more)
    ends: list[float] = []
    process.submit(10.0, lambda _: ends.append(env.now), None)
    for _ in range(count):
        process.submit(10.0, lambda _: ends.append(env.now), None)
    env.run()
    return ends, process


def test_what_waits_is_done_together_and_pays_one_wake() -> None:
    ends, process = batches(3, wake=5.0)

    # The first was begun alone; the three that came meanwhile are given on together.
    assert ends == [15.0, 50.0, 50.0, 50.0]
    assert (process.wakes, process.cpu) == (2, 50.0)


def test_stretch_holds_the_core_but_is_no_processor_time() -> None:
    ends, process = batches(4, stretch=1.5)

    # alone not at all; four: 40 * (1 + 0.5 * 3 / 4)
    assert ends == [10.0, 65.0, 65.0, 65.0, 65.0]
    assert (process.cpu, process.held) == (50.0, 65.0)


def test_sizes_of_batches_are_geometric() -> None:
    process = Process(Machine(simpy.Environment(), 1, 1.0), 1, random.Random(5), batch=4.0)
    drawn = [process.most() for _ in range(40_000)]

    assert sum(drawn) / len(drawn) == pytest.approx(4.0, rel=0.02)
    assert drawn.count(1) / len(drawn) == pytest.approx(0.25, abs=0.01)
    assert drawn.count(2) / len(drawn) == pytest.approx(0.1875, abs=0.01)


def test_a_batch_after_a_pause_costs_more() -> None:
    env = simpy.Environment()
    process = Process(
        Machine(env, 1, 3000.0), 1, random.Random(1), wake=5.0, chill=lambda idle: idle / 100.0
    )
    ends: list[float] = []
    for begin in (100.0, 101.0, 200.0):
        Timeout(env, begin).callbacks.append(
            lambda _: process.submit(10.0, lambda _: ends.append(env.now), None)
        )
    env.run()

    # (5 + 10) * (1 + 100 / 100); then at once, which costs nothing more; then 55 idle
    assert ends == [130.0, 145.0, 223.25]
    assert (process.cpu, process.warm) == (68.25, 45.0)


def test_disorder_leaves_the_mean_alone() -> None:
    assert sojourn(0.7, 0.0, disorder=1.0)[0] == pytest.approx(2.1667, rel=0.03)


def busy(cores: int, processes: int, slice_us: float, cost: float = 1.0) -> list[list[float]]:
    """When each of so many processes, with endless work, has finished a piece."""
    env = simpy.Environment()
    machine = Machine(env, cores, slice_us)
    ends: list[list[float]] = [[] for _ in range(processes)]
    for index in range(processes):
        process = Process(machine, 1, random.Random(1))
        for _ in range(40):
            process.submit(cost, lambda which: ends[which].append(env.now), index)
    env.run(until=12.5)
    return ends


def test_processes_share_the_cores_by_turns() -> None:
    ends = busy(cores=1, processes=2, slice_us=3.0)

    assert ends[0] == [1, 2, 3, 7, 8, 9]
    assert ends[1] == [4, 5, 6, 10, 11, 12]


def test_with_a_core_for_each_nobody_waits() -> None:
    assert busy(cores=2, processes=2, slice_us=3.0) == [list(range(1, 13))] * 2


def test_work_longer_than_a_turn_is_broken_off() -> None:
    ends = busy(cores=1, processes=2, slice_us=2.0, cost=5.0)

    # 2 each in turn, until the first ends at 9; its turn goes on with a step of the next piece
    assert ends == [[9.0], [12.0]]


def test_other_processes_take_their_share_of_the_cores() -> None:
    env, rng = simpy.Environment(), random.Random(1)
    machine = Machine(env, 1, 10.0)
    others = Others(machine, rng, 0.25, 40.0)
    process = Process(machine, 1, rng)

    def again(_: object) -> None:
        process.submit(1.0, again, None)

    again(None)
    env.run(until=400_000)
    # Who always wants the core gets what they leave.
    assert others.process.cpu / 400_000 == pytest.approx(0.25, abs=0.02)
    assert process.cpu / 400_000 == pytest.approx(0.75, abs=0.02)


def test_noise_has_mean_1_and_its_coefficient_of_variation() -> None:
    draw = gamma(random.Random(3), 0.5)
    assert draw is not None
    found = [draw() for _ in range(20_000)]
    mean = sum(found) / len(found)

    assert mean == pytest.approx(1.0, abs=0.02)
    assert (sum((each - mean) ** 2 for each in found) / len(found)) ** 0.5 == pytest.approx(
        0.5, abs=0.02
    )
    assert gamma(random.Random(3), 0.0) is None
