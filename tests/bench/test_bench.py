# SPDX-License-Identifier: Apache-2.0

"""The command ``amqp1 bench`` on the embedded bus: it works and nothing is lost.

No timing is judged here.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.bench.plan import Scenario
from amqp1_driver.cli import bench
from amqp1_driver.cli import main as cli
from tests.bench.test_summary import run as run_of

SHORT = ("--threads", "2", "--warmup", "0.1", "--timeout", "20", "--strict")


def measured(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """The only scenario of a short benchmark in which everything went well."""
    path = tmp_path / "result.json"
    assert cli.main(["bench", *SHORT, "--json", str(path), *arguments]) == 0
    (scenario,) = json.loads(path.read_text())["scenarios"]
    return scenario


@pytest.mark.parametrize(
    ("bus", "operation", "servers"),
    [
        ("router", "call", 1),
        ("broker", "cast", 2),
        ("router", "fanout", 2),
        ("broker", "notify", 1),
    ],
)
def test_nothing_is_lost_in_a_short_run(
    bus: str, operation: str, servers: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = measured(
        tmp_path, "--bus", bus, "--op", operation, "--servers", str(servers), "--count", "150"
    )
    (entry,) = scenario["entries"]
    (run,) = entry["runs"]
    copies = servers if operation == "fanout" else 1
    assert (run["sent"], run["received"], run["failed"]) == (150, 150 * copies, 0)
    assert (run["lost"], run["duplicated"], run["in_doubt"], run["errors"]) == (0, 0, 0, {})
    assert entry["about"]["driver"] == "amqp1_driver.driver.Amqp1Driver"
    assert all(run["cpu_us"][who] >= 0 for who in ("client", "server", "bus"))
    assert all(run["peak_mib"][who] > 1 for who in ("client", "server", "bus"))
    assert 0 < run["latency_us"]["p50"] <= run["latency_us"]["p99"] <= run["latency_us"]["max"]
    assert f"{operation}, 2 threads, 100 B" in capsys.readouterr().out


def test_drivers_and_peers_are_compared(tmp_path: Path) -> None:
    scenario = measured(
        tmp_path,
        "--count",
        "60",
        "--clients",
        "2",
        "--compare",
        "ours=amqp:?addressing_mode=dynamic",
        "proton:",
        "floor:",
        "tcp:",
    )
    assert [entry["label"] for entry in scenario["entries"]] == ["ours", "proton", "floor", "tcp"]
    for entry in scenario["entries"]:
        assert entry["median"]["sent"] == entry["median"]["received"] == 60
        assert entry["ratio"]["sent/s"]["ratio"] > 0
    assert scenario["entries"][0]["ratio"]["sent/s"] == {"ratio": 1.0, "low": 1.0, "high": 1.0}


def test_at_a_rate_no_more_is_sent_than_is_due(tmp_path: Path) -> None:
    scenario = measured(tmp_path, "--compare", "floor:", "--rate", "50", "--seconds", "0.5")
    assert scenario["entries"][0]["median"]["sent"] == 25


def test_a_bus_that_is_not_there_is_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *SHORT, "--compare", "amqp://127.0.0.1:1/"]) == 1
    assert capsys.readouterr() == (
        "",
        "amqp1 bench: amqp: nobody can be reached at 127.0.0.1:1 (Connection refused)\n",
    )


def test_a_bus_that_does_not_answer_is_no_success(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from amqp1_driver.bench import run

    monkeypatch.setattr(run.Limits.__init__, "__defaults__", (1.0, 30.0, 2.0, 300.0, 3.0))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"amqp://127.0.0.1:{silent.getsockname()[1]}/"
        assert cli.main(["bench", *SHORT, "--compare", url]) == 1
    assert "amqp, round 1: not ready in 2 s: server-1" in capsys.readouterr().out


def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert cli.main(["bench", *SHORT, "--count", "1"]) == 1
    assert capsys.readouterr().err == (
        "amqp1 bench: psutil is not installed: pip install 'amqp1-driver[bench]'\n"
    )


def test_interrupted_it_leaves_nothing_behind() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _TELLS_CHILDREN, "bench", "--compare", "floor:", "--seconds", "60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (130, "interrupted\n")
    assert not Path(f"/proc/{worker}").exists()


_TELLS_CHILDREN = """
import sys
from amqp1_driver.bench import children
from amqp1_driver.cli.main import main
wait = children.Crew.wait
def waiting(self, event, workers, seconds):
    if event == "done":
        print(self.workers[0].process.pid, flush=True)
    return wait(self, event, workers, seconds)
