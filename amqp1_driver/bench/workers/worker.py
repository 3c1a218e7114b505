# SPDX-License-Identifier: Apache-2.0

"""A worker: a process of a benchmark that takes one step for each order of its parent.

Orders and events are lines of JSON. The first order gives the worker its kind and its role, a
module of this package and a class in it. Each further order names a method of that class, and an
event reports its result and its cost.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import platform
import queue
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from . import usage
from .ledger import Ledger
from .load import Load

#: names of events, for steps whose event has another name than the step
EVENTS = {"carry": "done", "mark": "marked", "sample": "sampling"}
#: processor time between two samples, seconds; kernels have ticks of 1 to 10 ms
INTERVAL = 0.008


class Channel:
    """A worker's end of the channel to its parent.

    Orders come by standard input, so that the list of processes shows no password. Standard input
    ends when the parent ends, whatever the reason; then this process ends at once. Events go to the
    original standard output; everything that other code prints goes to standard error.
    """

    def __init__(self) -> None:
        self._events = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def tell(self, event: str, **fields: Any) -> None:
        """Send one event."""
        self._events.write(json.dumps({"event": event, **fields}) + "\n")
        self._events.flush()

    def orders(self) -> Iterator[dict[str, Any]]:
        """Yield the orders as they come, without end."""
        while True:
            yield self._orders.get()

    def _read(self) -> None:
        for line in sys.stdin:
            self._orders.put(json.loads(line))
        os._exit(0)


class Worker:
    """The steps that all workers have. Main thread of the process.

    :param order: the first order from the parent
    :param ledger: account of the messages that the worker receives; None: a new one
    """

    #: what is measured, and the distributions that it consists of
    driver = ""
    distributions: tuple[str, ...] = ()

    def __init__(self, order: dict[str, Any], ledger: Ledger | None = None) -> None:
        self.order = order
        self.ledger = Ledger() if ledger is None else ledger
        self._before = usage.own()
        self._samples = -1
        self._rusage = resource.getrusage(resource.RUSAGE_SELF)

    def open(self) -> None:
        """Make the worker ready; by default there is nothing to do."""

    def about(self) -> dict[str, Any]:
        """Return what is measured, and the versions of its libraries."""
        return {
            "driver": self.driver,
            "versions": {name: version(name) for name in self.distributions},
        }

    def end(self) -> None:
        """Close what has to be closed in order; by default the end of the process suffices."""

    def weigh(self) -> dict[str, int]:
        """Return the memory of the process after a step, if the benchmark asks for it."""
        return {}

    # -- steps of clients -------------------------------------------------------------------

    def carry(self, load: dict[str, Any]) -> dict[str, Any]:
        """Send the messages of a load, whose fields are those of ``Load``."""
        return self.work(Load(**load))

    def work(self, load: Load) -> dict[str, Any]:
        """Send the messages of a load; return the outcome as ``load.drive`` does."""
        raise NotImplementedError

    # -- steps of servers -------------------------------------------------------------------

    def mark(self) -> dict[str, Any]:
        """Begin the measurement: the cost in the report counts from here."""
        self._before = usage.own()
        return {}

    def count(self) -> dict[str, Any]:
        """Return the numbers of messages that have been received."""
        return {"warm": self.ledger.warm, "received": self.ledger.received}

    def report(self) -> dict[str, Any]:
        """Return the ledger, and the resources that this process has used since ``mark``."""
        return {**usage.own().since(self._before)._asdict(), **self.ledger.dump()}

    # -- samples of Python stacks -----------------------------------------------------------

    def sample(self, path: str) -> dict[str, Any]:
        """Start to write the Python stacks on which the process spends its time to a file.

        The kernel's timer of processor time (``ITIMER_PROF``) interrupts the thread that uses the
        processor at that moment. ``faulthandler`` writes the stack of that thread in the signal
        handler itself: this needs no interpreter lock and no other thread, and does not stop the
        process. So a thread that only waits gives no sample, and the time of C code and of the
        kernel counts at the Python line that called them.

        While C code calls a Python function, the stack has no valid beginning for a few
        instructions (seen with CPython 3.11 to 3.13). A sample at such a moment ends the process
        with signal 11. In clients and servers this happens to one sample in several thousand, so
        the parent must repeat such a run.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._samples = os.open(path, flags, 0o644)
        # unregister() restores this handler: a signal still pending must not end the process
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        faulthandler.register(signal.SIGPROF, self._samples, all_threads=False, chain=False)
        self._rusage = resource.getrusage(resource.RUSAGE_SELF)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        return {}

    def sampled(self) -> dict[str, float]:
        """Stop sampling; return the processor time since the start, in microseconds."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        after = resource.getrusage(resource.RUSAGE_SELF)
        faulthandler.unregister(signal.SIGPROF)
        os.close(self._samples)
        return {
            "user_us": (after.ru_utime - self._rusage.ru_utime) * 1e6,
            "system_us": (after.ru_stime - self._rusage.ru_stime) * 1e6,
        }


def main() -> None:
    """Follow orders until "end", or until the parent has ended."""
    # ^C reaches the whole group of processes: the parent ends this one in order
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel()
    orders = channel.orders()
    order = next(orders)
    kind = importlib.import_module(f"{__package__}.{order['kind']}")
    worker: Worker = getattr(kind, order["role"].capitalize())(order)
    worker.open()
    about = {"python": platform.python_version(), **worker.about()}
    channel.tell("ready", pid=os.getpid(), about=about)
    for order in orders:
        step = order.pop("do")
        if step == "end":
            worker.end()
            sys.stderr.flush()
            os._exit(0)  # do not wait for threads that a driver left behind
        before = usage.own()
        began = time.monotonic_ns()
        result = getattr(worker, step)(**order)
        cost = {
            "took_ns": time.monotonic_ns() - began,
            **usage.own().since(before)._asdict(),
            "peak_kib": usage.peak_kib(),
        }
        channel.tell(EVENTS.get(step, step), **{**cost, **worker.weigh(), **result})
