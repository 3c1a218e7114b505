# SPDX-License-Identifier: Apache-2.0

"""The documentation's matrix of buses is what the results of the tests say, and nothing else."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from tests.functional import collect, report, results

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "doc" / "source"


def _entry(kind: str, bus: str, *tests: tuple[str, str, str], **more: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "bus": bus,
        "product": "Bus 1.2",
        "date": "2026-01-02",
        "commit": "abc1234",
        "suite": "",
        "scheme": "",
        "threads": "",
        **more,
        "tests": [dict(zip(("id", "outcome", "detail"), test, strict=True)) for test in tests],
    }


def _rows(text: str, title: str) -> list[str]:
    """Cells of the row that begins with *title*."""
    lines = text.splitlines()
    first = lines.index(f"   * - {title}")
    cells = []
    for line in lines[first + 1 :]:
        if not line.startswith("     -"):
            return cells
        cells.append(line.removeprefix("     -").strip())
    return cells


def test_the_committed_matrix_is_made_of_the_committed_results() -> None:
    entries = json.loads((SOURCE / "bus-matrix.json").read_text())
    assert report.Matrix(entries).text() == (SOURCE / "bus-matrix.inc").read_text()


def test_cells_say_yes_no_with_the_reason_or_nothing() -> None:
    text = report.Matrix(
        [
            _entry("abilities", "artemis", ("pools", "passed", "")),
            _entry(
                "abilities",
                "router",
                ("pools", "failed", "not there (host=127.0.0.1:5, address=a/b)"),
                ("requeue", "failed", "not there (address=x)"),
            ),
            _entry("abilities", "rabbitmq-4.3", ("requeue", "skipped", "no * time")),
        ]
    ).text()
    assert _rows(text, "Each pool of notification listeners gets every notification") == [
        "",
        "yes",
        "no [#m1]_",
    ]
    assert _rows(text, "A requeued notification comes again") == ["skipped [#m2]_", "", "no [#m1]_"]
    assert ".. [#m1] not there\n.. [#m2] no \\* time\n" in text


def test_reasons_have_nothing_of_one_run() -> None:
    assert report._timeless("late (host=h:1, address=a/b, message-id=x-1)") == "late"
    assert report._timeless("lost (host=h:1, condition=amqp:c, description=too much)") == (
        "lost (condition=amqp:c, description=too much)"
    )
    assert report._timeless("in doubt (lost (host=h:1, condition=c))") == (
        "in doubt (lost (condition=c))"
    )
    assert report._timeless("in doubt (lost (condition=c, descr") == (
        "in doubt (lost (condition=c, descr ..."
    )


def test_the_suite_is_counted_without_what_upstream_skips() -> None:
    text = report.Matrix(
        [
            _entry(
                "suite",
                "mine",
                ("tests.CallTestCase.test_one", "passed", ""),
                ("tests.CallTestCase.test_two", "failed", "AssertionError"),
                ("tests.CallTestCase.test_three", "skipped", "QPID-6307"),
            )
        ]
    ).text()
    assert _rows(text, "mine") == ["Bus 1.2", "1 / 1 / 1", "2026-01-02", "abc1234"]
    assert _rows(text, report._PARTS[0][0]) == ["1 of 2"]
    assert "* ``test_three``: QPID-6307\n" in text


def test_a_test_that_failed_once_is_a_no() -> None:
    text = report.Matrix(
        [
            _entry(
                "buses",
                "artemis",
                ("test_it_works", "passed", ""),
                ("test_it_works", "failed", "late"),
            )
        ]
    ).text()
    assert _rows(text, "it works") == ["no [#m1]_"]


def test_a_run_replaces_its_own_results_only(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "results.json"
    for bus, outcome in (("a", "failed"), ("b", "passed"), ("a", "passed")):
        results.store(file, _entry("abilities", bus, ("pools", outcome, "")))
    assert [
        (entry["bus"], entry["tests"][0]["outcome"]) for entry in json.loads(file.read_text())
    ] == [("a", "passed"), ("b", "passed")]


def test_a_test_belongs_to_the_bus_of_its_fixtures() -> None:
    assert collect.bus_of(["tmp_path", "rabbit43"], "") == "rabbitmq-4.3"
    assert collect.bus_of(["rabbit"], "4.0") == "rabbitmq-4.0"
    assert collect.bus_of(["java_bus"], "fast-brokerj") == "broker-j"
    assert collect.bus_of(["tmp_path"], "") is None
