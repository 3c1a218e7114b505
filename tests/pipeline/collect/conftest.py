# SPDX-License-Identifier: Apache-2.0

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
