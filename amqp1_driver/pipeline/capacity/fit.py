# SPDX-License-Identifier: Apache-2.0

"""Fit of costs to measurements: run the model with a guess, correct the guess, and repeat. Pure.

Each cost comes from one kind of measurement:

* ``call``, ``wake`` and ``kib`` of each part: least squares over all points without a rate of
  ``cpu = (call + wake * wakes + kib * KiB) * chill``; the number of wakes and the chill (the
  factor by which pauses raise the cost) come from the model
* ``cold`` and ``cooling_us``: processor time of a call at two rates so low that pauses count
* ``latency_us``: the part of a lone caller's median that processor time does not explain
* ``batch``: the one of ``BATCHES`` that leaves the smallest error over all figures of all points
* ``stretch``: the throughput of the most callers
* ``noise``: how far the 90th percentile of a lone caller is above the median
* ``burst_us``: how far the 99th percentile of a lone caller is above the median, if other
  processes used the machine during the measurement; if none did, the 99th percentile serves
  ``noise``, too, and ``burst_us`` keeps its default
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
#: share of each correction that a round applies, because the corrected costs affect each other
_STEP = 0.6
_KIB = 1024.0
#: cores in use by other processes, below which the fit cannot determine their bursts
_OTHERS = 0.1
#: values of ``Costs.batch`` that the fit tries
BATCHES = (1.5, 3.0, 6.0, 12.0, 24.0, 48.0)
#: weights of the figures in the error: it adds up the squares of log(predicted / measured)
_WEIGHTS = {
    "throughput": 1.0,
    "p50": 0.5,
    "p90": 0.5,
    "p99": 1.0,
    "client_cpu": 0.3,
    "router_cpu": 0.3,
    "server_cpu": 0.3,
}


def fit(
    points: Sequence[Point],
    cores: int,
    lanes: int = 1,
    rounds: int = 8,
    calls: int = 4000,
    seed: int = 1,
) -> Costs:
    """Return the costs that make the model agree with these points.

    :param points: one caller alone, several callers, and a larger payload must be among them;
        without two different rates ``cold`` remains 0
    :param cores: number of cores of the machine of the measurements
    :param lanes: threads of the bus
    :param rounds: corrections for each of ``BATCHES``, and again for the best of them
    :param calls: calls of each simulation for the best of ``BATCHES``; the others have half as many
    :raises ValueError: a point that the fit needs is missing
    """
    known = _Known(points)
    if not any(point.scenario.size >= 4096 for point in points):
        raise ValueError("a point with a payload of 4 KiB or more is needed")
    setups = [
        setup(point, cores, lanes).replace(calls=calls, seed=seed, warmup=calls // 8)
        for point in points
    ]
    short = [each.replace(calls=max(100, calls // 2)) for each in setups]

    def search(costs: Costs, setups: Sequence[Setup]) -> tuple[float, Costs]:
        found = (math.inf, costs)
        for _ in range(rounds):
            results = [simulate(each, costs) for each in setups]
            found = min(found, (_error(points, results), costs), key=lambda pair: pair[0])
            costs = known.corrected(costs, results)
        return found

    guess = _guess(points)
    tried = [search(guess.replace(batch=batch), short) for batch in BATCHES]
    _, best = min(tried, key=lambda pair: pair[0])
    return search(best, setups)[1]


def _error(points: Sequence[Point], results: Sequence[Result]) -> float:
    total = 0.0
    for point, result in zip(points, results, strict=True):
        for name, weight in _WEIGHTS.items():
            if point.scenario.rate and name in ("p90", "p99"):
                continue  # such a run has few calls: two or three lie above its 99th percentile
            ratio = getattr(result, name) / max(1e-9, point.figures[name])
            total += weight * math.log(max(1e-9, ratio)) ** 2
    return total


def with_hop(
    costs: Costs, near: Point, far: Point, cores: int, lanes: int = 1, calls: int = 4000
) -> Costs:
    """Return the costs with ``hop_us``, the latency of a link between routers.

    :param near: measurement of a lone caller and its server on one router
    :param far: measurement of the same scenario on two routers
    """
    one = setup(near, cores, lanes).replace(calls=calls)
    two = one.replace(routers=2, servers=2, local=0.0)
    wanted = far.figures["p50"] - near.figures["p50"] + simulate(one, costs).p50
    costs = costs.replace(hop_us=0.0)
    # A longer way also gives every process on it a longer idle time: so correct more than once.
    for _ in range(4):
        missing = (wanted - simulate(two, costs).p50) / 2  # there and back
        costs = costs.replace(hop_us=max(0.0, costs.hop_us + missing))
    return costs


def _extremes(points: Sequence[Point]) -> tuple[int, int]:
    """Return the indices of the points with one thread and with the most threads.

    Only points with small payloads and without a rate count.

    :raises ValueError: fewer than three such points, or none with one thread or with 16 or more
    """
    plain = sorted(
        (point.scenario.threads, index)
        for index, point in enumerate(points)
        if point.scenario.size < 4096 and not point.scenario.rate
    )
    if len(plain) < 3 or plain[0][0] != 1 or plain[-1][0] < 16:
        raise ValueError(
            "points with small payloads and 1, several, and 16 threads or more are needed"
        )
    return plain[0][1], plain[-1][1]


def _guess(points: Sequence[Point]) -> Costs:
    def part(name: str) -> Part:
        least = min(point.figures[f"{name}_cpu"] for point in points)
        return Part(least * 0.8, least * 0.4)

    client, router, server = map(part, PARTS)
    paced = len({point.scenario.rate for point in points} - {0.0}) > 1
    return Costs(
        client,
        router,
        server,
        latency_us=20.0,
        stretch=1.1,
        noise=0.3,
        disorder=0.2,
        cold=1.0 if paced else 0.0,
    )


class _Known:
    """The measured points by their role in the fit, and the correction of a guess by them.

    :raises ValueError: a point that the fit needs is missing
    """

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = points
        self._lone, self._most = _extremes(points)
        paced = sorted(
            (point.scenario.rate, index)
            for index, point in enumerate(points)
            if point.scenario.rate
        )
        #: indices of the points with the lowest and the highest rate; empty without two rates
        self._paced = (paced[0][1], paced[-1][1]) if len({rate for rate, _ in paced}) > 1 else ()

    def corrected(self, costs: Costs, results: Sequence[Result]) -> Costs:
        """Return a better guess.

        :param costs: the present guess
        :param results: simulations with the present guess, one for each point
        """
        parts: dict[str, Any] = {name: _part(name, self._points, results) for name in PARTS}
        one, many = self._points[self._lone].figures, self._points[self._most].figures
        ours, theirs = results[self._lone], results[self._most]
        wakes = max(1.0, ours.client_wakes + ours.router_wakes + ours.server_wakes)
        latency = costs.latency_us + _STEP * (one["p50"] - ours.p50) / wakes
        stretch = costs.stretch * (theirs.throughput / many["throughput"]) ** _STEP
        disorder = costs.disorder + 0.5 * _STEP * math.log(_tail(many) / _tail(theirs.row()))
        return costs.replace(
            latency_us=max(0.0, latency),
            stretch=max(1.0, stretch),
            disorder=min(1.0, max(0.0, disorder)),
            **parts,
            **_tails(costs, one, ours),
            **self._chill(costs, results),
        )

    def _chill(self, costs: Costs, results: Sequence[Result]) -> dict[str, float]:
        """Return corrected ``cooling_us`` and ``cold``, from the points with two rates.

        The highest rate has the shortest pauses: its extra processor time corrects the initial
        slope ``cold / cooling_us``. The ratio of the extra processor times at both rates corrects
        ``cooling_us``.

        :returns: empty without two rates, or if pauses cost nothing in the model
        """
        if not self._paced:
            return {}
        (slow, ours_slow), (fast, ours_fast) = (
            (_more(self._points[index], results[index]), _of_chill(results[index]))
            for index in self._paced
        )
        if ours_slow <= 0 or ours_fast <= 0:
            return {}
        bend = (ours_fast / ours_slow) / (fast / slow)
        cooling = min(200_000.0, max(200.0, costs.cooling_us * bend**_STEP))
        slope = costs.cold / costs.cooling_us * (fast / ours_fast) ** _STEP
        return {"cooling_us": cooling, "cold": min(30.0, max(0.001, slope * cooling))}


def _more(point: Point, result: Result) -> float:
    """Return the measured processor time of a call beyond the model's time without pauses."""
    measured = sum(point.figures[f"{name}_cpu"] for name in PARTS)
    return max(0.01 * measured, measured - _warm(result))


