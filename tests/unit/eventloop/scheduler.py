# SPDX-License-Identifier: Apache-2.0


"""A scheduler for tests: it runs one thread at a time and picks the next at each switch point.

A schedule is the list of its decisions. :class:`Walk` makes it from a seed, :class:`Search` goes
through all with few preemptions, so that each failure can be run again.
"""

import random
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol

#: more than any schedule needs: a thread that spins is found by it
STEPS = 30_000
#: seconds for one schedule; never reached when all is well
PATIENCE = 60.0


class Violation(AssertionError):
    """A schedule has shown a defect."""


class Torn(BaseException):
    """Unwind the threads of a schedule that is given up."""


class Task:
    """One thread under the scheduler."""

    def __init__(self, name: str, ident: int, work: Callable[[], object]) -> None:
        self.name = name
        self.ident = ident
        self.work = work
        self.turn = threading.Semaphore(0)
        #: what the thread waits for; None: it can go on
        self.ready: Callable[[], bool] | None = None
        self.until: float | None = None
        self.started = False
        self.over = False


class Strategy(Protocol):
    """Decides."""

    def choose(self, enabled: list[Task], current: Task) -> Task:
        """Pick the thread that goes on."""

    def jump(self) -> bool:
        """Whether the clock moves to the next deadline although threads can go on."""


class Walk:
    """Decide at random, from a seed.

    :param switches: the odds of a switch at a point; by the seed, if they are not given
    :param jumps: the odds that the clock moves
    """

    def __init__(self, seed: int, switches: float | None = None, jumps: float = 0.0) -> None:
        self.seed = seed
        self._rng = random.Random(seed)
        self._switches = switches or self._rng.choice((0.03, 0.1, 0.3, 0.7))
        self._jumps = jumps

    def choose(self, enabled: list[Task], current: Task) -> Task:
        if current in enabled and self._rng.random() >= self._switches:
            return current
        return self._rng.choice(enabled)

    def jump(self) -> bool:
        return self._jumps > 0 and self._rng.random() < self._jumps


