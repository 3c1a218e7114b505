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

"""Fixtures of the collector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amqp1_driver.testing.fixture import BusFixture
from tests.buses.rabbit import Node
from tests.pipeline.collect.support import Collecting


@pytest.fixture
def collecting(tmp_path: Path) -> Iterator[Collecting]:
    """Makes collectors."""
    made = Collecting(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def broker() -> Iterator[BusFixture]:
    """The embedded bus as a broker."""
    with BusFixture("broker", queue_capacity=100_000) as bus:
        yield bus


@pytest.fixture
def router() -> Iterator[BusFixture]:
    """The embedded bus as a router."""
    with BusFixture("router") as bus:
        yield bus


@pytest.fixture(scope="session")
def rabbit43(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """RabbitMQ 4.3 or what follows it."""
    node = Node("sid", tmp_path_factory.mktemp("sid") / "log")
    node.install()
    try:
        node.start()
        yield node
    finally:
        node.wipe()
