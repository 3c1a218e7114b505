# SPDX-License-Identifier: Apache-2.0
"""What each kind of fault does; see `schedule.FAULTS` for their names."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.chaos.schedule import FAULTS, Planned
from tests.chaos.stage import Member, Stage

Detail = dict[str, Any]
_EMBEDDED = frozenset({"router", "broker"})
_RABBITMQ = frozenset({"rabbitmq-4.0", "rabbitmq-4.3"})
#: kinds that only some buses know
ON = {
    "password": _EMBEDDED | _RABBITMQ,
    "close-connections": _RABBITMQ,
    "memory-alarm": _RABBITMQ,
    "disk-alarm": _RABBITMQ,
    "delete-queues": _RABBITMQ,
}
#: pauses before the bus' own tool is tried again to end a fault, seconds
AGAIN = (2.0, 5.0)
JUMPS = (-86400, -3600, -60, 60, 3600, 86400)
_never = threading.Event()


def kinds_on(bus: str) -> list[str]:
    """The kinds of faults that there are on a bus."""
    return [kind for kind in FAULTS if bus in ON.get(kind, {bus})]


def targets(members: Iterable[Member]) -> dict[str, list[str]]:
    """What there is to strike, as `schedule.plan` wants it."""
    members = list(members)
    return {
        "way": [one.name for one in members],
        "server": [one.name for one in members if one.role == "server"],
        "listener": [one.name for one in members if one.role == "listener"],
        "client": [one.name for one in members if one.role == "client"],
        # libfaketime's own lock may be held when a process forks: the child then hangs in it
        "forking": [one.name for one in members if one.role == "client" and one.clock is None],
        "clocked": [one.name for one in members if one.clock is not None],
        "spooling": [one.name for one in members if one.disk is not None],
        "bus": ["bus"],
    }


def without_target(kinds: Iterable[str], found: dict[str, list[str]]) -> dict[str, str]:
    """The kinds that no plan has on this machine, and what they miss."""
    return {
        kind: f"nothing to strike: {FAULTS[kind][0]}"
        for kind in kinds
        if not found.get(FAULTS[kind][0])
    }


class NotMade(Exception):
    """The bus' own tool did not do its part; no fault of the driver and none of the program."""


