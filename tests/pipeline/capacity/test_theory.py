# SPDX-License-Identifier: Apache-2.0

"""Closed forms, by literals."""

from __future__ import annotations

import pytest

from amqp1_driver.pipeline.capacity.costs import Costs, Part
from amqp1_driver.pipeline.capacity.setup import Setup
from amqp1_driver.pipeline.capacity.theory import (
    ceiling,
    ceilings,
    closed_bound,
    wait_mg1,
    wait_mmc,
)


def test_waits() -> None:
    assert wait_mg1(0.7, 1.0) == pytest.approx(2.33333, abs=1e-5)
    assert wait_mg1(0.7, 1.0, 0.0) == pytest.approx(1.16667, abs=1e-5)
    assert wait_mmc(0.7, 1.0, 1) == pytest.approx(2.33333, abs=1e-5)
    assert wait_mmc(3.2, 1.0, 4) == pytest.approx(0.74553, abs=1e-4)
    with pytest.raises(ValueError, match=r"load is 1\.00"):
        wait_mmc(2.0, 1.0, 2)


def test_bounds_of_a_closed_network() -> None:
    assert closed_bound(1, 100.0, 40.0) == 0.01
    assert closed_bound(50, 100.0, 40.0) == 0.025
    assert closed_bound(3, 100.0, 40.0, think=200.0) == 0.01


def test_ceilings_of_parts() -> None:
    costs = Costs(Part(100), Part(9, 5, 1), Part(86, 20, 2), stretch=2.0, batch=10.0)
    setup = Setup(
        routers=2,
        servers=4,
        agents=1,
        size=1024,
        reply=4096,
        service_us=10_000,
        executor=8,
        work_us=100,
    )

    # router: (9 + 2 * 5 / 10 + 5) * 2 us, 1.5 routers for each call;
    # server: (86 + 2 * 20 / 10 + 10 + 100) * 2 us;
    # a thread: 10,000 us and half of a server's 400
    assert ceilings(setup, costs) == {
        "router": pytest.approx(44_444.4, abs=0.1),
        "server": pytest.approx(10_000.0),
        "executor": pytest.approx(3137.25, abs=0.01),
    }
    assert ceiling(setup, costs) == pytest.approx(3137.25, abs=0.01)
