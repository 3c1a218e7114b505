# SPDX-License-Identifier: Apache-2.0

"""Calibration and check with real runs: short ones, so that nothing is said about the error."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.bench import plan, run
from amqp1_driver.bench.plan import Scenario
from amqp1_driver.cli.main import main
from amqp1_driver.pipeline.capacity import costs, fit, measure
from amqp1_driver.pipeline.capacity.measure import FIGURES, Point

POINTS = [
    Point(scenario, dict.fromkeys(FIGURES, 100.0) | {"throughput": 1000.0, "p99": 150.0})
    for scenario in (*measure.CALIBRATION, *measure.CHECKS)
]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> list[list[Scenario]]:
    """Real runs, made up; what was asked for."""
    asked: list[list[Scenario]] = []

    def measured(self: measure.Lab, scenarios: Any, say: Any) -> list[Point]:
        asked.append(list(scenarios))
        return [point for point in POINTS if point.scenario in scenarios]

    monkeypatch.setattr(measure.Lab, "run", measured)
    # What is fitted here means nothing: a hint of it will do.
    monkeypatch.setattr(fit, "fit", functools.partial(fit.fit, rounds=1, calls=200))
    monkeypatch.setattr(fit, "errors", functools.partial(fit.errors, calls=300))
    return asked


def test_one_real_run_gives_a_point() -> None:
    lab = measure.Lab(seconds=0.5, rounds=1, spare=0)
    [point] = lab.run([Scenario("call", threads=2)])

    assert point.figures["throughput"] > 0
    # no call costs less than its system calls
    assert point.figures["client_cpu"] > 10
    assert point.figures["server_cpu"] > 10
    # of others' processes it is known in steps of 10 ms
    assert point.figures["router_cpu"] >= 0


def test_calibrate_writes_a_file_of_costs(
    lab: list[list[Scenario]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "costs.json"
    assert main(["pipeline", "capacity", "calibrate", "--output", str(file), "--cores", "2"]) == 0

    assert lab == [list(measure.CALIBRATION)]
    assert costs.load(str(file)).origin["cores"] == 2
    assert len(json.loads(file.read_text())["origin"]["points"]) == len(measure.CALIBRATION)
    assert "Agreement of the costs" in capsys.readouterr().out


def test_check_predicts_other_configurations_than_it_was_made_of(
    lab: list[list[Scenario]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made_of: list[Scenario] = []
    real = fit.fit

    def watched(points: Any, *rest: Any, **more: Any) -> Any:
        made_of.extend(point.scenario for point in points)
        return real(points, *rest, **more)

    monkeypatch.setattr(fit, "fit", watched)
    # The points are made up: nothing fits them, and the status says so.
    status = main(
        [
            "pipeline",
            "capacity",
            "check",
            "--calibrate",
            "--json",
            str(tmp_path / "check.json"),
            "--bar",
            "0.001",
        ]
    )

    assert status == 1
    assert made_of == list(measure.CALIBRATION)
    assert not set(measure.CHECKS) & set(measure.CALIBRATION)
    found = json.loads((tmp_path / "check.json").read_text())
    assert [row["title"] for row in found["errors"]] == [each.title for each in measure.CHECKS]
    assert "within 0.001 % in calls/s and in p99: 0 of 6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("where", "bus"),
    [
        ([], "router"),
        (["--bus", "broker"], "broker"),
        (["--url", "amqp://127.0.0.1:1/"], "a bus that was there"),
    ],
    ids=["default", "broker", "url"],
)
def test_a_check_notes_its_bus(
    lab: list[list[Scenario]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: list[str],
    bus: str,
) -> None:
    monkeypatch.setattr(fit, "errors", lambda *_: [])
    file = tmp_path / "check.json"
    assert main(["pipeline", "capacity", "check", "--json", str(file), *where]) == 1
    assert json.loads(file.read_text())["bus"] == bus


def test_a_bus_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(
        [
            "pipeline",
            "capacity",
            "calibrate",
            "--url",
            "amqp://127.0.0.1:1/",
            "--results",
            "nowhere.json",
            "--output",
            "x",
        ]
    )

    assert status == 1
    assert "nowhere.json" in capsys.readouterr().err


def test_the_embedded_router_has_no_mesh(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(
        ["pipeline", "capacity", "calibrate", "--far", "amqp://127.0.0.1:1/", "--output", "x"]
    )

    assert status == 2
    assert "--far needs --url" in capsys.readouterr().err


def test_servers_on_another_router() -> None:
    asked: list[tuple[str, str]] = []

    class Crew:
        """Notes who was started where."""

        def add(self, name: str, python: str, order: dict[str, Any]) -> str:
            asked.append((order["role"], order["url"]))
            return name

        def wait(self, *_: Any) -> list[dict[str, Any]]:
            return [{"about": {}}]

        workers = ()

    one, other = "amqp://192.0.2.1:5672/", "amqp://192.0.2.2:5672/"
    for far in ("", other):
        place = run.Place(far=far)
        crew: Any = Crew()
        run._Run(plan.entry(one), Scenario("call"), place, run.Limits(), crew, None)._start()

    assert asked == [("server", one), ("client", one), ("server", other), ("client", one)]
