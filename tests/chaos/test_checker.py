# SPDX-License-Identifier: Apache-2.0
"""The checker finds each kind of violation in a history made by hand, and none in a good one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos import checker, history
from tests.chaos.promises import PROMISES, Promise

STORED = Promise(kept=frozenset({"cast", "notify"}))
FORGETFUL = Promise(kept=frozenset({"cast", "notify"}), marks_kept=False)
IN_MEMORY = Promise(kept=frozenset(), kept_by_node=frozenset({"cast", "notify"}))


def event(t: float, name: str, p: str = "client-1", **fields: Any) -> history.Event:
    return {"t": t, "p": p, "e": name, **fields}


def sent(
    key: str = "a",
    kind: str = "cast",
    at: float = 1.0,
    end: str | None = "ok",
    seconds: float = 0.1,
    limit: float = 2.0,
) -> list[history.Event]:
    """A message, and how its sender fared."""
    events = [event(at, "invoke", id=key, k=kind, limit=limit)]
    if end is not None:
        events.append(event(at + seconds, end, id=key, k=kind, error="e"))
    return events


def received(
    t: float = 1.05, key: str = "a", p: str = "server-1", again: bool = False
) -> history.Event:
    return event(t, "received", p, id=key, again=again)


def fault(
    kind: str, began: float, until: float, target: str = "bus", **fields: Any
) -> history.Event:
    return event(
        until, "fault", "conductor", kind=kind, target=target, began=began, until=until, **fields
    )


def found(events: list[history.Event], promise: Promise = STORED) -> list[tuple[str, str]]:
    return [(one.rule, one.what) for one in checker.check(events, promise)]


def test_what_a_run_waits_for_at_its_end() -> None:
    missing = sent("a", "cast")
    assert [(one.rule, one.what) for one in checker.lost(missing, STORED)] == [
        (one.rule, one.what) for one in checker.check(missing, STORED)
    ]
    assert len(checker.lost(missing, STORED)) == 1
    assert checker.lost([*missing, received()], STORED) == []
    # received twice is a violation, but no reason to wait
    twice = [*missing, received(), received(1.5, p="server-2")]
    assert checker.lost(twice, STORED) == []
    assert len(checker.check(twice, STORED)) == 1


def test_a_good_history() -> None:
    events = [
        *sent("a", "cast"),
        received(key="a"),
        event(1.06, "executed", "server-1", id="a"),
        *sent("b", "call", end="info", seconds=2.4),
        *sent("c", "notify", end="info"),
        *sent("d", "fanout"),
        received(1.05, "d", "server-1"),
        received(1.05, "d", "server-2"),
        event(2.0, "log", "server-1", logger="amqp1_driver.x", lines=100),
        event(3.0, "probe", of="call server-1", ok=True),
        event(4.0, "memory", "client-1", phase="before", rss=10**7, descriptors=8, threads=4),
        event(5.0, "memory", "client-1", phase="after", rss=2 * 10**7, descriptors=8, threads=4),
        event(6.0, "closed", "client-1", left=[]),
        fault("reset", 1.0, 1.0, "client-1"),
    ]
    assert found(events) == []


# -- callers ---------------------------------------------------------------------------------


def test_a_caller_past_its_deadline() -> None:
    assert found([*sent(end="info", seconds=2.501), received()]) == [
        ("late", "a ended 0.501 s after its deadline, of which the machine was 0.000 s late")
    ]


def test_a_caller_within_the_slack() -> None:
    assert found([*sent(end="info", seconds=2.499), received()]) == []


def test_a_success_past_the_deadline_is_late_too() -> None:
    assert found([*sent(seconds=2.6), received()])[0][0] == "late"


def test_a_machine_that_stood_still_at_the_deadline_is_allowed_for() -> None:
    # from 3.0 to 4.0; the deadline was at 3.0
    late = event(4.0, "late", "watchdog", of=None, by=1.0)
    assert found([*sent(end="info", seconds=3.4), received(), late]) == []
    assert found([*sent(end="info", seconds=3.6), received(), late]) == [
        ("late", "a ended 1.600 s after its deadline, of which the machine was 1.000 s late")
    ]


def test_a_machine_that_stood_still_before_the_deadline_is_no_excuse() -> None:
    late = event(2.9, "late", "watchdog", of=None, by=1.0)
    assert found([*sent(end="info", seconds=2.6), received(), late]) == [
        ("late", "a ended 0.600 s after its deadline, of which the machine was 0.000 s late")
    ]


def test_a_process_that_the_machine_let_wait_is_allowed_for() -> None:
    def late(of: str) -> history.Event:
        return event(4.0, "late", "watchdog", of=of, by=1.0)

    assert found([*sent(end="info", seconds=3.4), received(), late("client-1")]) == []
    assert found([*sent(end="info", seconds=3.4), received(), late("client-2")])[0][0] == "late"


def test_the_machines_lateness_counts_once_and_as_far_as_it_overlaps() -> None:
    lateness = checker.Lateness(
        [
            event(4.0, "late", of=None, by=1.0),
            event(3.75, "late", of="a", by=0.5),
            event(6.0, "late", of="a", by=0.5),
        ]
    )
    assert lateness.between("a", 3.5, 5.75) == pytest.approx(0.75)
    assert lateness.between("a.fork1", 3.5, 5.75) == pytest.approx(0.75)
    assert lateness.between("b", 3.5, 5.75) == pytest.approx(0.5)
    assert lateness.between("a", 4.0, 5.5) == 0.0
    assert lateness.between("a", 3.25, 3.5) == pytest.approx(0.25)


def test_a_caller_that_never_ends() -> None:
    assert found([*sent(end=None), received()]) == [("hung", "a has not ended")]


def test_an_error_that_no_caller_expects() -> None:
    assert found([*sent(end="fail"), received()]) == [("strange", "a: e")]


def test_a_subscription_that_stays_away() -> None:
    assert found([event(3.0, "probe", of="call server-1", ok=False)]) == [
        ("deaf", "client-1 does not reach call server-1")
    ]


# -- messages --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cast", "notify"])
def test_an_acknowledged_message_that_reached_nobody(kind: str) -> None:
    assert found(sent(kind=kind)) == [("lost", "a was acknowledged and has reached no server")]


@pytest.mark.parametrize("kind", ["call", "fanout"])
def test_what_no_bus_promises_may_be_lost(kind: str) -> None:
    assert found(sent(kind=kind)) == []


def test_what_was_not_acknowledged_may_be_lost() -> None:
    assert found(sent(end="info")) == []


def test_a_deleted_queue_excuses_as_many_as_it_held() -> None:
    events = [*sent("a"), *sent("b"), *sent("c"), fault("delete-queues", 1.5, 1.6, messages=2)]
    assert found(events) == [("lost", "c was acknowledged and has reached no server")]


def test_a_deleted_queue_does_not_excuse_what_was_sent_later() -> None:
    events = [*sent("a", at=2.0), fault("delete-queues", 1.5, 1.6, messages=2)]
    assert found(events) == [("lost", "a was acknowledged and has reached no server")]


def test_two_deletions_do_not_excuse_the_same_message() -> None:
    events = [
        *sent("a"),
        *sent("b", at=3.0),
        *sent("c", at=3.0),
        fault("delete-queues", 1.5, 1.6, messages=1),
        fault("delete-queues", 4.0, 4.1, messages=1),
    ]
    assert found(events) == [("lost", "c was acknowledged and has reached no server")]


def test_a_bus_in_memory_may_lose_what_it_held_when_it_was_killed() -> None:
    kill = fault("bus-kill", 1.5, 1.6)
    assert found([*sent(), kill], IN_MEMORY) == []
    assert found([*sent(at=2.0), kill], IN_MEMORY) == [
        ("lost", "a was acknowledged and has reached no server")
    ]
    assert found([*sent(), kill], STORED) == [
        ("lost", "a was acknowledged and has reached no server")
    ]


def test_a_changed_password_that_took_a_restart_counts_as_a_kill() -> None:
    assert found([*sent(), fault("password", 1.5, 1.6, restarts=True)], IN_MEMORY) == []
    assert found([*sent(), fault("password", 1.5, 1.6, restarts=False)], IN_MEMORY) != []


def test_a_second_delivery_without_a_mark() -> None:
    assert found([*sent(), received(1.05), received(1.2, p="server-2")]) == [
        ("twice", "a came 2 times without a mark")
    ]


def test_a_second_delivery_with_a_mark() -> None:
    assert found([*sent(), received(1.05), received(1.2, p="server-2", again=True)]) == []


def test_a_second_delivery_of_what_is_in_doubt_needs_a_mark_too() -> None:
    assert found([*sent(end="info"), received(1.05), received(1.2)]) == [
        ("twice", "a came 2 times without a mark")
    ]


def test_a_fanout_comes_once_to_each_server() -> None:
    events = [*sent(kind="fanout"), received(p="server-1"), received(p="server-2")]
    assert found(events) == []
    assert found([*events, received(1.2, p="server-1+2")]) == [
        ("twice", "a came 2 times without a mark")
    ]


def test_marks_that_a_bus_forgot_when_it_was_killed() -> None:
    events = [*sent(), received(1.05), fault("bus-kill", 1.5, 1.6), received(2.0)]
    assert found(events, FORGETFUL) == []
    assert found(events, STORED) == [("twice", "a came 2 times without a mark")]
    # not if it was killed before or after both
    assert found(
        [*sent(), received(1.05), received(1.2), fault("bus-kill", 1.5, 1.6)], FORGETFUL
    ) == [("twice", "a came 2 times without a mark")]


def test_a_bus_that_makes_no_mark_when_a_connection_is_lost() -> None:
    careless = Promise(kept=frozenset({"cast"}), marks_lost_links=False)

    def twice(*faults: history.Event) -> list[tuple[str, str]]:
        return found([*sent(), received(1.05), received(1.2, p="server-2"), *faults], careless)

    assert twice(fault("reset", 1.04, 1.04, "server-1")) == []
    assert twice(fault("bus-stop", 1.1, 1.15)) == []
    assert twice() == [("twice", "a came 2 times without a mark")]
    assert twice(fault("reset", 1.04, 1.04, "server-2")) != []
    assert twice(fault("reset", 1.3, 1.3, "server-1")) != []


def test_a_message_that_nobody_has_sent() -> None:
    assert found([received()]) == [("phantom", "a was never sent")]


# -- processes -------------------------------------------------------------------------------


def test_what_a_process_leaves() -> None:
    assert found([event(9.0, "closed", left=["thread x", "fd 7 y"])]) == [
        ("left", "client-1 leaves thread x, fd 7 y")
    ]


def test_a_process_that_grows() -> None:
    def memory(phase: str, size: int) -> history.Event:
        return event(1.0 if phase == "before" else 9.0, "memory", phase=phase, rss=size)

    assert found([memory("before", 10 << 20), memory("after", 42 << 20)]) == []
    assert found([memory("before", 10 << 20), memory("after", 43 << 20)]) == [
        ("left", "client-1 has grown by 33.0 MiB")
    ]
    # of a process that began later there is nothing to compare with
    assert found([memory("after", 43 << 20)]) == []


def test_too_many_lines_in_any_minute() -> None:
    def lines(t: float, count: int) -> history.Event:
        return event(t, "log", logger="amqp1_driver.x", lines=count)

    assert found([lines(10.0, 60), lines(40.0, 40), lines(70.0, 60)]) == []
    assert found([lines(10.0, 60), lines(40.0, 40), lines(69.9, 1)]) == [
        ("noisy", "client-1 wrote 101 lines in a minute: {'amqp1_driver.x': 101}")
    ]
    assert checker.worst_minute([lines(10.0, 60), lines(40.0, 40), lines(70.0, 61)]) == (101, 40.0)


def test_a_process_that_died_by_itself() -> None:
    assert found([event(9.0, "died", "conductor", of="server-1", error="it ended")]) == [
        ("died", "server-1: it ended")
    ]


# -- faults ----------------------------------------------------------------------------------


def conducted(unbegun: int = 0, **planned: int) -> history.Event:
    return event(9.0, "conducted", "conductor", planned=planned, unbegun=unbegun)


def test_a_fault_in_which_the_program_that_makes_it_failed() -> None:
    failed = fault("deaf", 1.0, 1.0, "client-1", error="AttributeError('x')")
    assert found([failed, conducted(deaf=1)]) == [
        ("unmade", "deaf on client-1 failed: AttributeError('x')")
    ]


def test_planned_faults_that_are_not_there() -> None:
    events = [fault("reset", 1.0, 1.0), fault("deaf", 1.0, 2.0)]
    assert found([*events, conducted(deaf=1, reset=1)]) == []
    assert found([*events, conducted(deaf=3, reset=1, unbegun=2)]) == []
    assert found([*events, conducted(deaf=3, reset=1, unbegun=1)]) == [
        (
            "unmade",
            "of 4 planned faults 2 are not in the history (1 were not to begin): {'deaf': 2}",
        )
    ]


def test_a_fault_that_could_not_be_made_with_a_reason_is_no_violation() -> None:
    refused = fault("memory-alarm", 1.0, 31.0, reason="the bus' own tool: timed out")
    assert found([refused, conducted(**{"memory-alarm": 1})]) == []


def test_a_run_that_is_over_says_what_was_planned() -> None:
    assert [one.rule for one in checker.unfinished([fault("reset", 1.0, 1.0)])] == ["unmade"]
    assert checker.unfinished([conducted(reset=1)]) == []


# -- what is shown ---------------------------------------------------------------------------


def test_the_minimal_history_has_the_message_and_the_faults_around_it() -> None:
    faults = [
        fault("freeze", 0.5, 40.0, "client-1"),
        fault("bus-stop", 0.9, 1.0),
        fault("reset", 1.02, 1.02, "server-1"),
        fault("reset", 8.0, 8.0, "client-1"),
    ]
    (violation,) = checker.check([*sent(), *sent("b"), received(1.01, "b"), *faults], STORED)
    assert violation.rule == "lost"
    assert checker.minimal(violation, faults) == [*faults[:2], *sent()]


def test_a_history_is_read_back_in_the_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"t": 2.0, "p": "a", "e": "x"}\n{"t": 3.0, "p"')
    (tmp_path / "b.jsonl").write_text('{"t": 1.0, "p": "b", "e": "y"}\n')
    assert [one["t"] for one in history.load(tmp_path)] == [1.0, 2.0]


def test_of_a_history_that_is_being_written_the_end_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "time", SimpleNamespace(monotonic=lambda: 100.0))
    events = [
        *sent("old", at=79.0, end=None),
        *sent("a", at=85.0),
        received(85.1, "a"),
        *sent("open", at=89.0, end=None),
        received(89.5, "open"),
        received(91.0, "late"),
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    seen = history.load(tmp_path, running=True)
    assert [(one["e"], one["id"]) for one in seen] == [
        ("invoke", "old"),
        ("invoke", "a"),
        ("ok", "a"),
        ("received", "a"),
    ]
    assert [(rule, what) for rule, what in found(seen)] == [("hung", "old has not ended")]
    assert len(history.load(tmp_path)) == len(events)


def test_every_bus_has_a_promise() -> None:
    assert set(PROMISES) == {"router", "broker", "rabbitmq-4.0", "rabbitmq-4.3", "artemis"}
