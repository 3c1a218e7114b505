# SPDX-License-Identifier: Apache-2.0

"""Fixtures of the mesh and of qpidd.

Their tests are collected when AMQP1_TEST_ROUTER names a router, AMQP1_TEST_QPIDD that broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bars.support import Transports
from tests.bars.workers import Worker
from tests.mesh import qpidd, routers
from tests.mesh.pairs import wait_until_joined
from tests.mesh.routers import Mesh

#: file of tests -> what has to be named for them, and whether it is
_ASKED_FOR = {
    "test_mesh.py": (routers.VARIABLE, bool(routers.program())),
    "test_secure.py": (routers.VARIABLE, bool(routers.program())),
    "test_qpidd.py": (qpidd.VARIABLE, bool(qpidd.program())),
}

collect_ignore = [file for file, (_, named) in _ASKED_FOR.items() if not named]

_MEASURED = pytest.StashKey[list[str]]()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes down what was measured; shown at the end of the run."""
    lines = request.config.stash.setdefault(_MEASURED, [])
    return lambda text: lines.append(f"{request.node.name}: {text}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for file, (variable, named) in _ASKED_FOR.items():
        if not named:
            terminalreporter.line(f"{file} was not asked for: {variable} names no program")
    for line in config.stash.get(_MEASURED, []):
        terminalreporter.line(f"measured: {line}")


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

    def start(name: str) -> Worker:
        started.append(Worker(name, tmp_path / f"{name}.log"))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Mesh]:
    """Three routers that know each other, for one test: it may kill some."""
    binary = routers.program()
    assert binary is not None
    with Mesh(binary, tmp_path) as three:
        wait_until_joined(three)
        yield three
