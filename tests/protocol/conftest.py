# SPDX-License-Identifier: Apache-2.0

"""Tests that touch deliveries run over both implementations."""

from __future__ import annotations

from typing import Any

import pytest

from amqp1_driver.engine.deliveries import ProtonDeliveries
from amqp1_driver.engine.speedups import SpeedupDeliveries

from .world import World

PATHS = (SpeedupDeliveries(), ProtonDeliveries())


@pytest.fixture(params=PATHS, ids=["speedups", "deliveries"])
def path(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def world(path: Any) -> World:
    """A connection that is ready."""
    world = World(path).start()
    assert world.state == "ready"
    return world
