# SPDX-License-Identifier: Apache-2.0

"""``amqp1 demo`` as its users see it: a process, a table, an exit status."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.cli import demo, demo_servers, demo_steps
from amqp1_driver.cli.demo import Table
from amqp1_driver.cli.main import main
from amqp1_driver.testing.fixture import BusFixture

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 60
STEPS = [
    "start",
    "call",
    "call by name",
    "cast",
    "fanout",
    "timeout, busy server",
    "timeout, no server",
    "remote exception",
    "notifications",
    "failover",
]
LAST = re.compile(r"every step did what it should \((\d+\.\d) s\)")


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "amqp1_driver.cli.main", "demo", *arguments],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def play(*arguments: str) -> tuple[int, str, str]:
    process = start(*arguments)
    output, errors = process.communicate(timeout=TIMEOUT)
    return process.returncode, output, errors


def verdicts(output: str) -> dict[str, str]:
    """Name of each step -> ok, FAILED or -."""
    rows = re.findall(r"^(ok|FAILED|-) +(.{20}) +[0-9.-]+  ", output, re.MULTILINE)
    return {name.strip(): verdict for verdict, name in rows}


def processes(output: str) -> list[int]:
    return [int(number) for number in re.findall(r"process (\d+)", output)]


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("mode", ["router", "broker"])
def test_every_step_succeeds_and_nothing_is_left_behind(mode: str) -> None:
    status, output, errors = play("--mode", mode)
    assert (status, errors) == (0, ""), output
    assert verdicts(output) == dict.fromkeys(STEPS, "ok")
    assert "\x1b" not in output
    last = LAST.fullmatch(output.splitlines()[-1])
    assert last is not None
    assert float(last[1]) < 30, "five seconds on an idle machine"
    pids = set(processes(output))
    assert len(pids) == 5, "two buses and three servers, each a process of its own"
    assert not any(runs(pid) for pid in pids)


def test_a_bus_that_is_there_is_used_and_not_killed() -> None:
    with BusFixture("broker", users={"ann": "a-password"}) as bus:
        status, output, errors = play("--url", bus.url())
        place = f"bus at 127.0.0.1:{bus.port}\n"
    assert (status, errors) == (0, ""), output
    assert verdicts(output) == {**dict.fromkeys(STEPS, "ok"), "failover": "-"}
    assert place in output
    assert "a-password" not in output


def test_the_url_may_lie_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played: list[Any] = []
    monkeypatch.setattr(demo, "play", lambda mode, url, *more: played.append(url) or 0)
    monkeypatch.setenv("BUS_URL", "amqp://u:secret@h/")
    assert main(["demo", "--url", "env:BUS_URL"]) == 0
    assert played == ["amqp://u:secret@h/"]
    assert main(["demo", "--url", "file:/nowhere"]) == 2
    assert "file:/nowhere: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--verbose"]], ids=["quiet", "verbose"])
def test_what_keeps_a_server_from_coming_up_is_said_at_once(more: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        url = f"amqp://ann:a-password@{place}/?nonsense=1"
        status, output, errors = play("--url", url, *more)
    assert status == 1
    assert verdicts(output) == {"start": "FAILED"}
    assert "unknown option 'nonsense'" in output
    assert ("unknown option 'nonsense'" in errors) is bool(more)
    assert "a-password" not in output
    assert output.splitlines()[-1].startswith("did not do what they should: start")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_all_its_processes(number: int) -> None:
    process = start()
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if "notification listener" in line:  # the row of the start is complete
            break
    pids = set(processes(seen))
    assert len(pids) == 5
    process.send_signal(number)
    output, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, errors) == (130, "")
    assert output.splitlines()[-1] == "interrupted"
    assert not any(runs(pid) for pid in pids)


def test_a_step_that_fails_is_named_and_the_others_are_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bad() -> demo_steps.Shown:
        raise demo_steps.Failed("it did something else")

    def good() -> demo_steps.Shown:
        return demo_steps.Shown(0.001, ["done"])

    monkeypatch.setattr(
        demo_steps.Play, "steps", lambda self: [("one", good), ("two", bad), ("three", good)]
    )
    out = io.StringIO()
    assert demo.play("router", None, False, Table(out)) == 1
    assert verdicts(out.getvalue()) == {"one": "ok", "two": "FAILED", "three": "ok"}
    assert "it did something else" in out.getvalue()
    assert "did not do what they should: two" in out.getvalue().splitlines()[-1]


def test_an_unexpected_exception_fails_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> demo_steps.Shown:
        raise KeyError("gone")

    monkeypatch.setattr(demo_steps.Play, "steps", lambda self: [("one", step)])
    out = io.StringIO()
    assert demo.play("router", None, False, Table(out)) == 1
    assert re.search(r"^FAILED one +\d+\.\d  KeyError: 'gone'$", out.getvalue(), re.MULTILINE)


def test_a_wait_ends_when_there_is_nothing_to_wait_for() -> None:
    inbox = demo_servers.Inbox()
    inbox.put("ready", {"server": "server-1"})
    inbox.put("ended", {"server": "server-2"})
    assert len(inbox.wait("ready", 2, TIMEOUT, unless="ended")) == 1


def test_a_wait_looks_at_the_numbers_asked_for_only() -> None:
    inbox = demo_servers.Inbox()
    for number in (1, 2, 2):
        inbox.put("cast", {"number": number})
    assert [e.fields["number"] for e in inbox.wait("cast", 2, TIMEOUT, {2})] == [2, 2]
