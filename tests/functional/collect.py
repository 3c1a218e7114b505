# SPDX-License-Identifier: Apache-2.0

"""pytest plugin: outcomes of tests/buses, for each bus, into a file of results.

    python -m pytest -p tests.functional.collect --bus-results FILE.json tests/buses

A test belongs to the bus that its fixtures name, by themselves or by their parameter.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.functional import results

#: fixture, or id of its parameter -> name of the bus
_BUSES = {
    "artemis": "artemis",
    "brokerj": "broker-j",
    "rabbit40": "rabbitmq-4.0",
    "4.0": "rabbitmq-4.0",
    "rabbit43": "rabbitmq-4.3",
    "4.3": "rabbitmq-4.3",
}


def bus_of(fixtures: list[str], parameters: str) -> str | None:
    """The bus of a test with these fixtures and this id of parameters ("4.3-fast")."""
    words = [word for known in _BUSES for word in [known] if known in parameters.split("-")]
    words += [name for name in fixtures if name in _BUSES]
    return _BUSES[words[0]] if words else None


class Collector:
    """Keeps the worst of what is reported of each test."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file = file
        self._buses: dict[str, tuple[str, str]] = {}
        self._found: dict[str, dict[str, str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            call = getattr(item, "callspec", None)
            bus = bus_of(list(getattr(item, "fixturenames", ())), call.id if call else "")
            if bus is not None:
                self._buses[item.nodeid] = (bus, item.originalname)  # type: ignore[attr-defined]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid not in self._buses or (report.passed and report.when != "call"):
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        detail = "" if report.passed else str(report.longrepr)
        if crash is not None:
            detail = str(crash.message).partition("\n")[0]
        if report.skipped and isinstance(report.longrepr, tuple):
            detail = str(report.longrepr[2]).removeprefix("Skipped: ")
        outcome = {"passed": report.outcome, "skipped": "skipped"}.get(report.outcome, "failed")
        if self._found.get(report.nodeid, {}).get("outcome") != "failed":
            self._found[report.nodeid] = {"outcome": outcome, "detail": detail}

    def pytest_sessionfinish(self) -> None:
        runs: dict[str, list[dict[str, Any]]] = {}
        for node, found in self._found.items():
            bus, name = self._buses[node]
            runs.setdefault(bus, []).append({"id": name, **found})
        for bus, tests in runs.items():
            results.store(self._file, results.entry("buses", bus, "", tests))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bus-results", type=pathlib.Path, metavar="FILE.json")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--bus-results")
    if file is not None:
        config.pluginmanager.register(Collector(file), "bus-results")
