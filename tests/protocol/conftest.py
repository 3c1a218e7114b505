# SPDX-License-Identifier: Apache-2.0

"""Tests that touch deliveries run over all paths."""

from __future__ import annotations

from typing import Any

import pytest

from amqp1_driver.engine import deliveries, fastpath, speedups

from .world import World

PATHS = (speedups, fastpath, deliveries)


@pytest.fixture(params=PATHS, ids=["speedups", "fastpath", "deliveries"])
def path(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def world(path: Any) -> World:
    """A connection that is ready."""
    world = World(path).start()
    assert world.state == "ready"
    return world