children.Crew.wait = waiting
sys.exit(main())
"""


def test_scenarios_are_all_combinations() -> None:
    args = cli.parser(["bench"]).parse_args(
        ["bench", "--op", "call", "cast", "--threads", "1,64", "--size", "1K", "--rate", "5"]
    )
    assert bench.scenarios(args) == [
        Scenario(operation, threads, 1, 1, 1024, None, 5.0, 0, 5.0)
        for operation in ("call", "cast")
        for threads in (1, 64)
    ]


@pytest.mark.parametrize(
    ("arguments", "kind", "sizes"),
    [
        ([], "bytes", [100]),
        (["--payload", "nova"], "nova", [12288]),
        (["--payload", "cinder"], "cinder", [6144]),
        (["--payload", "neutron", "--size", "2K,77K"], "neutron", [2048, 78848]),
    ],
)
def test_each_payload_has_a_default_size(arguments: list[str], kind: str, sizes: list[int]) -> None:
    scenarios = bench.scenarios(cli.parser(["bench"]).parse_args(["bench", *arguments]))
    assert [(each.payload, each.size) for each in scenarios] == [(kind, size) for size in sizes]


def test_with_a_count_there_is_no_end_by_time() -> None:
    args = cli.parser(["bench"]).parse_args(["bench", "--count", "7"])
    (scenario,) = bench.scenarios(args)
    assert (scenario.seconds, scenario.count) == (0.0, 7)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--threads", "0"],
        ["--size", "1G"],
        ["--op", "sing"],
        ["--rate", "-1"],
        ["--seconds", "x"],
        ["--compare", "nonsense"],
        ["--compare", "amqp:@/nowhere/at/all"],
        ["--bus", "mail"],
        ["--payload", "glance"],
    ],
)
def test_wrong_arguments_end_with_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", *arguments])
    assert stop.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--option", "nobody:a.b=1"], "no driver is called 'nobody'"),
        (["--make-venv", "newer", "x"], "removed or rabbit"),
        (
            ["--payload", "nova", "--size", "12K,1K"],
            "--payload nova: --size 1024 is less than 2048",
        ),
        (
            ["--compare", "amqp:", "r=rabbit:"],
            "r: the embedded bus has no AMQP 0.9.1; --bus rabbit",
        ),
    ],
)
def test_arguments_that_do_not_fit_together(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--plot", "x.notes"], 2, "--plot x.notes: the name has to end in one of"),
        (["--plot", "no/such/folder.png"], 1, "there is no such folder"),
        (
            ["--json", "no/such/folder.json"],
            1,
            "--json no/such/folder.json: there is no such folder",
        ),
        (["--rst", "x.rst"], 2, "--rst belongs to --profile"),
        (["--profile", "x", "--plot", "x.png"], 2, "--profile has no --plot"),
    ],
)
def test_where_results_can_not_go_nothing_is_measured(
    arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    assert cli.main(["bench", "--compare", "floor:", *arguments]) == status
    text = capsys.readouterr()
    assert words in text.err and text.out == ""


def test_a_run_that_loses_or_doubles_messages_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from amqp1_driver.bench import run
    from amqp1_driver.bench.figures import Account

    monkeypatch.setattr(run, "account", lambda *_: Account(2, 1, 0))
    short = ["--threads", "1", "--warmup", "0.1", "--count", "5", "--compare", "floor:"]
    assert cli.main(["bench", *short]) == 1
    assert capsys.readouterr().err == (
        "amqp1 bench: floor (call, 1 thread, 100 B): 2 messages lost and 1 messages received more "
        "than once\n"
    )


def test_the_help_explains_drivers_columns_and_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for words in ("usage: amqp1 bench", "[LABEL=]URL[@VENV]", "columns:", "Exit status:", "floor:"):
        assert words in text


def test_a_plot_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "result.png"
    measured(tmp_path, "--compare", "floor:", "tcp:", "--count", "10", "--plot", str(picture))
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_numbers_of_threads_become_lines_one_for_each_driver(tmp_path: Path) -> None:
    figure = pytest.importorskip("matplotlib.figure")
    from amqp1_driver.bench import plot
    from amqp1_driver.bench.figures import summary

    def entry(label: str, rates: list[float]) -> dict[str, Any]:
        runs = [run_of(rate) for rate in rates]
        return {"label": label, "url": "amqp:", "runs": runs, "median": summary(runs)}

    scenarios = [
        {
            "title": f"call, {threads} threads, 100 B",
            "threads": threads,
            "entries": [
                entry("A", [10.0 * threads, 30.0 * threads, 20.0 * threads]),
                entry("B", [7.0]),
            ],
        }
        for threads in (2, 8)
    ]
    grid = figure.Figure().subplots(4, 1)
    plot._lines(grid, plot._chart("call", scenarios))
    first, second = grid[0].get_lines()
    assert (list(first.get_xdata()), list(first.get_ydata())) == ([2, 8], [40.0, 160.0])
    assert list(second.get_ydata()) == [7.0, 7.0]
    lowest, highest = grid[0].collections[0].get_datalim(grid[0].transData).get_points()[:, 1]
    assert (lowest, highest) == (20.0, 240.0)
    plot.draw(
        {"scenarios": scenarios, "rounds": 3, "bus": None, "when": "2026-01-01T"},
        str(tmp_path / "x.svg"),
    )
    assert "<svg" in (tmp_path / "x.svg").read_text()


def test_a_virtual_environment_that_is_there_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert cli.main(["bench", "--make-venv", "removed", str(tmp_path)]) == 1
    assert "already" in capsys.readouterr().err
