# SPDX-License-Identifier: Apache-2.0

"""The stage of one row: a bus, and workers that take one step for each order. Main thread."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from amqp1_driver.bench import buses
from amqp1_driver.bench.children import Crew, Trouble, Worker
from amqp1_driver.bench.plan import Entry

#: limit for the start of a process, seconds
_START = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of all rows.

    :param entry: the driver
    :param bus: kind of the bus to start for each row; None: the bus at the entry's URL
    :param threads: number of threads that send at once
    :param passes: messages to each target or listener, after the first
    :param servers_each: RPC servers in one process, where there are several processes
    :param clients_each: reconnecting clients in one process
    :param how: how reconnecting clients lose the bus: by "restart" of the bus, or by "cut" of all
        connections
    :param calls: number of calls in a step of the memory scenario
    :param steps: number of these steps
    :param timeout: limit for a call, seconds; a step of a worker may take twice as long
    """

    entry: Entry
    bus: str | None = "router"
    threads: int = 8
    passes: int = 3
    servers_each: int = 1000
    clients_each: int = 125
    how: str = "restart"
    calls: int = 10000
    steps: int = 10
    timeout: float = 120.0


class Stage:
    """The bus and the processes of one row. Main thread.

    :param bus: the bus that was started for this row; None: the bus at the entry's URL
    """

    def __init__(self, settings: Settings, bus: buses.Bus | None, crew: Crew) -> None:
        self.settings = settings
        self.bus = bus
        self._crew = crew
        self.url = settings.entry.on(bus.address if bus is not None else "")
        self._names = 0
        name = f"scale-{secrets.token_hex(4)}"
        self._order = {
            "operation": "call",
            "topic": name,
            "exchange": f"{name}-x",
            "executor": 1,
            "timeout": settings.timeout,
            "options": list(settings.entry.options),
        }

    def add(self, kind: str, number: int = 1, **order: Any) -> list[Worker]:
        """Start ``number`` processes, and return them when they are ready.

        :param kind: the module of ``workers`` that they run
        :param order: further fields of their first order
        """
        added = []
        for _ in range(number):
            self._names += 1
            name = f"{kind}-{self._names}"
            given = {
                **self._order,
                "role": "steps",
                "kind": kind,
                "name": name,
                "url": self.url,
                **order,
            }
            added.append(self._crew.add(name, self.settings.entry.python, given))
        self._crew.wait("ready", added, _START)
        return added

    def servers(self, count: int) -> list[Worker]:
        """Start processes with ``count`` RPC servers in all.

        :returns: the processes, when all servers listen
        """
        each = self.settings.servers_each
        shares = [min(each, count - first) for first in range(0, count, each)]
        workers = self.add("servers", len(shares), shared=True)
        for index, (worker, share) in enumerate(zip(workers, shares, strict=True)):
            worker.tell(do="listen", count=share, first=index * each)
        self.hear(workers, "listen")
        return workers

    def tell(self, workers: Sequence[Worker], step: str, **fields: Any) -> None:
        """Order workers to begin a step."""
        for worker in workers:
            worker.tell(do=step, **fields)

    def hear(self, workers: Sequence[Worker], step: str) -> list[dict[str, Any]]:
        """Wait until all workers have completed a step, and return their results."""
        return self._crew.wait(step, workers, 2 * self.settings.timeout)

    def ask(self, workers: Sequence[Worker], step: str, **fields: Any) -> list[dict[str, Any]]:
        """Order all workers to take a step at once, and return their results."""
        self.tell(workers, step, **fields)
        return self.hear(workers, step)

    def one(self, worker: Worker, step: str, **fields: Any) -> dict[str, Any]:
        """Order one worker to take a step, and return its result."""
        return self.ask([worker], step, **fields)[0]

    # -- the bus ----------------------------------------------------------------------------

    @property
    def bus_kib(self) -> int | None:
        """Return the bus's resident memory, KiB; None if its process is not known."""
        return buses.resident_kib(buses.serving(self.url))

    @property
    def bus_cpu_us(self) -> float | None:
        """Return the bus's processor time, microseconds; None if its process is not known."""
        used = buses.used(buses.serving(self.url))
        return None if used is None else used.cpu_us


@contextlib.contextmanager
def staged(settings: Settings, tick: Callable[[], None]) -> Iterator[Stage]:
    """Provide a stage with a bus of its own, so that rows do not affect each other.

    If the settings name no bus to start, the stage uses the bus at the entry's URL.

    :param tick: called about ten times a second while the crew waits
    :raises Trouble: the settings name no bus to start, and the URL has no host
    """
    with contextlib.ExitStack() as stack:
        bus = None
        if settings.bus is not None:
            bus = stack.enter_context(buses.started(settings.bus))
        elif settings.entry.needs_bus:
            raise Trouble("no bus: neither one to start nor a URL with a host")
        crew = stack.enter_context(Crew(tick))
        yield Stage(settings, bus, crew)
