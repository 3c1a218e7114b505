# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the bars: what every release of the driver has to reach.

``python -m pytest tests/bars --long`` (or AMQP1_LONG=1) runs them at full size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.testing.fixture import BusProcess
from tests.bars.certificates import Authority
from tests.bars.rabbitmq import RabbitMQ
from tests.bars.support import Transports
from tests.bars.workers import Worker, log_folder

LONG_TIMEOUT = 1800
#: the first test on it may have to install it
RABBITMQ_TIMEOUT = 600


def _long() -> bool:
    # not a constant: this module is imported before --long sets the variable
    return os.environ.get("AMQP1_LONG") == "1"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave the Kerberos realm, which has to be downloaded, to the long form."""
    return True if collection_path.name == "test_kerberos.py" and not _long() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here not in item.path.parents:
            continue
        if _long():
            item.add_marker(pytest.mark.timeout(LONG_TIMEOUT))
        elif item.get_closest_marker("rabbitmq"):
            item.add_marker(pytest.mark.timeout(RABBITMQ_TIMEOUT))


@pytest.fixture(scope="session")
def long_form() -> bool:
    """Whether the bars are run at full size."""
    return _long()


_MEASURED = pytest.StashKey[list[str]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes down what was measured; shown at the end of the run."""
    lines = request.config.stash.setdefault(_MEASURED, [])
    return lambda text: lines.append(f"{request.node.name}: {text}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    lines = config.stash.get(_MEASURED, [])
    if lines:
        terminalreporter.section("measured")
    for line in lines:
        terminalreporter.line(line)


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


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """RabbitMQ 4.3 or what follows it, one node for all tests."""
    node = RabbitMQ("sid", tmp_path_factory.mktemp("rabbitmq") / "log")
    node.install()
    node.start()
    yield node
    node.wipe()


@pytest.fixture(params=["router", "broker", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)])
def bus(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A bus in a process of its own: has url(), kill() and start()."""
    if request.param == "rabbitmq":
        yield request.getfixturevalue("rabbitmq")
        return
    with BusProcess(request.param) as process:
        yield process


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A CA and its certificates, in files."""
    return Authority(tmp_path_factory.mktemp("certificates"))
