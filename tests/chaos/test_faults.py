# SPDX-License-Identifier: Apache-2.0
"""Every kind of fault can be made, and no failure of the program that makes them is silent."""

from __future__ import annotations

import io
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock, create_autospec

import pytest

from amqp1_driver.testing.proxy import FaultProxy
from tests.chaos import checker, faults, run
from tests.chaos.history import Event, Writer, load
from tests.chaos.nodes import Node
from tests.chaos.schedule import FAULTS, Planned
from tests.chaos.stage import Member

_ROLES = {"forking": "client", "clocked": "client", "spooling": "client", "way": "client"}
EXPECTED = {
    "reset": ["cut"],
    "refuse": ["refuse", "cut", "accept_again"],
    "half-open": ["abandon"],
    "freeze": ["freeze", "thaw"],
    "deaf": ["freeze down", "thaw down"],
    "mute": ["freeze up", "thaw up"],
    "server-kill": ["kill", "start"],
    "listener-restart": ["do stop", "serve"],
    "no-descriptors": ["begin starve", "cut"],
    "disk-full": [],
    "bus-stop": ["signal STOP", "signal CONT"],
    "bus-kill": ["kill", "start"],
    "password": ["change_password False", "close_connections", "change_password True"],
    "memory-alarm": ["alarm memory True", "alarm memory False"],
    "disk-alarm": ["alarm disk True", "alarm disk False"],
    "delete-queues": ["delete_queues"],
}


class World:
    """A conductor whose bus and processes only note what is done to them."""

    def __init__(self, folder: Path, role: str = "client") -> None:
        self.folder = folder
        calls = MagicMock()
        self.node = create_autospec(Node, instance=True)
        self.node.delete_queues.return_value = 0
        proxy = create_autospec(FaultProxy, instance=True)
        started: Future[None] = Future()
        started.set_result(None)
        disk = folder / "disk"
        disk.mkdir()
        (disk / "ballast").symlink_to("/dev/full")
        self.member = create_autospec(Member, instance=True)
        self.member.role, self.member.proxy, self.member.disk = role, proxy, disk
        self.member.lock, self.member.incarnation = threading.Lock(), "one"
        self.member.begin.return_value = started
        self.member.do.return_value = "exit status 0"
        for one in (self.node, self.member, proxy):
            calls.attach_mock(one, "m")
        self._calls = calls
        self.stage = SimpleNamespace(
            bus="rabbitmq-4.3",
            node=self.node,
            node_lock=threading.Lock(),
            members={"one": self.member},
            history=Writer(folder, "conductor"),
        )
        self.conductor = faults.Conductor(self.stage, 1)  # type: ignore[arg-type]

    def strike(self, kind: str) -> Event:
        """The event of the fault."""
        target = "bus" if FAULTS[kind][0] == "bus" else "one"
        self.conductor.strike(Planned(0.0, kind, target, 0.0))
        return self.events()[-1]

    def events(self) -> list[Event]:
        return load(self.folder)

    def calls(self) -> list[str]:
        """What was done, in order, with its positional arguments."""
        return [
            " ".join([call[0].rpartition(".")[2], *map(str, call[1])])
            for call in self._calls.mock_calls
        ]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def make(role: str = "client") -> World:
        made.append(World(tmp_path, role))
        return made[-1]

    yield make
    for one in made:
        one.stage.history.close()


def test_there_is_a_handler_for_each_kind_and_no_other(world: Callable[..., World]) -> None:
    assert world().conductor.kinds == set(FAULTS)


@pytest.mark.parametrize("kind", FAULTS)
def test_each_kind_is_made(world: Callable[..., World], kind: str) -> None:
    role = FAULTS[kind][0]
    one = world(_ROLES.get(role, role))
    event = one.strike(kind)
    assert (event["e"], event["kind"]) == ("fault", kind)
    assert not {"error", "reason"} & set(event), event
    assert one.calls() == EXPECTED[kind] if kind in EXPECTED else one.calls()
    assert (one.folder / "disk" / "ballast").is_symlink() == (kind != "disk-full")


def test_an_exception_of_the_program_is_noted_and_the_next_fault_comes(
    world: Callable[..., World],
) -> None:
    one = world()
    one.member.proxy.freeze.side_effect = AttributeError("no such method")
    one.conductor.perform([Planned(0.0, kind, "one", 0.0) for kind in ("deaf", "reset")])
    deaf, reset, conducted = one.events()
    assert deaf["error"] == "AttributeError('no such method')"
    assert (reset["kind"], "error" in reset) == ("reset", False)
    assert conducted["planned"] == {"deaf": 1, "reset": 1}
    assert [each.rule for each in report(one.folder)] == ["unmade"]
    assert run.main(["--check", str(one.folder)]) == 1


def test_a_kind_that_there_is_not_ends_the_run_before_its_first_fault(
    world: Callable[..., World],
) -> None:
    one = world()
    with pytest.raises(KeyError, match="earthquake"):
        one.conductor.perform(
            [Planned(0.0, "reset", "one", 0.0), Planned(0.0, "earthquake", "one", 0.0)]
        )
    assert one.events() == []
    assert [each.rule for each in report(one.folder)] == ["unmade"]


def test_faults_that_the_end_of_the_run_keeps_from_beginning_are_counted(
    world: Callable[..., World],
) -> None:
    one, stop = world(), threading.Event()
    one.member.proxy.cut.side_effect = stop.set
    one.conductor.perform([Planned(0.0, "reset", "one", 0.0)] * 3, stop)
    assert [(event["e"], event.get("unbegun")) for event in one.events()] == [
        ("fault", None),
        ("conducted", 2),
    ]
    assert report(one.folder) == []


def test_a_tool_of_the_bus_that_hangs_is_a_reason_and_the_summary_names_it(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "AGAIN", (0.0, 0.0))
    one = world()
    hung = subprocess.TimeoutExpired("rabbitmqctl", 30)
    one.node.alarm.side_effect = [hung, hung, hung, None]
    one.conductor.perform([Planned(0.0, "memory-alarm", "bus", 0.0)])
    assert "timed out after 30 seconds" in one.events()[0]["reason"]
    # it is ended nevertheless: nobody knows what the tool has done
    assert one.calls() == ["alarm memory True", *["alarm memory False"] * 3]
    out = io.StringIO()
    assert report(one.folder, out) == []
    assert "router, seed 1: 0 of 1 faults made, 0 violations" in out.getvalue()
    (not_made,) = json.loads((one.folder / "summary.json").read_text())["not made"]
    assert (not_made["kind"], not_made["target"]) == ("memory-alarm", "bus")


def test_a_fault_that_does_not_end_is_an_error(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "AGAIN", (0.0, 0.0))
    one = world()
    one.node.alarm.side_effect = [None, *[RuntimeError("no such node")] * 3]
    assert one.strike("disk-alarm")["error"] == "RuntimeError('no such node')"


def test_kinds_that_this_machine_cannot_make_are_named() -> None:
    assert faults.without_target(["reset", "disk-full"], {"way": ["a"], "spooling": []}) == {
        "disk-full": "nothing to strike: spooling"
    }


def report(folder: Path, out: io.StringIO | None = None) -> list[checker.Violation]:
    """What the command says of the history."""
    (folder / "run.json").write_text('{"bus": "router", "seed": 1}')
    return run.report(folder, out or io.StringIO())
