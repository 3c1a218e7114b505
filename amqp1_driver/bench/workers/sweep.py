# SPDX-License-Identifier: Apache-2.0

"""One client process that sends to many targets, or has many calls outstanding. See ``steps``."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import oslo_messaging

from . import messaging, usage
from .load import Errors, share
from .steps import weigh

#: delay before a failed message is sent again, seconds
_PAUSE = 0.05
#: stack size of threads, most of which only wait in a call, bytes
_STACK = 256 * 1024


class Worker(messaging.Peer):
    """A client of servers that the module ``servers`` runs. Main thread.

    It sends from threads of its own.

    Field of the order: ``topic``.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self._ours = {thread.native_id for thread in threading.enumerate()}
        super().__init__(order)
        target = oslo_messaging.Target(topic=order["topic"])
        self._client = oslo_messaging.get_rpc_client(
            self.transport, target, timeout=order["timeout"]
        )
        self._targets: list[Any] = []
        self._waiting: list[threading.Thread] = []
        self._returned: list[tuple[int, int]] = []
        self._errors = Errors()
        self._used = 0.0
        self._repeaters: list[_Repeater] = []

    def aim(self, count: int, first: int = 0) -> dict[str, Any]:
        """Make a client for each of ``count`` servers; send nothing."""
        numbers = range(first, first + count)
        self._targets = [self._client.prepare(server=f"s{number}") for number in numbers]
        return {}

    def sweep(self, what: str, threads: int, passes: int, insist: float = 0.0) -> dict[str, Any]:
        """Send to each target, ``passes`` times; each thread has its share of the targets.

        :param what: "cast" or "call"
        :param insist: seconds during which a failed message is sent again
        :returns: ``times``: how long each message took, in nanoseconds, target by target; -1: the
            message failed; ``at``: when the sweep ended, monotonic nanoseconds
        """
        send = _cast if what == "cast" else _call
        times = [[-1] * passes for _ in self._targets]
        errors = [Errors() for _ in range(threads)]
        until = time.monotonic() + insist

        def work(thread: int) -> None:
            for number in range(passes):
                for index in range(thread, len(self._targets), threads):
                    times[index][number] = _one(send, self._targets[index], errors[thread], until)

        began = time.monotonic_ns()
        _together(work, threads)
        took = time.monotonic_ns() - began
        return {
            "took_ns": took,
            "at": began + took,
            "times": times,
            "errors": [kinds.kinds for kinds in errors if kinds.kinds],
        }

    def repeat(self, count: int, threads: int) -> dict[str, Any]:
        """Make ``count`` calls to the first target, from ``threads`` threads.

        The threads remain for the next step, so that their memory does not count as that of calls.

        :returns: ``answered``: number of calls that were answered
        """
        while len(self._repeaters) < threads:
            self._repeaters.append(_Repeater())
        for index, repeater in enumerate(self._repeaters):
            repeater.orders.put((self._targets[0], share(count, threads, index)))
        answered = [repeater.answers.get() for repeater in self._repeaters]
        return {"answered": sum(answered)}

    def trace(self, on: bool) -> dict[str, Any]:
        """Start or stop tracing of Python's allocations, which makes everything slower."""
        if on:
            tracemalloc.start()
        else:
            tracemalloc.stop()
        return {}

    # -- calls outstanding ----------------------------------------------------------------

    def idle(self, count: int) -> dict[str, Any]:
        """Measure ``count`` threads that wait without a call.

        :returns: the memory of the process, as ``weigh`` returns it; ``wake_ns``: time until all
            threads have ended, nanoseconds
        """
        gates = [threading.Lock() for _ in range(count)]
        for gate in gates:
            gate.acquire()
        threads = _started(lambda index: _pass(gates[index]), count)
        weight = weigh()
        began = time.monotonic_ns()
        for gate in gates:
            gate.release()
        for thread in threads:
            thread.join()
        return {"wake_ns": time.monotonic_ns() - began, **weight}

    def begin(self, count: int) -> dict[str, Any]:
        """Make ``count`` calls at once, a thread for each; return when all threads have started."""

        def work(number: int) -> None:
            try:
                self._client.call({}, "hold", number=number)
            except Exception as error:
                self._errors.add(error)
            else:
                self._returned.append((number, time.monotonic_ns()))

        self._used = self._driver_us()
        self._waiting = _started(work, count)
        return {}

    def finish(self) -> dict[str, Any]:
        """Wait until all calls have ended.

        :returns: ``returned``: number and time (monotonic nanoseconds) of each call that returned,
            in order; ``driver_us``: processor time of the driver's threads, microseconds
        """
        for thread in self._waiting:
            thread.join()
        returned, self._returned = self._returned, []
        self._waiting = []
        return {
            "returned": returned,
            "driver_us": self._driver_us() - self._used,
            "errors": [self._errors.kinds] if self._errors.kinds else [],
        }

    def _driver_us(self) -> float:
        """Return the processor time of the driver's threads so far, microseconds.

        These are all threads that did not exist before the driver: this method is called only while
        no thread sends.
        """
        threads = (thread.native_id for thread in threading.enumerate())
        return usage.of_threads(
            thread for thread in threads if thread is not None and thread not in self._ours
        )


class _Repeater:
    """A thread that makes as many calls as it is ordered, one after the other."""

    def __init__(self) -> None:
        self.orders: queue.SimpleQueue[tuple[Any, int]] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[int] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            target, count = self.orders.get()
            answered = 0
            for _ in range(count):
                with contextlib.suppress(Exception):
                    _call(target)
                    answered += 1
            self.answers.put(answered)


def _one(send: Callable[[Any], None], target: Any, errors: Errors, until: float) -> int:
    """Send a message until that succeeds; return the time it took (nanoseconds), -1 on failure.

    :param until: time from which a failed message is not sent again, monotonic seconds
    """
    began = time.monotonic_ns()
    while True:
        try:
            send(target)
            return time.monotonic_ns() - began
        except Exception as error:
            errors.add(error)
            if time.monotonic() >= until:
                return -1
            time.sleep(_PAUSE)


def _pass(gate: Any) -> None:
    gate.acquire()


def _cast(client: Any) -> None:
    client.cast({}, "take")


def _call(client: Any) -> None:
    client.call({}, "ping")


def _started(work: Callable[[int], None], count: int) -> list[threading.Thread]:
    before = threading.stack_size(_STACK)
    try:
        threads = [
            threading.Thread(target=work, args=(index,), daemon=True) for index in range(count)
        ]
        for thread in threads:
            thread.start()
    finally:
        threading.stack_size(before)
    return threads


def _together(work: Callable[[int], None], count: int) -> None:
    for thread in _started(work, count):
        thread.join()