class Search:
    """Go through all schedules with at most ``bound`` preemptions, depth first.

    A switch is a preemption if the current thread could have gone on.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._prefix: list[int] = []
        self._trail: list[tuple[int, int]] = []  # (number of options, the one taken)
        self._preemptions = 0

    def choose(self, enabled: list[Task], current: Task) -> Task:
        able = current in enabled
        options = [current] if able else []
        if not able or self._preemptions < self._bound:
            options += [task for task in enabled if task is not current]
        if len(options) == 1:
            return options[0]
        depth = len(self._trail)
        taken = self._prefix[depth] if depth < len(self._prefix) else 0
        self._trail.append((len(options), taken))
        self._preemptions += able and taken > 0
        return options[taken]

    def jump(self) -> bool:
        return False

    def schedules(self) -> Iterator["Search"]:
        """Itself, once for each schedule."""
        yield self
        while self._next():
            yield self

    def _next(self) -> bool:
        """Go to the next schedule; False after the last one."""
        trail, self._trail, self._preemptions = self._trail, [], 0
        while trail:
            count, taken = trail.pop()
            if taken + 1 < count:
                self._prefix = [choice for _, choice in trail] + [taken + 1]
                return True
        return False


class Scheduler:
    """Runs tasks until all have ended. The clock moves when none can go on.

    :param traced: files in which each line is a switch point too
    """

    def __init__(self, strategy: Strategy, traced: Collection[str] = ()) -> None:
        self.now = 1000.0
        self.steps = 0
        self.errors: list[tuple[str, BaseException]] = []
        self.strategy = strategy
        self._traced = traced
        self._tasks: list[Task] = []
        self._current: Task | None = None
        self._torn: str | None = None
        self._over = threading.Event()

    @property
    def current(self) -> Task:
        """The task that runs."""
        assert self._current is not None
        return self._current

    def spawn(self, name: str, work: Callable[[], object]) -> Task:
        """Add a thread, from a thread that runs or before run()."""
        task = Task(name, 101 + len(self._tasks), work)
        self._tasks.append(task)
        threading.Thread(target=self._body, args=(task,), name=name, daemon=True).start()
        return task

    def run(self, name: str, work: Callable[[], object]) -> None:
        """Run ``work`` and all that it spawns to the end.

        :raises Violation: a deadlock, a thread that spins, or an exception that escaped
        """
        self._current = first = self.spawn(name, work)
        first.turn.release()
        if not self._over.wait(PATIENCE):
            self._tear(f"no end within {PATIENCE} s")
        if self._torn is not None:
            raise Violation(self._torn)
        for name, error in self.errors:
            raise Violation(f"{name} died: {error!r}") from error

    def point(self) -> None:
        """Let another thread go on, perhaps."""
        if self._torn is not None:
            raise Torn
        self.steps += 1
        if self.steps > STEPS:
            self._tear(f"no end after {STEPS} steps, in {self.current.name}")
            raise Torn
        self._switch(self.current)

    def block(self, ready: Callable[[], bool], until: float | None = None) -> bool:
        """Wait for a condition.

        :returns: False: it did not come true before ``until``
        """
        me = self.current
        me.ready, me.until = ready, until
        self._switch(me)
        me.ready = me.until = None
        return ready()

    # -- private ---------------------------------------------------------------------------

    def _enabled(self) -> list[Task]:
        return [
            task
            for task in self._tasks
            if not task.over
            and (
                task.ready is None
                or task.ready()
                or (task.until is not None and task.until <= self.now)
            )
        ]

    def _switch(self, me: Task) -> None:
        if self._torn is not None:
            raise Torn
        enabled = self._enabled()
        if not enabled or self.strategy.jump():
            deadlines = [
                task.until
                for task in self._tasks
                if not task.over and task.ready is not None and task.until is not None
            ]
            if deadlines:
                self.now = max(self.now, min(deadlines))
                enabled = self._enabled()
        if not enabled:
            waiting = [task.name for task in self._tasks if not task.over]
            if not waiting:
                self._over.set()
                return
            self._tear(f"deadlock: {', '.join(waiting)}")
            if me.over:
                return
            raise Torn
        chosen = self.strategy.choose(enabled, me)
        if chosen is me:
            return
        self._current = chosen
        chosen.turn.release()
        if not me.over:
            me.turn.acquire()
            if self._torn is not None:
                raise Torn

    def _tear(self, reason: str) -> None:
        """Give the schedule up."""
        if self._torn is None:
            self._torn = reason
        for task in self._tasks:
            task.turn.release()
        self._over.set()

    def _body(self, task: Task) -> None:
        task.turn.acquire()
        try:
            if self._torn is None:
                if self._traced:
                    sys.settrace(self._trace)
                task.work()
        except Torn:
            pass
        except BaseException as error:
            self.errors.append((task.name, error))
        finally:
            sys.settrace(None)
        task.over = True
        if self._torn is None:
            self._switch(task)

    def _trace(self, frame: Any, event: str, arg: object) -> Any:
        return self._line if frame.f_code.co_filename in self._traced else None

    def _line(self, frame: Any, event: str, arg: object) -> Any:
        if event == "line":
            self.point()
        return self._line


class Lock:
    """threading.Lock under the scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._scheduler.point()
        if self._held and blocking:
            until = None if timeout < 0 else self._scheduler.now + timeout
            self._scheduler.block(lambda: not self._held, until)
        if self._held:
            return False
        self._held = True
        return True

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False
        self._scheduler.point()

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> "Lock":
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Thread:
    """threading.Thread under the scheduler."""

    def __init__(
        self, scheduler: Scheduler, target: Callable[[], object], name: str, daemon: bool
    ) -> None:
        self._scheduler = scheduler
        self._target = target
        self.name = name
        self.daemon = daemon
        self._task: Task | None = None

    def start(self) -> None:
        self._task = self._scheduler.spawn(self.name, self._target)
        self._scheduler.point()

    def join(self, timeout: float | None = None) -> None:
        task = self._task
        if task is None:
            raise RuntimeError("cannot join thread before it is started")
        until = None if timeout is None else self._scheduler.now + timeout
        self._scheduler.block(lambda: task.over, until)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.over


class Threading:
    """The module ``threading``, as far as the event loop uses it."""

    TIMEOUT_MAX = threading.TIMEOUT_MAX

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def Lock(self) -> Lock:
        return Lock(self._scheduler)

    def Thread(self, target: Callable[[], object], name: str, daemon: bool) -> Thread:
        return Thread(self._scheduler, target, name, daemon)

    def get_ident(self) -> int:
        return self._scheduler.current.ident

    def main_thread(self) -> Task:
        """No thread of the schedule."""
        return Task("main", 1, time.monotonic)


class Clock:
    """The module ``time``."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic(self) -> float:
        return self._scheduler.now
