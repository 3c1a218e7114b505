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

"""Costs from measurements: the model is run with a guess, and the guess corrected, in turn.

What follows from which measurement:

* ``call``, ``wake`` and ``kib`` of each part: least squares over all points of
  ``cpu = call + wake * wakes + kib * KiB``, the number of wakes being the model's
* ``latency_us``: the median of a lone caller, what processor time does not explain of it
* ``batch``: whichever of ``BATCHES`` leaves the smallest error over all figures of all points
* ``stretch``: the throughput of the most callers
* ``noise``: how far the 90th percentile of a lone caller is above the median
* ``burst_us``: how far its 99th is
* ``disorder``: how far the 99th percentile of the most callers is above the median
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from amqp1_driver.pipeline.capacity.costs import Costs, Part
from amqp1_driver.pipeline.capacity.measure import FIGURES, Point, setup
from amqp1_driver.pipeline.capacity.mesh import simulate
from amqp1_driver.pipeline.capacity.result import Result
from amqp1_driver.pipeline.capacity.setup import Setup

PARTS = ("client", "router", "server")
#: corrections are taken by this share: what they correct depends on one another
_STEP = 0.6
_KIB = 1024.0
#: sizes of batches that are tried
BATCHES = (1.5, 3.0, 6.0, 12.0, 24.0, 48.0)
#: what the error is made of: squares of logarithms of predicted / measured, by these weights
_WEIGHTS = {"throughput": 1.0, "p50": 0.5, "p90": 0.5, "p99": 1.0, "client_cpu": 0.3,
            "router_cpu": 0.3, "server_cpu": 0.3}


def fit(points: Sequence[Point], cores: int, lanes: int = 1, rounds: int = 8,
        calls: int = 4000, seed: int = 1) -> Costs:
    """The costs that make the model agree with these points.

    :param points: one caller alone, several callers, and a larger payload must be among them
    :param cores: of the machine that they were measured on
    :param lanes: threads of the bus
    :param rounds: of correction, for each size of batches and at the end
    :param calls: in each simulation of the end
    :raises ValueError: a point that is needed is missing
    """
    lone, most = _extremes(points)
    if not any(point.scenario.size >= 4096 for point in points):
        raise ValueError("a point with a payload of 4 KiB or more is needed")
    setups = [setup(point, cores, lanes).replace(calls=calls, seed=seed, warmup=calls // 8)
              for point in points]
    short = [each.replace(calls=max(100, calls // 2)) for each in setups]

    def search(costs: Costs, setups: Sequence[Setup]) -> tuple[float, Costs]:
        found = (math.inf, costs)
        for _ in range(rounds):
            results = [simulate(each, costs) for each in setups]
            found = min(found, (_error(points, results), costs), key=lambda pair: pair[0])
            costs = _corrected(costs, points, results, lone, most)
        return found

    guess = _guess(points)
    tried = [search(guess.replace(batch=batch), short) for batch in BATCHES]
    _, best = min(tried, key=lambda pair: pair[0])
    return search(best, setups)[1]


def _error(points: Sequence[Point], results: Sequence[Result]) -> float:
    total = 0.0
    for point, result in zip(points, results, strict=True):
        for name, weight in _WEIGHTS.items():
            ratio = getattr(result, name) / max(1e-9, point.figures[name])
            total += weight * math.log(max(1e-9, ratio)) ** 2
    return total


def with_hop(costs: Costs, near: Point, far: Point, cores: int, lanes: int = 1,
             calls: int = 4000) -> Costs:
    """The same with the latency of a link between routers.

    :param near: a lone caller and its server, on one router
    :param far: the same, on two
    """
    one = setup(near, cores, lanes).replace(calls=calls)
    two = one.replace(routers=2, servers=2, local=0.0)
    known = simulate(two, costs).p50 - simulate(one, costs).p50
    # there and back
    hop = (far.figures["p50"] - near.figures["p50"] - known) / 2
    return costs.replace(hop_us=max(0.0, hop))


def _extremes(points: Sequence[Point]) -> tuple[int, int]:
    """Where the points of one and of the most threads are."""
    plain = sorted(
        (point.scenario.threads, index) for index, point in enumerate(points)
        if point.scenario.size < 4096 and not point.scenario.rate
    )
    if len(plain) < 3 or plain[0][0] != 1 or plain[-1][0] < 16:
        raise ValueError("points with small payloads and 1, several, and 16 threads or more are "
                         "needed")
    return plain[0][1], plain[-1][1]


def _guess(points: Sequence[Point]) -> Costs:
    def part(name: str) -> Part:
        least = min(point.figures[f"{name}_cpu"] for point in points)
        return Part(least * 0.8, least * 0.4)

    client, router, server = map(part, PARTS)
    return Costs(client, router, server, latency_us=20.0, stretch=1.1, noise=0.3,
                 disorder=0.2)


def _corrected(costs: Costs, points: Sequence[Point], results: Sequence[Result],
               lone: int, most: int) -> Costs:
    parts: dict[str, Any] = {name: _part(name, points, results) for name in PARTS}
    one, many = points[lone].figures, points[most].figures
    ours, theirs = results[lone], results[most]
    wakes = max(1.0, ours.client_wakes + ours.router_wakes + ours.server_wakes)
    latency = costs.latency_us + _STEP * (one["p50"] - ours.p50) / wakes
    stretch = costs.stretch * (theirs.throughput / many["throughput"]) ** _STEP
    noise = costs.noise * (_tail(one, "p90") / _tail(ours.row(), "p90")) ** _STEP
    burst = costs.burst_us * (_tail(one) / _tail(ours.row())) ** _STEP
    disorder = costs.disorder + 0.5 * _STEP * math.log(_tail(many) / _tail(theirs.row()))
    return costs.replace(
        latency_us=max(0.0, latency), stretch=max(1.0, stretch),
        burst_us=min(20_000.0, max(50.0, burst)),
        noise=min(3.0, max(0.02, noise)), disorder=min(1.0, max(0.0, disorder)),
        **parts)


def _tail(figures: Mapping[str, float], percentile: str = "p99") -> float:
    return max(0.01, figures[percentile] / figures["p50"] - 1.0)


def _part(name: str, points: Sequence[Point], results: Sequence[Result]) -> Part:
    rows, values = [], []
    for point, result in zip(points, results, strict=True):
        cpu = point.figures[f"{name}_cpu"]
        scenario = point.scenario
        reply = scenario.size if scenario.reply is None else scenario.reply
        # Each row is divided by what was measured: relative errors count.
        rows.append([1 / cpu, getattr(result, f"{name}_wakes") / cpu,
                     (scenario.size + reply) / _KIB / cpu])
        values.append(1.0)
    call, wake, kib = least_squares(rows, values)
    return Part(call, wake, kib)


def least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """The x >= 0 that makes ``rows * x`` nearest to the values.

    The best of the solutions with any of the unknowns left at zero; there are few of them.
    """
    count = len(rows[0])
    best, error = [0.0] * count, math.inf
    for chosen in range(1, 1 << count):
        used = [index for index in range(count) if chosen >> index & 1]
        part = _normal([[row[index] for index in used] for row in rows], values)
        if part is None or min(part) < 0:
            continue
        found = [0.0] * count
        for index, value in zip(used, part, strict=True):
            found[index] = value
        off = sum((sum(a * x for a, x in zip(row, found, strict=True)) - value) ** 2
                  for row, value in zip(rows, values, strict=True))
        if off < error - 1e-15:
            best, error = found, off
    return best


def _normal(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float] | None:
    """Solve the normal equations by elimination; None if they have no single solution."""
    size = len(rows[0])
    matrix = [[sum(row[i] * row[j] for row in rows) for j in range(size)]
              + [sum(row[i] * value for row, value in zip(rows, values, strict=True))]
              for i in range(size)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(matrix[k][i]))
        if abs(matrix[pivot][i]) < 1e-18:
            return None
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for k in range(size):
            if k != i:
                factor = matrix[k][i] / matrix[i][i]
                matrix[k] = [a - factor * b for a, b in zip(matrix[k], matrix[i], strict=True)]
    return [matrix[i][size] / matrix[i][i] for i in range(size)]


def errors(points: Sequence[Point], costs: Costs, cores: int, lanes: int = 1, calls: int = 10_000,
           seed: int = 7) -> list[dict[str, Any]]:
    """Predicted against measured, a row for each point; error in per cent of what was measured."""
    rows = []
    for point in points:
        found = simulate(setup(point, cores, lanes).replace(calls=calls, seed=seed), costs)
        row: dict[str, Any] = {"title": point.scenario.title, "rounds": point.rounds,
                               "others": point.figures.get("others", 0.0)}
        for name in FIGURES:
            measured = point.figures[name]
            low, high = point.spread.get(name, (measured, measured))
            predicted = getattr(found, name)
            row[name] = {"measured": measured, "low": low, "high": high, "predicted": predicted,
                         "error": 100.0 * (predicted / measured - 1.0)}
        rows.append(row)
    return rows


def within(row: Mapping[str, Any], bar: float) -> bool:
    """Whether throughput and 99th percentile of a row of ``errors`` are within so many per cent."""
    return all(abs(row[name]["error"]) <= bar for name in ("throughput", "p99"))
