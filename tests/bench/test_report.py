# SPDX-License-Identifier: Apache-2.0

"""Tables, and the order of all runs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.bench import plan, plot
from amqp1_driver.bench.children import Trouble
from amqp1_driver.bench.plan import Entry, Scenario
from amqp1_driver.bench.run import Limits, Place
from amqp1_driver.bench.session import Progress, Session
from amqp1_driver.bench.table import number, table
from tests.bench.test_summary import run


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "-"), (0, "0"), (3, "3"), (1234.5, "1234"), (99.94, "99.9"), (0.125, "0.12")],
)
def test_numbers(value: float | None, expected: str) -> None:
    assert number(value) == expected


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table([["", "sent/s"], ["removed", "7"]]) == ["         sent/s", "removed       7"]


def session(results: list[Any], labels: str = "AB", rounds: int = 2) -> tuple[Session, list[str]]:
    order: list[str] = []

    def measure(entry: Entry, *_: Any) -> dict[str, Any]:
        order.append(entry.label)
        result = results[len(order) - 1]
        if isinstance(result, Exception):
            raise result
        return {"about": {"driver": entry.label}, **result}

    entries = [Entry(label, "amqp://u:secret@h/", "python") for label in labels]
    made = Session(entries, [Scenario("call")], rounds, Place(), Limits(), "a bus", measure)
    return made, order


@pytest.mark.parametrize("threads", [(1,), (1, 8)], ids=["bars", "lines"])
def test_the_title_of_a_plot_shows_no_password(threads: tuple[int, ...], tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    entries = [
        plan.entry("amqp://u:secret@one:1,v:word@two/?ssl_key_password=geheim"),
        plan.entry("tls=amqp://u:sec/ret@three/"),
    ]
    scenarios = [Scenario("call", threads=number) for number in threads]
    made = Session(
        entries,
        scenarios,
        1,
        Place(),
        Limits(),
        "",  # the bus has no name, so the title has the URLs
        lambda entry, *_: {"about": {"driver": entry.label}, **run(100)},
    )
    path = tmp_path / "plot.svg"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        plot.draw(made.play(), str(path))
    text = path.read_text()
    assert "amqp://u:***@one:1,v:***@two/?ssl_key_password=***" in text
    assert not [word for word in ("secret", "word@", "geheim", "sec/", "ret@") if word in text]


def test_runs_are_interleaved_and_compared_with_the_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made, order = session([run(100), run(300), run(200), run(500)])
    document = made.play()
    assert order == ["A", "B", "A", "B"]
    (scenario,) = document["scenarios"]
    assert [entry["label"] for entry in scenario["entries"]] == ["A", "B"]
    assert scenario["entries"][0]["about"] == {"driver": "A"}
    assert [item["sent_per_s"] for item in scenario["entries"][1]["runs"]] == [300, 500]
    assert scenario["entries"][1]["ratio"]["sent/s"]["low"] == 2.5
    text = capsys.readouterr().out
    assert "call, 8 threads, 100 B (medians of 2 rounds)" in text
    assert "2.67 (2.50..3.00)" in text
    assert "secret" not in text and "secret" not in str(document)


def test_the_document_says_what_was_measured_and_where() -> None:
    made, _ = session([run(), run()], rounds=1)
    document = made.play()
    assert (document["schema"], document["bus"], document["rounds"]) == (1, "a bus", 1)
    assert sorted(document) == [
        "bus",
        "limits",
        "machine",
        "rounds",
        "scenarios",
        "schema",
        "when",
    ]
    assert sorted(document["scenarios"][0]["entries"][0]) == [
        "about",
        "kind",
        "label",
        "median",
        "options",
        "ratio",
        "runs",
        "url",
    ]


def test_a_run_that_comes_to_nothing_is_reported_and_the_others_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made, _ = session([run(100), Trouble("server-1 ended"), run(100), run(300)])
    document = made.play()
    other = document["scenarios"][0]["entries"][1]
    assert other["runs"][0] == {"trouble": "server-1 ended"}
    assert other["ratio"]["sent/s"] == {"ratio": 3.0, "low": 3.0, "high": 3.0}
    assert made.failed and made.faults == []
    assert "B, round 1: server-1 ended" in capsys.readouterr().out


def test_nothing_is_compared_with_a_driver_that_came_to_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made, _ = session([Trouble("a"), run()], rounds=1)
    made.play()
    assert "A, round 1: a" in capsys.readouterr().out


def test_what_was_lost_or_came_twice_is_said_with_the_driver() -> None:
    made, _ = session([run(lost=1), run(failed=0), run(lost=2, duplicated=4), run(failed=0)])
    made.play()
    assert made.faults == [
        "A (call, 8 threads, 100 B): 3 messages lost and 4 messages received more than once",
    ]
    assert not made.failed and made.refused
    clean, _ = session([run(failed=0), run(failed=0)], rounds=1)
    clean.play()
    assert clean.faults == [] and not clean.refused


def test_columns_stand_under_the_name_of_their_group(capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = session([run(100), run(300)], labels="A")
    made.play()
    _, groups, titles, figures = capsys.readouterr().out.splitlines()[:4]
    assert [
        title
        for title in ("messages", "latency ms", "CPU us/message", "switches/message", "peak MiB")
        if title not in groups
    ] == []
    assert titles.split() == [
        "sent/s",
        "recv/s",
        "lost",
        "dup",
        "err",
        "p50",
        "p90",
        "p99",
        "max",
        "p99/p50",
        "client",
        "server",
        "cl+srv",
        "bus",
        "client",
        "server",
        "bus",
        "client",
        "server",
        "bus",
    ]
    assert figures.startswith("A     200  200 (100..300)  ")
    assert "  2.00  " in figures  # p99/p50
    assert groups.index("latency") < titles.index("p99/p50") < groups.index("CPU")


def test_errors_are_shown_with_the_words_of_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    bad = run(errors={"Timeout": {"count": 3, "first": "nobody answers\nmore"}}, in_doubt=2)
    made, _ = session([run(), bad], rounds=1)
    made.play()
    text = capsys.readouterr().out
    assert "B: 3 x Timeout: nobody answers\n" in text
    assert "B: 2 messages were received though their sending failed" in text


def test_what_a_driver_can_not_do_is_not_tried() -> None:
    made = Session([plan.entry("tcp:")], [Scenario("fanout")], 1, Place(), Limits())
    document = made.play()
    assert document["scenarios"][0]["entries"][0]["runs"] == [{"trouble": "it knows no fanout"}]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_for_terminals_only() -> None:
    pytest.importorskip("tqdm")
    for out, drawn in ((Terminal(), True), (io.StringIO(), False)):
        bar = Progress(2, 1.0, out)
        bar.begin("call: A, round 1/1")
        bar.tick()
        bar.end()
        bar.close()
        assert ("call: A, round 1/1" in out.getvalue()) is drawn
