# SPDX-License-Identifier: Apache-2.0

"""Model of cores, processes and the interpreter's lock. Times are simulated microseconds.

A lane runs one batch of work at a time. A Python process has one lane, because of the interpreter's
lock; a router has as many lanes as threads. States of a lane::

    idle --work comes--> waking --latency--> ready --a core is free--> running --+-- no work: idle
                                               ^                                 |
                                               +-- slice over and others ready --+

A lane takes the waiting pieces of work, up to a random number (geometric, of mean ``batch``), and
passes all of them on when the last one is done. An I/O thread does the same: it reads a buffer,
handles the frames in it, and writes. A batch of n pieces with costs s costs processor time
``sum(s * noise) + wake * noise``. The batch holds the core for ``1 + (stretch - 1) * (1 - 1/n)``
times as long: the more threads want the interpreter's lock, the more time its hand-over takes. The
first batch after an idle time costs more, and the more so the longer the idle time was: caches and
translation buffers then hold the data of others, and the core has to leave its sleep. With batches
of 1 and no wake the model is the M/G/c queue; with one lane and a latency it is the M/G/1 queue
with set-up times (Welch 1964).
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import simpy
from simpy.events import Timeout

#: called when the work is done, with the object that the caller gave to ``submit``
Then = Callable[[Any], None]


class Machine:
    """Cores that processes share in turns of ``slice_us``; lanes wait in order of readiness."""

    __slots__ = ("_free", "cores", "env", "ready", "slice_us")

    def __init__(self, env: simpy.Environment, cores: int, slice_us: float) -> None:
        self.env, self._free, self.cores, self.slice_us = env, cores, cores, slice_us
        self.ready: deque[_Lane] = deque()

    def acquire(self, lane: _Lane) -> None:
        """Call ``lane.run()`` as soon as there is a core for the lane."""
        if self._free:
            self._free -= 1
            lane.run()
        else:
            self.ready.append(lane)

    def release(self) -> None:
        """Give a free core to the next ready lane."""
        if self.ready:
            self.ready.popleft().run()
        else:
            self._free += 1


class Process:
    """A process that works on pieces of work, one batch at a time in each lane.

    :param spread: returns a random factor for a piece of work, of mean 1; None: always 1
    :param wake: cost of a batch, in addition to the costs of its pieces
    :param batch: mean of the largest number of pieces that a lane takes together
    :param latency: time from the arrival of work until an idle lane asks for a core
    :param stretch: see the module
    :param disorder: probability that a lane takes a random waiting piece, and not the oldest
    :param chill: returns the share by which a batch costs more, for the idle time before it
    """

    def __init__(
        self,
        machine: Machine,
        lanes: int,
        rng: random.Random,
        spread: Callable[[], float] | None = None,
        *,
        wake: float = 0.0,
        batch: float = 1.0,
        latency: float = 0.0,
        stretch: float = 1.0,
        disorder: float = 0.0,
        chill: Callable[[float], float] | None = None,
    ) -> None:
        self.machine, self.rng, self.spread, self.chill = machine, rng, spread, chill
        self.wake, self.latency = wake, latency
        self.stretch, self.disorder = stretch, disorder
        self.queue: deque[tuple[float, Then, Any]] = deque()
        self.idle = [_Lane(self) for _ in range(lanes)]
        self.lanes = lanes
        #: log(1 - p) of the geometric distribution of batch limits; 0: the limit is always 1
        self._tail = math.log(1.0 - 1.0 / batch) if batch > 1.0 else 0.0
        self.reset()

    def most(self) -> int:
        """Draw the largest number of pieces for the next batch."""
        if not self._tail:
            return 1
        return 1 + int(math.log(1.0 - self.rng.random()) / self._tail)

    def reset(self) -> None:
        """Set all counters to 0.

        ``cpu`` is processor time, ``warm`` processor time without noise and chill, ``held`` the
        time with a core, ``wakes`` the number of batches.
        """
        self.cpu = self.warm = self.held = 0.0
        self.wakes = 0

    def submit(self, cost: float, then: Then, what: Any) -> None:
        """Queue work of this cost, and call ``then(what)`` when it is done."""
        self.queue.append((cost, then, what))
        if self.idle:
            self.idle.pop().rouse()

    def take(self) -> tuple[float, Then, Any]:
        """Remove and return the next piece: the oldest, or with ``disorder`` a random one."""
        queue = self.queue
        if self.disorder and len(queue) > 1 and self.rng.random() < self.disorder:
            index = self.rng.randrange(len(queue))
            found = queue[index]
            del queue[index]
            return found
        return queue.popleft()


class _Lane:
    __slots__ = ("asleep", "end", "env", "left", "machine", "process", "since", "work")

    def __init__(self, process: Process) -> None:
        self.process, self.machine, self.env = process, process.machine, process.machine.env
        self.end = self.left = 0.0
        #: ``since``: time at which the lane became idle; from rouse() on, how long it was idle.
        #: ``asleep``: the lane has not begun a batch since then
        self.since, self.asleep = self.env.now, True
        self.work: list[tuple[float, Then, Any]] = []

    def rouse(self) -> None:
        """Leave the idle state, because there is work."""
        # The idle time ends here: the wait for a core does not count.
        self.since = self.env.now - self.since
        if self.process.latency:
            _after(self.env, self.process.latency, self._ready)
        else:
            self.machine.acquire(self)

    def _ready(self, _: Any) -> None:
        self.machine.acquire(self)

    def run(self) -> None:
        """Start a time slice on a core."""
        self.end = self.env.now + self.machine.slice_us
        self._next()

    def _next(self) -> None:
        process, machine = self.process, self.machine
        if not self.work:
            if not process.queue:
                process.idle.append(self)
                self.since, self.asleep = self.env.now, True
                machine.release()
                return
            if machine.ready and self.env.now >= self.end:
                machine.ready.append(self)
                machine.release()
                return
            self._begin()
        # A step is at most a slice long: other lanes may want the core before the batch ends.
        step = min(self.left, machine.slice_us)
        self.left -= step
        _after(self.env, step, self._stepped)

    def _begin(self) -> None:
        process, spread = self.process, self.process.spread
        count = len(process.queue)
        if count > 1:
            count = min(count, process.most())
        warm = process.wake
        cost = warm if spread is None or not warm else warm * spread()
        for _ in range(count):
            piece = process.take()
            warm += piece[0]
            cost += piece[0] if spread is None else piece[0] * spread()
            self.work.append(piece)
        if self.asleep and process.chill is not None:
            cost *= 1.0 + process.chill(self.since)
        self.asleep = False
        process.wakes += 1
        process.warm += warm
        process.cpu += cost
        self.left = cost * (1.0 + (process.stretch - 1.0) * (1.0 - 1.0 / count))
        process.held += self.left

    def _stepped(self, _: Any) -> None:
        if self.left > 0:
            if self.machine.ready:
                self.machine.ready.append(self)
                self.machine.release()
            else:
                self._next()
            return
        work, self.work = self.work, []
        for _, then, what in work:
            then(what)
        self._next()


class Others:
    """Other processes of the machine: bursts of work at random times, in turn with the rest.

    :param cores: mean number of cores that they use
    :param burst: mean of a burst's exponential length, microseconds
    """

    def __init__(self, machine: Machine, rng: random.Random, cores: float, burst: float) -> None:
        self._rng, self._burst, self._per_us = rng, burst, cores / burst
        self._env = machine.env
        self.process = Process(machine, machine.cores, rng)
        self._come(None)

    def _come(self, first: Any) -> None:
        if first is not None:
            length = self._rng.expovariate(1.0 / self._burst)
            self.process.submit(length, lambda _: None, None)
        _after(self._env, self._rng.expovariate(self._per_us), self._come)


def gamma(rng: random.Random, cv: float) -> Callable[[], float] | None:
    """Return a function that draws values of mean 1 with this coefficient of variation.

    :returns: None for a coefficient of 0: the value is always 1
    """
    if not cv:
        return None
    shape = 1.0 / (cv * cv)
    return lambda: rng.gammavariate(shape, 1.0 / shape)


def _after(env: simpy.Environment, delay: float, call: Callable[[Any], None]) -> None:
    Timeout(env, delay).callbacks.append(call)
