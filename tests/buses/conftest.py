# SPDX-License-Identifier: Apache-2.0
"""Fixtures: real buses, one node of each for all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bars.support import Transports
from tests.bars.workers import Worker, log_folder
from tests.buses.javabus import JavaBus
from tests.buses.rabbit import Node

#: the first test on one may have to install it
TIMEOUT = 400
_NODES = {"artemis", "brokerj", "java_bus", "rabbit", "rabbit40", "rabbit43"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and _NODES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.timeout(TIMEOUT))


def _running(name: str, factory: pytest.TempPathFactory) -> Iterator[JavaBus]:
    bus = JavaBus(name, factory.mktemp(name) / "log")
    bus.install()
    try:
        bus.start()
        yield bus
    finally:
        bus.wipe()


@pytest.fixture(scope="session")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBus]:
    """ActiveMQ Artemis with the configuration that the documentation shows."""
    yield from _running("artemis", tmp_path_factory)


@pytest.fixture(scope="session")
def brokerj(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBus]:
    """Qpid Broker-J with the configuration that the documentation shows."""
    yield from _running("brokerj", tmp_path_factory)


@pytest.fixture(params=["artemis", "brokerj"])
def java_bus(request: pytest.FixtureRequest) -> JavaBus:
    """Each of the two."""
    bus: JavaBus = request.getfixturevalue(request.param)
    return bus


@pytest.fixture
def transports() -> Iterator[Transports]:
    """Makes transports, and cleans them up."""
    made = Transports()
    yield made
    made.cleanup()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    """Starts processes of applications: ``worker("server")``."""
    started: list[Worker] = []
    with log_folder(tmp_path) as logs:

        def start(name: str) -> Worker:
            started.append(Worker(name, logs / f"{name}.log"))
            return started[-1]

        yield start
        for one in started:
            one.stop()


def _node(suite: str, factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(suite, factory.mktemp(suite) / "log")
    node.install()
    try:
        node.start()
        yield node
    finally:
        node.wipe()


@pytest.fixture(scope="session")
def rabbit40(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """RabbitMQ 4.0."""
    yield from _node("trixie", tmp_path_factory)


@pytest.fixture(scope="session")
def rabbit43(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """RabbitMQ 4.3 or what follows it."""
    yield from _node("sid", tmp_path_factory)


@pytest.fixture(params=[pytest.param("rabbit40", id="4.0"), pytest.param("rabbit43", id="4.3")])
def rabbit(request: pytest.FixtureRequest) -> Node:
    """Each of the two."""
    node: Node = request.getfixturevalue(request.param)
    return node
