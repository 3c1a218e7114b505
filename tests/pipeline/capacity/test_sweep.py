# SPDX-License-Identifier: Apache-2.0

"""A small sweep on Spark, and the command with it."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.cli.main import main
from amqp1_driver.pipeline.capacity import costs, sweep
from amqp1_driver.pipeline.capacity.costs import Costs, Part
from amqp1_driver.pipeline.capacity.setup import Setup

COSTS = Costs(Part(90, 50), Part(40, 20), Part(110, 60), latency_us=15, noise=0.3)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, spark: Any) -> Any:
    """The session of the tests outlives the command."""
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    return spark


def test_rows_come_back_with_the_figures_of_their_simulation(spark: Any) -> None:
    base = Setup(agents=500, interval_s=1.0, calls=400, warmup=50, fold=True)
    rows = [base.replace(seed=seed).row() for seed in range(1, 7)]
    found = {row["seed"]: row.asDict() for row in sweep.sweep(spark, rows, COSTS).collect()}

    # What a worker of Spark computes is what this process does: a retry gives the same.
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    for row in rows:
        assert found[row["seed"]] == sweep.simulated(row, COSTS)


def test_nothing_to_simulate() -> None:
    with pytest.raises(ValueError, match="nothing to simulate"):
        sweep.sweep(None, [], COSTS)  # type: ignore[arg-type]


def test_the_command(kept: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs.save(COSTS, tmp_path / "costs.json")
    status = main(
        [
            "pipeline",
            "capacity",
            "--costs",
            str(tmp_path / "costs.json"),
            "--routers",
            "1,2",
            "--agents",
            "60000",
            "--p99-ms",
            "20",
            "--service-ms",
            "2",
            "--seeds",
            "1",
            "--calls",
            "400",
            "--servers",
            "2",
            "--output",
            str(tmp_path / "out"),
        ]
    )

    assert status == 0
    out = capsys.readouterr().out
    assert "Agents that a mesh carries at a p99 of 20 ms" in out
    found = json.loads((tmp_path / "out" / "capacity.json").read_text())
    one, two = found["answers"]
    # 60,000 agents make 6000 calls a second. A server can do 4348, at 110 + 2 * 60 us for each: the
    # four of two routers can.
    assert (one["routers"], two["routers"]) == (1, 2)
    assert two["carries"] == 60_000
    assert two["limit"] == "the number asked for"
    stored = kept.read.parquet(str(tmp_path / "out" / "capacity.parquet"))
    assert stored.count() == len(found["rows"])
    html = (tmp_path / "out" / "capacity.html").read_text()
    assert html.count("<svg") == 3
    assert "How many agents the mesh carries" in html


def test_as_a_program_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # as spark-submit runs it
    program = Path(sweep.__file__).parents[1] / "commands" / "capacity.py"
    monkeypatch.setattr("sys.argv", ["capacity.py", "--costs", str(tmp_path / "none.json")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(program), run_name="__main__")

    assert ended.value.code == 2
    assert "no costs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--routers", "0"], "a mesh has 1 router or more"),
        (["--routers", "one"], "not a list of numbers"),
        (["--topology", "star"], "invalid choice"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "capacity", *arguments])

    assert ended.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--p99-ms", "0"], "p99_ms above 0"),
        (["--seeds", "0"], "1 or more"),
        (["--interval", "0"], "positive"),
        (["--costs", "nowhere.json"], "no costs 'nowhere.json'"),
    ],
)
def test_values_that_cannot_be(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "capacity", *arguments]) == 2
    assert words in capsys.readouterr().err