class Conductor:
    """Has the faults of a plan happen: those on one target one after another.

    A fault that could not be made is in the history with ``reason``. One in which this program
    itself failed is there with ``error``; `checker` takes that for a violation, as it takes a
    plan of which faults are missing.

    :param seed: of what the plan leaves open
    """

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        self._on_bus: dict[str, Callable[[float], Detail | None]] = {
            "bus-stop": self._stop_bus,
            "bus-kill": self._kill_bus,
            "password": self._password,
            "close-connections": self._close_connections,
            "memory-alarm": lambda hold: self._alarm("memory", hold),
            "disk-alarm": lambda hold: self._alarm("disk", hold),
            "delete-queues": self._delete_queues,
        }
        self._on_member: dict[str, Callable[[Member, float], Detail | None]] = {
            "reset": self._reset,
            "refuse": self._refuse,
            "half-open": self._half_open,
            "freeze": self._freeze,
            "deaf": self._deaf,
            "mute": self._mute,
            "delay": self._delay,
            "throttle": self._throttle,
            "server-stop": self._stop,
            "server-kill": self._kill,
            "server-restart": self._restart,
            "listener-stop": self._stop,
            "listener-kill": self._kill,
            "listener-restart": self._restart,
            "fork": self._fork,
            "no-descriptors": self._no_descriptors,
            "disk-full": self._disk_full,
            "clock-jump": self._clock_jump,
        }

    @property
    def kinds(self) -> set[str]:
        """The faults that it can make."""
        return {*self._on_bus, *self._on_member}

    def perform(self, plan: Sequence[Planned], stop: threading.Event = _never) -> None:
        """Return when all faults are over; none begins after the event is set.

        :raises KeyError: the plan has a kind that there is not; before the first fault
        """
        for unknown in {one.kind for one in plan} - self.kinds:
            raise KeyError(unknown)
        by_target: dict[str, list[Planned]] = {}
        for one in plan:
            by_target.setdefault(one.target, []).append(one)
        start = time.monotonic()
        with ThreadPoolExecutor(max(1, len(by_target))) as pool:
            runs = [pool.submit(self._run, faults, start, stop) for faults in by_target.values()]
        self._stage.history.add(
            "conducted",
            planned=dict(Counter(one.kind for one in plan)),
            unbegun=sum(run.result() for run in runs),
        )

    def _run(self, faults: list[Planned], start: float, stop: threading.Event) -> int:
        """Make the faults on one target; how many the event has kept from beginning."""
        for number, one in enumerate(faults):
            if stop.wait(max(0.0, start + one.at - time.monotonic())):
                return len(faults) - number
            self.strike(one)
        return 0

    def strike(self, one: Planned) -> None:
        """Have one fault happen, and note it, also if it fails."""
        began = time.monotonic()
        try:
            if one.target == "bus":
                with self._stage.node_lock:
                    detail = self._on_bus[one.kind](one.hold)
            else:
                member = self._stage.members[one.target]
                with member.lock:
                    detail = self._on_member[one.kind](member, one.hold)
        except NotMade as error:
            detail = {"reason": str(error)}
        except Exception as error:
            detail = {"error": repr(error)[:500]}
        self._stage.history.add(
            "fault",
            kind=one.kind,
            target=one.target,
            began=round(began, 6),
            until=round(time.monotonic(), 6),
            **(detail or {}),
        )

    # -- on the bus ---------------------------------------------------------------

    def _stop_bus(self, hold: float) -> None:
        self._stage.node.signal("STOP")
        try:
            _never.wait(hold)
        finally:
            self._stage.node.signal("CONT")

    def _kill_bus(self, hold: float) -> None:
        self._stage.node.kill()
        _never.wait(hold)
        self._stage.node.start()

    def _password(self, hold: float) -> Detail:
        node = self._stage.node
        try:
            _by_tool(node.change_password, False)
            with contextlib.suppress(NotImplementedError):
                _by_tool(node.close_connections)
            _never.wait(hold)
        finally:
            _surely(node.change_password, True)
        return {"restarts": self._stage.bus in _EMBEDDED}

    def _close_connections(self, hold: float) -> None:
        _by_tool(self._stage.node.close_connections)

    def _delete_queues(self, hold: float) -> Detail:
        return {"messages": _by_tool(self._stage.node.delete_queues)}

    def _alarm(self, kind: str, hold: float) -> None:
        try:
            _by_tool(self._stage.node.alarm, kind, True)
            _never.wait(hold)
        finally:
            _surely(self._stage.node.alarm, kind, False)

    # -- on a process or its connections ------------------------------------------

    def _reset(self, member: Member, hold: float) -> None:
        member.proxy.cut()

    def _refuse(self, member: Member, hold: float) -> None:
        member.proxy.refuse()
        member.proxy.cut()
        _never.wait(hold)
        member.proxy.accept_again()

    def _half_open(self, member: Member, hold: float) -> None:
        member.proxy.abandon()

    def _freeze(self, member: Member, hold: float) -> None:
        member.proxy.freeze()
        _never.wait(hold)
        member.proxy.thaw()

    def _deaf(self, member: Member, hold: float) -> None:
        member.proxy.freeze("down")
        _never.wait(hold)
        member.proxy.thaw("down")

    def _mute(self, member: Member, hold: float) -> None:
        member.proxy.freeze("up")
        _never.wait(hold)
        member.proxy.thaw("up")

    def _delay(self, member: Member, hold: float) -> Detail:
        with self._lock:
            seconds = round(self._rng.uniform(0.02, 0.5), 3)
        member.proxy.delay(seconds)
        _never.wait(hold)
        member.proxy.delay(0.0)
        return {"seconds": seconds}

    def _throttle(self, member: Member, hold: float) -> Detail:
        with self._lock:
            rate = self._rng.choice((500, 2000, 8000))
        member.proxy.throttle(rate)
        _never.wait(hold)
        member.proxy.throttle(0)
        return {"rate": rate}

    def _stop(self, member: Member, hold: float) -> None:
        member.signal(signal.SIGSTOP)
        try:
            _never.wait(hold)
        finally:
            member.signal(signal.SIGCONT)

    def _kill(self, member: Member, hold: float) -> Detail:
        ended = member.incarnation
        member.kill()
        _never.wait(hold)
        member.start()
        return {"ended": ended}

    def _restart(self, member: Member, hold: float) -> None:
        member.do("stop", within=60.0)
        _never.wait(hold)
        member.serve()

    def _fork(self, member: Member, hold: float) -> Detail:
        return {"ended": member.do("fork", within=60.0, calls=3)}

    def _no_descriptors(self, member: Member, hold: float) -> None:
        starved = member.begin("starve", seconds=hold)
        _never.wait(0.1)
        member.proxy.cut()
        starved.result(hold + 30)

    def _disk_full(self, member: Member, hold: float) -> None:
        assert member.disk is not None
        ballast = member.disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
        _never.wait(hold)
        ballast.unlink()

    def _clock_jump(self, member: Member, hold: float) -> Detail:
        with self._lock:
            offset = self._rng.choice(JUMPS)
        member.set_clock(offset)
        _never.wait(hold)
        member.set_clock(0)
        return {"seconds": offset}


def _by_tool(make: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of the node that needs the bus' own tool.

    :raises NotMade: the tool failed, or did not end in time
    """
    try:
        return make(*arguments)
    except (RuntimeError, subprocess.SubprocessError) as error:
        if isinstance(error, NotImplementedError):
            raise
        raise NotMade(f"the bus' own tool: {str(error)[-300:]}") from error


def _surely(end: Callable[..., Any], *arguments: Any) -> None:
    """End a fault; a second and a third time if the tool fails, else all later faults mean less.

    :raises Exception: of the last time
    """
    for pause in AGAIN:
        try:
            end(*arguments)
        except (RuntimeError, subprocess.SubprocessError):
            _never.wait(pause)
        else:
            return
    end(*arguments)
