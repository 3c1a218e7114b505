# SPDX-License-Identifier: Apache-2.0

"""Costs are found again from what a model with known ones says."""

from __future__ import annotations

from typing import Any

import pytest

from amqp1_driver.bench.plan import Scenario
from amqp1_driver.pipeline.capacity import fit, measure
from amqp1_driver.pipeline.capacity.costs import Costs, Part
from amqp1_driver.pipeline.capacity.measure import FIGURES, Point
from amqp1_driver.pipeline.capacity.mesh import simulate

KNOWN = Costs(
    Part(100, 60, 2),
    Part(40, 30, 1),
    Part(120, 70, 2),
    latency_us=25,
    batch=12,
    stretch=1.2,
    noise=0.4,
    disorder=0.3,
    burst_us=1500,
    cold=2.0,
    cooling_us=4000,
)


def measured(scenario: Scenario, costs: Costs = KNOWN) -> Point:
    """As a real run with these costs would be."""
    figures = dict.fromkeys(FIGURES, 1.0) | {"others": 0.2}
    setup = measure.setup(Point(scenario, figures), 2)
    found = simulate(setup.replace(calls=4000, seed=3), costs)
    return Point(scenario, figures | {name: getattr(found, name) for name in FIGURES})


def test_known_costs_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "BATCHES", (3.0, 12.0, 48.0))
    points = [measured(scenario) for scenario in measure.CALIBRATION]
    found = fit.fit(points, 2, rounds=6, calls=2000)

    for part in ("client", "router", "server"):
        ours, theirs = getattr(KNOWN, part), getattr(found, part)
        assert theirs.call == pytest.approx(ours.call, rel=0.15)
        # what a lone caller costs
        assert theirs.call + theirs.wake == pytest.approx(ours.call + ours.wake, rel=0.1)
        assert theirs.kib == pytest.approx(ours.kib, rel=0.25)
    assert found.stretch == pytest.approx(1.2, rel=0.1)
    # and they predict a configuration that they were not made of
    other = Scenario("call", threads=24)
    [row] = fit.errors([measured(other)], found, 2, calls=4000)
    assert abs(row["throughput"]["error"]) < 10
    assert abs(row["p99"]["error"]) < 20
    # at a rate, too: what a pause costs is known, of other pauses
    [row] = fit.errors([measured(Scenario("call", threads=16, rate=500.0))], found, 2, calls=4000)
    assert abs(row["p50"]["error"]) < 10
    assert abs(row["p99"]["error"]) < 25


def test_pauses_that_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "BATCHES", (12.0,))
    warm = KNOWN.replace(cold=0.0)
    points = [measured(scenario, warm) for scenario in measure.CALIBRATION]
    found = fit.fit(points, 2, rounds=4, calls=1000)

    assert found.cold < 0.15
    # and without two rates there is nothing to learn it from
    plain = [point for point in points if point.scenario.rate != 100.0]
    assert fit.fit(plain, 2, rounds=1, calls=200).cold == 0.0


def tails(others: float) -> Costs:
    """A correction for a lone caller whose 99th percentile is much longer than the model's."""
    points = [measured(scenario) for scenario in measure.CALIBRATION[:3]]
    figures = {**points[0].figures, "p99": 9 * points[0].figures["p50"], "others": others}
    points[0] = Point(points[0].scenario, figures)
    results = [simulate(measure.setup(point, 2).replace(calls=1000), KNOWN) for point in points]
    return fit._Known(points).corrected(KNOWN, results)


def test_bursts_of_nobody_are_not_learnt_from_the_tail() -> None:
    quiet, busy = tails(0.05), tails(0.2)

    assert quiet.burst_us == 1500
    assert busy.burst_us > 2000
    assert quiet.noise > busy.noise


def test_the_latency_of_a_link() -> None:
    lone = measure.CALIBRATION[0]
    near = measured(lone, KNOWN)
    figures = dict(near.figures)
    two = measure.setup(near, 2).replace(routers=2, servers=2, local=0.0, calls=4000, seed=3)
    figures["p50"] = simulate(two, KNOWN.replace(hop_us=80.0)).p50
    far = Point(lone, figures)

    assert fit.with_hop(KNOWN, near, far, 2).hop_us == pytest.approx(80.0, abs=8.0)
    # what the second router costs anyway is no latency of the link
    assert fit.with_hop(KNOWN, near, near, 2).hop_us == 0.0


def test_points_that_are_needed() -> None:
    lone, some, many, large = (
        Point(scenario, dict.fromkeys(FIGURES, 1.0)) for scenario in measure.CALIBRATION[:4]
    )
    for points in ([some, many, large], [lone, some, large], [lone, many, large], [large]):
        with pytest.raises(ValueError, match="points with small payloads and 1, several, and 16"):
            fit.fit(points, 2)
    with pytest.raises(ValueError, match="payload of 4 KiB"):
        fit.fit([lone, some, many], 2)


def test_least_squares_without_negative_values() -> None:
    assert fit.least_squares([[1, 0], [0, 1], [1, 1]], [1, 2, 3]) == pytest.approx([1, 2])
    # y = 2 - x would be best: the slope may not be negative, so the mean it is
    assert fit.least_squares([[1, 0], [1, 1]], [2, 1]) == pytest.approx([1.5, 0])


def row(throughput: float, p99: float) -> dict[str, Any]:
    return {"throughput": {"error": throughput}, "p99": {"error": p99}}


def test_the_bar() -> None:
    assert fit.within(row(-25.0, 24.9), 25.0)
    assert not fit.within(row(-25.1, 0.0), 25.0)
    assert not fit.within(row(0.0, 25.1), 25.0)
