# SPDX-License-Identifier: Apache-2.0
"""What each kind of fault does; see `schedule.FAULTS` for their names."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.bars.workers import WorkerError
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


class Conductor:
    """Has the faults of a plan happen: those on one target one after another.

    :param seed: of what the plan leaves open
    """

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        self.done = 0

    def perform(self, plan: list[Planned], stop: threading.Event = _never) -> None:
        """Return when all faults are over; none begins after the event is set."""
        by_target: dict[str, list[Planned]] = {}
        for one in plan:
            by_target.setdefault(one.target, []).append(one)
        start = time.monotonic()
        threads = [
            threading.Thread(target=self._run, args=(faults, start, stop), name=target)
            for target, faults in by_target.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self, faults: list[Planned], start: float, stop: threading.Event) -> None:
        for one in faults:
            if stop.wait(max(0.0, start + one.at - time.monotonic())):
                return
            self.strike(one)

    def strike(self, one: Planned) -> None:
        """Have one fault happen, and note it."""
        began = time.monotonic()
        try:
            if one.target == "bus":
                with self._stage.node_lock:
                    detail = self._on_bus(one)
            else:
                member = self._stage.members[one.target]
                with member.lock:
                    detail = self._on_member(one, member)
        except (RuntimeError, WorkerError, OSError, subprocess.SubprocessError) as error:
            detail = {"error": repr(error)[:500]}
        self._stage.history.add(
            "fault",
            kind=one.kind,
            target=one.target,
            began=round(began, 6),
            until=round(time.monotonic(), 6),
            **detail,
        )
        with self._lock:
            self.done += 1

    # -- on the bus ---------------------------------------------------------------

    def _on_bus(self, one: Planned) -> Detail:
        node = self._stage.node
        if one.kind == "bus-stop":
            node.signal("STOP")
            try:
                _never.wait(one.hold)
            finally:
                node.signal("CONT")
        elif one.kind == "bus-kill":
            node.kill()
            _never.wait(one.hold)
            node.start()
        elif one.kind == "password":
            node.change_password(False)
            try:
                with contextlib.suppress(NotImplementedError):
                    node.close_connections()
                _never.wait(one.hold)
            finally:
                node.change_password(True)
            return {"restarts": self._stage.bus in _EMBEDDED}
        elif one.kind == "close-connections":
            node.close_connections()
        elif one.kind == "delete-queues":
            return {"messages": node.delete_queues()}
        else:
            alarm = one.kind.removesuffix("-alarm")
            node.alarm(alarm, True)
            try:
                _never.wait(one.hold)
            finally:
                node.alarm(alarm, False)
        return {}

    # -- on a process or its connections ------------------------------------------

    def _on_member(self, one: Planned, member: Member) -> Detail:
        name = one.kind.removeprefix(f"{member.role}-").replace("-", "_")
        method: Callable[[Member, float], Detail | None] = getattr(self, f"_{name}")
        return method(member, one.hold) or {}

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

    def _loop_died(self, member: Member, hold: float) -> None:
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
        beside = threading.Timer(0.1, member.proxy.cut)
        beside.start()
        member.do("starve", within=hold + 30, seconds=hold)
        beside.join()

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