def _of_chill(result: Result) -> float:
    return sum(float(getattr(result, f"{name}_cpu")) for name in PARTS) - _warm(result)


def _warm(result: Result) -> float:
    return sum(
        float(getattr(result, f"{name}_cpu") / getattr(result, f"{name}_chill")) for name in PARTS
    )


def _tails(costs: Costs, one: Mapping[str, float], ours: Result) -> dict[str, float]:
    """Return corrected ``noise`` and ``burst_us``, by a lone caller's percentiles over its median.

    Without other processes on the machine there is no ``burst_us`` in the result.
    """
    p90 = _tail(one, "p90") / _tail(ours.row(), "p90")
    p99 = _tail(one) / _tail(ours.row())
    found = {}
    if one.get("others", 0.0) >= _OTHERS:
        found["burst_us"] = min(20_000.0, max(50.0, costs.burst_us * p99**_STEP))
    else:
        p90 = math.sqrt(p90 * p99)
    return {**found, "noise": min(3.0, max(0.02, costs.noise * p90**_STEP))}


def _tail(figures: Mapping[str, float], percentile: str = "p99") -> float:
    return max(0.01, figures[percentile] / figures["p50"] - 1.0)


def _part(name: str, points: Sequence[Point], results: Sequence[Result]) -> Part:
    rows, values = [], []
    for point, result in zip(points, results, strict=True):
        if point.scenario.rate:
            continue  # points with a rate serve ``cold`` and ``cooling_us``
        cpu = point.figures[f"{name}_cpu"]
        scenario = point.scenario
        reply = scenario.size if scenario.reply is None else scenario.reply
        # Each row is divided by the measured value, so that relative errors count.
        share = getattr(result, f"{name}_chill") / cpu
        rows.append(
            [
                share,
                share * getattr(result, f"{name}_wakes"),
                share * (scenario.size + reply) / _KIB,
            ]
        )
        values.append(1.0)
    call, wake, kib = least_squares(rows, values)
    return Part(call, wake, kib)


