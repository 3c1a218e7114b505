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

"""Tests that touch deliveries run over all paths."""

from __future__ import annotations

from typing import Any

import pytest

from amqp1_driver.protocol import compiledpath, fastpath, publicpath

from .world import World

PATHS = (compiledpath, fastpath, publicpath)


@pytest.fixture(params=PATHS, ids=["compiledpath", "fastpath", "publicpath"])
def path(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def world(path: Any) -> World:
    """A connection that is ready."""
    world = World(path).start()
    assert world.state == "ready"
    return world
