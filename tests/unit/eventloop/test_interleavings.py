# SPDX-License-Identifier: Apache-2.0


"""The loop, callers that serve themselves and all others under many schedules.

Each acquire, release and system call is a switch point, in the fine form each line too. The seed of
a schedule that fails is in the error.
"""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.eventloop.interleaved import TIMEOUT, Injected, World, explore
from tests.unit.eventloop.scheduler import Search, Walk

LONG = os.environ.get("AMQP1_LONG") == "1"


def chance(world: World) -> random.Random:
    """A scenario's own decisions; the same ones in a search."""
    return random.Random(getattr(world.scheduler.strategy, "seed", 1))


def healthy(world: World) -> None:
    assert not world.log.lines, world.log.lines


# -- scenarios -------------------------------------------------------------------------------


def resets(world: World) -> None:
    """Connections are reset or end while two threads call."""
    rng = chance(world)
    world.reconnect = rng.choice((None, 0.01))
    world.ticks = rng.choice((None, 0.004, 1.0))
    world.room = rng.choice((1, 100))
    actions = rng.choices(("answer", "reset", "end"), (3, 2, 1), k=6)
    world.run(world.caller(2), world.caller(2), world.peer(*actions))
    healthy(world)
    assert not world.ends["failed"] + world.ends["refused"]


def one_reset(world: World, callers: int) -> None:
    """The smallest of them, for a search."""
    world.run(*(world.caller(1) for _ in range(callers)), world.peer("reset"))
    healthy(world)


def unsent(world: World) -> None:
    """The connection is reset before anything is written: nothing is in doubt, and all is sent."""

    def peer() -> None:
        world.scheduler.block(lambda: world.over or world.connection is not None)
        world.scheduler.point()
        sock = world.connection
        if sock is not None and not sock.sent:
            sock.reset = True

    world.run(world.caller(1), world.caller(1), peer, world.peer())
    healthy(world)
    assert world.ends["lost"] + world.ends["answered"] == 2


def dies(world: World) -> None:
    """An operation raises, on whichever thread runs it: all calls end, at once."""
    rng = chance(world)

    def killer() -> None:
        world.loop.put(world.raises, world.operation(), TIMEOUT, rng.random() < 0.5)

    world.run(world.caller(2), world.caller(2), world.peer("answer", "answer"), killer, stop=False)
    assert world.log.lines == ["event loop test died: Injected()"]
    assert world.scheduler.now < 1000 + TIMEOUT


def stops(world: World) -> None:
    """Another thread stops the loop meanwhile."""

    def stopper() -> None:
        if not world.loop.stop(TIMEOUT):
            world.wrong.append("it does not stop")

    world.run(world.caller(2), world.caller(2), world.peer("answer", "reset"), stopper)
    healthy(world)
    assert world.scheduler.now < 1000 + TIMEOUT


def posts(world: World) -> None:
    """All operations run, once, and those of a thread in their order, among callers."""
    ran: list[tuple[int, int]] = []

    def poster(name: int) -> Callable[[], None]:
        def post() -> None:
            rng = random.Random(name)
            for n in range(4):
                how = rng.choice(("post", "lazily", "put", "alone"))
                note = (name, n)
                if how == "alone":
                    world.loop.put(take, note, None, True)
                elif how == "put":
                    world.loop.put(take, note)
                elif how == "lazily":
                    world.loop.mailbox.post(take, note, lazily=True)
                else:
                    world.loop.post(take, note)

        return post

    def take(note: tuple[int, int]) -> None:
        world.alone()
        ran.append(note)

    world.run(poster(1), poster(2), world.caller(1), world.peer())
    healthy(world)
    assert sorted(ran) == [(name, n) for name in (1, 2) for n in range(4)]
    for name in (1, 2):
        assert [n for who, n in ran if who == name] == list(range(4))
    assert world.scheduler.now < 1000 + TIMEOUT


def timers(world: World) -> None:
    """A timer fires in time, whoever set it and however many were cancelled before."""
    due: list[float] = []

    def plan(count: int) -> None:
        loop = world.loop
        for timer in [loop.call_later(60, Injected) for _ in range(count)]:
            timer.cancel()
        when = loop.now() + 0.5
        loop.call_at(when, lambda: due.append(loop.now() - when))

    def planner() -> None:
        done: list[object] = []
        world.loop.post(lambda _: done.append(world.loop.call_later(1, list)))
        world.scheduler.block(lambda: bool(done))
        world.loop.put(plan, 80, None, True)
        world.scheduler.block(lambda: len(due) == 1, world.scheduler.now + TIMEOUT)

    world.run(planner, world.caller(1), world.peer())
    healthy(world)
    assert due == [0.0]


def gives_up(world: World) -> None:
    """Deadlines pass at any moment: a call has an answer or has none, and its caller is told."""
    world.run(world.caller(3, 0.5), world.caller(3, 0.25), world.peer("answer", "reset"))
    healthy(world)
    assert sum(world.ends.values()) - world.ends["too late"] == 6


SCENARIOS: dict[str, tuple[Callable[[World], Any], dict[str, Any]]] = {
    "resets": (resets, {}),
    "unsent": (unsent, {}),
    "dies": (dies, {}),
    "stops": (stops, {}),
    "posts": (posts, {}),
    "posts into a small mailbox": (posts, {"size": 1}),
    "timers": (timers, {}),
    "gives up": (gives_up, {"jumps": 0.05}),
}


@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.parametrize("name", SCENARIOS)
def test_all_holds_under_many_schedules(name: str) -> None:
    scenario, options = SCENARIOS[name]
    size, jumps = options.get("size", 100), options.get("jumps", 0.0)
    coarse, fine = (10_000, 2_000) if LONG else (150, 25)
    explore((Walk(seed, jumps=jumps) for seed in range(coarse)), scenario, size=size)
    explore((Walk(seed, jumps=jumps) for seed in range(fine)), scenario, True, size)


@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.parametrize(
    ("callers", "preemptions", "least"), [(1, 2, 10_000), (2, 1, 40_000)] if LONG else [(1, 1, 800)]
)
def test_all_holds_under_all_schedules_with_few_preemptions(
    callers: int, preemptions: int, least: int
) -> None:
    count, _, _ = explore(Search(preemptions).schedules(), lambda world: one_reset(world, callers))
    assert count >= least