def least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Return the x >= 0 for which ``rows * x`` is nearest to the values.

    Each subset of the unknowns gives a solution with all other unknowns at zero; the result is the
    best solution without a negative value. This is fast enough because there are few unknowns.
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
        off = sum(
            (sum(a * x for a, x in zip(row, found, strict=True)) - value) ** 2
            for row, value in zip(rows, values, strict=True)
        )
        if off < error - 1e-15:
            best, error = found, off
    return best


def _normal(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float] | None:
    """Solve the normal equations by elimination; None if they have no single solution."""
    size = len(rows[0])
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in range(size)]
        + [sum(row[i] * value for row, value in zip(rows, values, strict=True))]
        for i in range(size)
    ]
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


def errors(
    points: Sequence[Point],
    costs: Costs,
    cores: int,
    lanes: int = 1,
    calls: int = 10_000,
    seed: int = 7,
) -> list[dict[str, Any]]:
    """Compare predicted with measured figures; errors are per cent of the measured value.

    :returns: a row for each point
    """
    rows = []
    for point in points:
        found = simulate(setup(point, cores, lanes).replace(calls=calls, seed=seed), costs)
        row: dict[str, Any] = {
            "title": point.scenario.title,
            "rounds": point.rounds,
            "others": point.figures.get("others", 0.0),
        }
        for name in FIGURES:
            measured = point.figures[name]
            low, high = point.spread.get(name, (measured, measured))
            predicted = getattr(found, name)
            row[name] = {
                "measured": measured,
                "low": low,
                "high": high,
                "predicted": predicted,
                "error": 100.0 * (predicted / measured - 1.0),
            }
        rows.append(row)
    return rows


def within(row: Mapping[str, Any], bar: float) -> bool:
    """Return whether throughput and 99th percentile of a row of :func:`errors` are within the bar.

    :param bar: per cent
    """
    return all(abs(row[name]["error"]) <= bar for name in ("throughput", "p99"))
