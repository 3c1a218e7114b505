# SPDX-License-Identifier: Apache-2.0

"""The command ``amqp1 bench-scale`` in short: every scenario works and nothing is lost.

No timing is judged here, and no growth of memory: the runs are too short for it.
"""

from __future__ import annotations

import json
import resource
import socket
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.bench import plan, scale
from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.scale import Session, Settings, Stage
from amqp1_driver.bus import Bus
from amqp1_driver.cli import main as cli

SHORT = ("--timeout", "20", "--threads", "3", "--passes", "2")


def rows(tmp_path: Path, *arguments: str) -> list[dict[str, Any]]:
    """Those of the only scenario of a run in which nothing was lost."""
    path = tmp_path / "result.json"
    assert cli.main(["bench-scale", *SHORT, "--json", str(path), *arguments]) == 0
    (scenario,) = json.loads(path.read_text())["scenarios"]
    found: list[dict[str, Any]] = scenario["rows"]
    assert [row["lost"] for row in found] == [0] * len(found)
    assert [row["errors"] for row in found] == [{}] * len(found)
    return found


def test_every_target_gets_every_cast(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small, large = rows(tmp_path, "targets", "--n", "5,20", "--servers-each", "8")
    assert [(row["n"], row["fewest"], row["most"]) for row in (small, large)] == [
        (5, 3, 3),
        (20, 3, 3),
    ]
    assert 0 < large["then_p50_ms"] <= large["then_p99_ms"]
    assert large["client_kib"] > 0 and large["bus_kib"] > 0
    assert "targets: casts to n targets (embedded router)" in capsys.readouterr().out


def test_every_listener_answers_every_call(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "listeners", "--n", "12", "--bus", "broker")
    assert (row["fewest"], row["most"]) == (3, 3)
    assert 0 < row["fairness"] <= 1
    assert row["server_kib"] > 0 and row["slowest_ms"] > 0
    assert row["stop_s"] > 0 and row["listen_s"] > 0 and row["again_s"] > 0


def test_more_calls_than_credit_are_outstanding(tmp_path: Path) -> None:
    # 100 credits has the server's link, 250 the client's
    (row,) = rows(tmp_path, "outstanding", "--n", "300")
    assert 0 < row["answer_p50_ms"] <= row["answer_p99_ms"] <= row["answer_s"] * 1e3
    assert row["driver_s"] > 0


@pytest.mark.parametrize(("how", "away"), [("restart", True), ("cut", False)])
def test_every_client_works_again(how: str, away: bool, tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "reconnect", "--n", "10", "--clients-each", "6", "--how", how)
    assert row["processes"] == 2
    assert row["attempts"] >= 1 and row["peak_attempts"] >= 1
    assert 0 < row["first_s"] <= row["median_s"] <= row["last_s"]
    assert (row["away_s"] > 0) is away
    assert row["bus_cpu_s"] > 0 and row["clients_cpu_s"] > 0


def test_memory_is_watched_step_by_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(tmp_path, "memory", "--n", "20", "--calls", "40", "--steps", "3")
    assert [step["answered"] for step in row["steps"]] == [40, 40, 40]
    assert [step["answered"] for step in row["traced_steps"]] == [4, 4, 4]
    assert row["link_heap"] > 20 * 500  # each has some objects of Python
    assert set(row["resident"]) == {"client", "server", "bus"} and set(row["heap"]) == {"heap"}
    out = capsys.readouterr().out
    assert "n = 20: resident memory of the client: " in out
    assert "n = 20: memory of Python's heap: " in out


def test_clients_of_a_bus_that_is_there_already_are_cut_off(tmp_path: Path) -> None:
    with Bus() as bus:
        (row,) = rows(tmp_path, "reconnect", "--n", "3", "--how", "cut", "--bus", bus.address)
        assert row["bus"] == "a bus of its own"
        # servers and clients, the clients again, and one server at least
        assert bus.counters.connections >= 8 + 3 + 3 + 1


def test_a_bus_that_is_there_already_is_not_restarted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bus:
        url = f"amqp://127.0.0.1:{bus.getsockname()[1]}/"
        assert cli.main(["bench-scale", "reconnect", "--n", "3", "--bus", url]) == 1
    assert "n = 3: a bus that was not started here can't be restarted" in capsys.readouterr().out


# -- tables -----------------------------------------------------------------------------------


def target(n: int, first: float, **more: Any) -> dict[str, Any]:
    return {
        "n": n,
        "first_s": first,
        "then_s": n / 1e4,
        "first_p50_ms": 1.0,
        "first_p99_ms": 2.0,
        "then_p50_ms": 1.0,
        "then_p99_ms": 2.0,
        "client_kib": 8.0 * n,
        "bus_kib": None,
        "fewest": 4,
        "most": 4,
        "lost": 0,
        "errors": {},
        **more,
    }


def test_a_table_shows_totals_shares_and_growth() -> None:
    lines = scale.lines("targets", "title", [target(10, 0.5), target(100, 50.0)])
    assert lines[0] == "title"
    assert " ".join(lines[1].split()) == (
        "n first s ^n us each p50 ms p99 then s ^n us each p50 ms p99 KiB each client ^n bus ^n "
        "taken to lost"
    )
    assert lines[2].split() == [
        "10",
        "0.50",
        "50000",
        "1.00",
        "2.00",
        "0.00",
        "100",
        "1.00",
        "2.00",
        "8.00",
        "-",
        "4",
        "4",
        "0",
    ]
    assert lines[3].split() == [
        "100",
        "50.0",
        "2.00",
        "500000",
        "1.00",
        "2.00",
        "0.01",
        "1.00",
        "100",
        "1.00",
        "2.00",
        "8.00",
        "1.00",
        "-",
        "-",
        "4",
        "4",
        "0",
    ]


def test_growth_is_drawn_over_n(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    failed = {"n": 1000, "trouble": "no bus"}
    document = {
        "settings": {"entry": "amqp:"},
        "when": "2026-01-01T",
        "scenarios": [
            {
                "name": "targets",
                "title": "casts to n targets",
                "rows": [target(10, 0.5), target(100, 50.0), failed],
            }
        ],
    }
    scale.draw(document, str(tmp_path / "x.svg"))
    picture = (tmp_path / "x.svg").read_text()
    for words in ("casts to n targets", "first_s", "client_kib / n", "amqp:"):
        assert f"<!-- {words} -->" in picture
    assert "<!-- fewest -->" not in picture


def test_a_name_that_is_no_picture_is_refused_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib")
    for command in ("bench-scale", "bench-flow"):
        assert cli.main([command, "--plot", "x.notes"]) == 2
        assert "--plot x.notes: the name has to end in one of" in capsys.readouterr().err


def test_errors_and_trends_are_told_below_the_table() -> None:
    errors = {"MessagingTimeout": {"count": 2, "first": "too late\nand more"}}
    trends = {"client": {"slope": 4.0, "tau": 0.9, "grows": True}}
    lines = scale.lines(
        "memory",
        "title",
        [
            {
                "n": 7,
                "lost": 2,
                "errors": errors,
                "resident": trends,
                "heap": {"heap": {"slope": -0.125, "tau": 0.1, "grows": False}},
            },
            {"n": 9, "trouble": "no bus"},
        ],
    )
    assert lines[3:] == [
        "n = 7: 2 x MessagingTimeout: too late",
        "n = 7: resident memory of the client: +4.000 B for each call, tau +0.90: it grows",
        "n = 7: memory of Python's heap: -0.125 B for each call, tau +0.10: no growth",
        "n = 9: no bus",
    ]


def test_memory_grows_if_a_byte_is_kept_for_each_call() -> None:
    steady = [{"client": 1000 + 10 * step, "server": 500, "bus": None} for step in range(6)]
    found = scale._trends(steady, False, 1024)
    assert found == {
        "client": {"slope": 10.0, "tau": 1.0, "grows": True},
        "server": {"slope": 0.0, "tau": 0.0, "grows": False},
    }
    # a page of 4 KiB for 10240 calls: 0.4 bytes for each
    pages = [{"client": 1000 + 4 * step, "server": 500, "bus": None} for step in range(6)]
    assert scale._trends(pages, False, 10240)["client"] == {
        "slope": pytest.approx(0.4),
        "tau": 1.0,
        "grows": False,
    }
    heap = [{"heap": 5000 + 160 * step} for step in range(6)]
    assert scale._trends(heap, True, 10)["heap"]["slope"] == 16.0


def test_every_scenario_has_a_table() -> None:
    assert set(scale.COLUMNS) == set(scale.SCENARIOS)


# -- sessions -----------------------------------------------------------------------------------


def played(results: list[Any], sizes: list[int] | None, monkeypatch: pytest.MonkeyPatch) -> Session:
    order = iter(results)

    def measure(stage: Stage, n: int) -> dict[str, Any]:
        result = next(order)
        if isinstance(result, Exception):
            raise result
        return {**target(n, 1.0), **result}

    settings = Settings(plan.entry("amqp://u:secret@h:1/"), None)
    monkeypatch.setattr(scale, "allow_descriptors", lambda: None)
    made = Session(settings, ["targets"], sizes, {"targets": (measure, "casts", (3, 5))})
    made.play()
    return made


def test_a_row_that_comes_to_nothing_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = played([{}, Trouble("it rains"), {}], [1, 2, 3], monkeypatch)
    assert [row["n"] for row in made.document["scenarios"][0]["rows"]] == [1, 2, 3]
    assert (made.failed, made.faulty) == (True, False)
    assert "n = 2: it rains" in capsys.readouterr().out
    assert "secret" not in json.dumps(made.document)


def test_what_is_lost_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    made = played([{}, {"lost": 1}], None, monkeypatch)
    assert [row["n"] for row in made.document["scenarios"][0]["rows"]] == [3, 5]
    assert (made.failed, made.faulty) == (False, True)
    assert not played([{}, {}], None, monkeypatch).faulty


def test_as_many_descriptors_are_allowed_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: asked.append(limits))
    for hard in (4096, 1 << 20, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda what, hard=hard: (1024, hard))
        scale.allow_descriptors()
    assert asked == [(4096, 4096), (65536, 1 << 20), (65536, resource.RLIM_INFINITY)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--n", "0"],
        ["everything"],
        ["--bus", "mail"],
        ["--bus", "amqp:"],
        ["--how", "softly"],
        ["--bus", "floor:"],
    ],
)
def test_wrong_arguments_end_with_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench-scale", *arguments])
    assert stop.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_the_help_explains_scenarios_and_columns(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench-scale", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for words in ("usage: amqp1 bench-scale", *scale.SCENARIOS, "columns:", "Exit status:"):
        assert words in text
