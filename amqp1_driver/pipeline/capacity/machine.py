# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Cores, processes and the interpreter's lock. Times are microseconds of the simulation.

States of a lane (what runs in a process at one time; a Python process has one, because of the
interpreter's lock, a router as many as it has threads)::

    idle --work comes--> waking --latency--> ready --a core is free--> running --+-- no work: idle
                                               ^                                 |
                                               +-- slice over and others ready --+

A lane takes what waits, up to a random number (geometric, of mean ``batch``), and gives on all of
them when it has done the last: as an I/O thread does that reads a buffer, handles the frames in it,
and writes. A batch of n pieces with costs s costs processor time ``sum(s * noise) + wake``, and
holds the core for ``1 + (stretch - 1) * (1 - 1/n)`` times as long: the more threads want the
interpreter's lock, the more of its time goes into handing it over. The first batch after an idle
time costs more, the longer that was: caches and translation buffers hold others' data by then, and
the core has to leave its sleep. With batches of 1 and no wake it is the M/G/c queue; with a latency
the M/G/1 queue with set-up times (Welch 1964).
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import simpy
from simpy.events import Timeout

#: called with what was handed to ``submit`` when the work is done
Then = Callable[[Any], None]


class Machine:
    """Cores that processes share. Turns of ``slice_us``, in the order of coming ready."""

    __slots__ = ("_free", "cores", "env", "ready", "slice_us")

    def __init__(self, env: simpy.Environment, cores: int, slice_us: float) -> None:
        self.env, self._free, self.cores, self.slice_us = env, cores, cores, slice_us
        self.ready: deque[_Lane] = deque()

    def acquire(self, lane: _Lane) -> None:
        """Have ``lane.run()`` called as soon as there is a core for it."""
        if self._free:
            self._free -= 1
            lane.run()
        else:
            self.ready.append(lane)

    def release(self) -> None:
        """A core is free for the next."""
        if self.ready:
            self.ready.popleft().run()
        else:
            self._free += 1


class Process:
    """Takes pieces of work, as many at a time as it has lanes.

    :param wake: cost of a batch beside that of its pieces
    :param batch: mean of the number of pieces that are taken together at most
    :param latency: until it begins, without a core
    :param spread: gives a factor for a piece of work, of mean 1
    :param disorder: probability that the next piece is any of those that wait, not the oldest
    :param chill: what a batch costs more, as a share, after having been idle for so long
    """

    def __init__(self, machine: Machine, lanes: int, rng: random.Random,
                 spread: Callable[[], float] | None = None, *, wake: float = 0.0,
                 batch: float = 1.0, latency: float = 0.0,
                 stretch: float = 1.0, disorder: float = 0.0,
                 chill: Callable[[float], float] | None = None) -> None:
        self.machine, self.rng, self.spread, self.chill = machine, rng, spread, chill
        self.wake, self.latency = wake, latency
        self.stretch, self.disorder = stretch, disorder
        self.queue: deque[tuple[float, Then, Any]] = deque()
        self.idle = [_Lane(self) for _ in range(lanes)]
        self.lanes = lanes
        #: of the geometric distribution; 0: always 1
        self._tail = math.log(1.0 - 1.0 / batch) if batch > 1.0 else 0.0
        self.reset()

    def most(self) -> int:
        """Pieces that may be taken together now."""
        if not self._tail:
            return 1
        return 1 + int(math.log(1.0 - self.rng.random()) / self._tail)

    def reset(self) -> None:
        """Count anew: processor time (also without noise and chill), time with a core, batches."""
        self.cpu = self.warm = self.held = 0.0
        self.wakes = 0

    def submit(self, cost: float, then: Then, what: Any) -> None:
        """Do work of this cost, then call ``then(what)``."""
        self.queue.append((cost, then, what))
        if self.idle:
            self.idle.pop().rouse()

    def take(self) -> tuple[float, Then, Any]:
        """The next piece."""
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
        #: idle since then; asleep until it has begun with a batch
        self.since, self.asleep = self.env.now, True
        self.work: list[tuple[float, Then, Any]] = []

    def rouse(self) -> None:
        """There is work."""
        # What counts is how long it was idle, not how long it waits for a core from now on.
        self.since = self.env.now - self.since
        if self.process.latency:
            _after(self.env, self.process.latency, self._ready)
        else:
            self.machine.acquire(self)

    def _ready(self, _: Any) -> None:
        self.machine.acquire(self)

    def run(self) -> None:
        """It has a core."""
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
        # A batch that outlasts the slice is broken off where others may be waiting.
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
    """Other processes of the machine: bursts of work at random, which take their turns.

    :param cores: that they use in the mean
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
    """Draws of mean 1 and this coefficient of variation; None: always 1."""
    if not cv:
        return None
    shape = 1.0 / (cv * cv)
    return lambda: rng.gammavariate(shape, 1.0 / shape)


def _after(env: simpy.Environment, delay: float, call: Callable[[Any], None]) -> None:
    Timeout(env, delay).callbacks.append(call)
