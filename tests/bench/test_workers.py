# SPDX-License-Identifier: Apache-2.0

"""Processes: they run anywhere, and none is left."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.bench import buses, children
from amqp1_driver.bench.children import WORKERS, Crew, Trouble
from amqp1_driver.bench.workers import quiet, usage


def tcp(role: str, port: int = 0) -> dict[str, Any]:
    return {
        "role": role,
        "kind": "tcp",
        "url": f"tcp://127.0.0.1:{port}",
        "operation": "call",
        "size": 10,
        "timeout": 10.0,
    }


def test_workers_need_nothing_but_their_own_folder(tmp_path: Path) -> None:
    shutil.copytree(WORKERS, tmp_path / "alone", ignore=shutil.ignore_patterns("__pycache__"))
    orders = [tcp("client"), {"do": "end"}]
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "alone")],
        cwd=tmp_path,
        text=True,
        timeout=30,
        input="".join(json.dumps(order) + "\n" for order in orders),
        capture_output=True,
    )
    # the end of its input ends a worker, wherever it is
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_that_dies_is_reported_with_its_last_words() -> None:
    with Crew() as crew:
        worker = crew.add("server-1", sys.executable, {**tcp("server"), "kind": "nonsense"})
        with pytest.raises(Trouble, match=r"server-1 ended with status 1: ModuleNotFoundError.*"):
            crew.wait("ready", [worker], 30)


def test_a_worker_that_is_killed_is_reported() -> None:
    with Crew() as crew:
        worker = crew.add("client-1", sys.executable, tcp("client"))
        crew.wait("ready", [worker], 30)
        worker.process.kill()
        with pytest.raises(Trouble, match="client-1 was killed by signal 9"):
            crew.wait("done", [worker], 30)


def script(folder: Path, *lines: str) -> str:
    """A program in place of the interpreter of a worker."""
    path = folder / "python"
    path.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    path.chmod(0o755)
    return str(path)


def test_a_worker_that_closes_its_output_is_not_reported_as_ended(tmp_path: Path) -> None:
    # it reads its first order, and ends with the second
    python = script(tmp_path, "echo farewell >&2", "exec >&- 2>&-", "read order", "read end")
    with Crew() as crew:
        worker = crew.add("client-1", python, tcp("client"))
        with pytest.raises(Trouble) as found:
            crew.wait("ready", [worker], 30)
    assert str(found.value) == "client-1 has closed its output, but still runs: farewell"


def test_last_words_may_have_no_newline(tmp_path: Path) -> None:
    python = script(tmp_path, "printf 'first\\nno memory' >&2", "exit 3")
    with Crew() as crew:
        worker = crew.add("client-1", python, tcp("client"))
        with pytest.raises(Trouble) as found:
            crew.wait("ready", [worker], 30)
    assert str(found.value) == "client-1 ended with status 3: no memory"


def test_waiting_has_a_deadline_and_says_for_whom() -> None:
    ticks: list[int] = []
    with Crew(lambda: ticks.append(1)) as crew:
        worker = crew.add("client-1", sys.executable, tcp("client"))
        crew.wait("ready", [worker], 30)
        with pytest.raises(Trouble, match="not done in 0 s: client-1"):
            crew.wait("done", [worker], 0.15)
    assert ticks


def test_no_worker_is_left_whatever_happens() -> None:
    with pytest.raises(ZeroDivisionError), Crew() as crew:
        crew.add("client-1", sys.executable, tcp("client"))
        crew.add("client-2", sys.executable, tcp("client"))
        _ = 1 / 0
    assert all(worker.process.returncode is not None for worker in crew.workers)


def test_another_environment_gets_nothing_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "here")
    assert "PYTHONPATH" not in children.environment("/elsewhere/bin/python")
    assert children.environment(sys.executable)["PYTHONPATH"] == "here"


def test_usage_of_this_process_from_both_sides() -> None:
    before = usage.own()
    sum(range(200_000))
    assert usage.own().since(before).cpu_us > 0
    seen = buses.used(os.getpid())
    assert seen is not None
    assert seen.cpu_us == pytest.approx(usage.own().cpu_us, abs=50_000)
    assert usage.peak_kib() == usage.peak_kib(os.getpid()) > 1024


def test_the_process_that_serves_a_url_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert buses.serving(f"amqp://u:p@127.0.0.1:{port}/") == os.getpid()
    assert buses.serving("amqp://far.example.org:5672/") is None


def test_what_costs_the_removed_driver_time_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    removals = pytest.importorskip("debtcollector.removals")
    monkeypatch.setattr(removals, "removed_class", removals.removed_class)  # is put back
    with warnings.catch_warnings(record=True) as told:
        quiet.before_import()

        @removals.removed_class("Incoming")
        class Incoming:
            pass

        warnings.simplefilter("always")  # as the removed driver does at import
        quiet.after_import()
        Incoming()
        warnings.warn("something", DeprecationWarning, stacklevel=1)
    assert told == []
    assert "__init__" not in vars(Incoming)  # nothing wraps it
