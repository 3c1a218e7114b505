# SPDX-License-Identifier: Apache-2.0

"""The workers of ``bench-scale``: many servers, one client of many targets, or many clients.

Field of their orders: ``topic``. The main thread of a worker runs the steps.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import futurist
import oslo_messaging

from . import messaging, quiet, usage
from .load import Errors, share

#: delay before a failed message is sent again, seconds
_PAUSE = 0.05
#: stack size of threads, most of which only wait in a call, bytes
_STACK = 256 * 1024


class _Peer(messaging.Peer):
    def weigh(self) -> dict[str, int]:
        """Collect garbage, give free memory back to the system, and return the memory in use.

        :returns: ``resident_kib``: resident memory; ``heap``: memory of Python's own allocations in
            bytes, 0 unless they are traced
        """
        gc.collect()
        with contextlib.suppress(AttributeError):  # the C library is not glibc
            ctypes.CDLL(None).malloc_trim(0)
        heap = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0
        return {"resident_kib": usage.resident_kib(), "heap": heap}

    def rest(self) -> dict[str, Any]:
        """Do nothing; the report of this step shows the memory of the process."""
        return {}

    def client(self, transport: Any) -> Any:
        """Return a client of the servers."""
        target = oslo_messaging.Target(topic=self.order["topic"])
        return oslo_messaging.get_rpc_client(transport, target, timeout=self.order["timeout"])


class _Server:
    """One server, which is its own endpoint and counts its messages.

    ``take``, ``ping`` and ``hold`` run in the threads of the server's executor.
    """

    def __init__(self, worker: Servers, transport: Any, number: int) -> None:
        self.taken = 0
        self._worker = worker
        self._number = number
        target = oslo_messaging.Target(topic=worker.order["topic"], server=f"s{number}")
        self.rpc = oslo_messaging.get_rpc_server(transport, target, [self])
        if worker.executor is not None:
            self.rpc._executor_cls = lambda **_: worker.executor

    def take(self, ctxt: dict[str, Any]) -> None:
        """Count a cast."""
        self.taken += 1  # no lock: a server that counts casts has one thread

    def ping(self, ctxt: dict[str, Any]) -> int:
        """Count a call, and answer it at once."""
        self.taken += 1
        return self._number

    def hold(self, ctxt: dict[str, Any], number: int) -> int:
        """Answer a call when the worker releases it."""
        self._worker.held()
        return number


class Servers(_Peer):
    """Many RPC servers, each made as a service makes it.

    Further fields of the order: ``executor``: threads of each server; ``shared``: True if one
    thread serves all servers, because they only count messages. The threads of an executor
    check once a second whether they shall end; thousands of executors would keep the machine busy.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__(order)
        self._transports = [self.transport]
        self._servers: list[_Server] = []
        self.executor = futurist.ThreadPoolExecutor(1) if order.get("shared") else None
        self._held: list[threading.Event] = []
        self._changed = threading.Condition()

    def sever(self) -> dict[str, Any]:
        """Lose all connections; return their number and the time."""
        return usage.sever()

    def listen(self, count: int, first: int, transports: int = 1) -> dict[str, Any]:
        """Start ``count`` servers one after the other.

        :param first: number of the first server; the number is part of a server's name
        :param transports: number of transports for the servers, each with its own connection
        :returns: ``each_ns``: the time that each server took until it listened, nanoseconds
        """
        while len(self._transports) < transports:
            self._transports.append(self.make_transport(self.transport.conf))
        quiet.after_import()
        each = []
        for number in range(first, first + count):
            server = _Server(self, self._transports[number % transports], number)
            self._servers.append(server)
            began = time.monotonic_ns()
            server.rpc.start()
            each.append(time.monotonic_ns() - began)
        return {"each_ns": each}

    def tally(self, each: int, seconds: float) -> dict[str, Any]:
        """Wait until each server has taken ``each`` messages, or until the time is over.

        :param seconds: limit of the wait
        :returns: ``taken``: number of messages that each server has taken
        """
        until = time.monotonic() + seconds
        while True:
            taken = [server.taken for server in self._servers]
            if min(taken) >= each or time.monotonic() > until:
                return {"taken": taken}
            time.sleep(0.02)

    def stop(self) -> dict[str, Any]:
        """Stop all servers one after the other, then wait for all of them at the same time.

        The threads of an executor check once a second whether the executor has ended; with one wait
        after the other, these seconds would add up.

        :returns: ``each_ns``: the time that each stop took; ``wait_ns``: the wait; nanoseconds
        """
        each = []
        for server in self._servers:
            began = time.monotonic_ns()
            server.rpc.stop()
            each.append(time.monotonic_ns() - began)
        began = time.monotonic_ns()
        _join(_started(lambda index: self._servers[index].rpc.wait(), len(self._servers)))
        self._servers.clear()
        return {"each_ns": each, "wait_ns": time.monotonic_ns() - began}

    # -- calls that are held --------------------------------------------------------------

    def held(self) -> None:
        """Block until this call is released, then release the next call. Executor's threads.

        Calls end one after the other, as they do in real work: thousands of threads that wait for
        the interpreter lock at the same moment would keep the interpreter busy with switching.
        """
        mine = threading.Event()
        with self._changed:
            self._held.append(mine)
            self._changed.notify_all()
        mine.wait(self.order["timeout"])
        self.release()

    def gathered(self, expected: int, seconds: float) -> dict[str, Any]:
        """Wait until the servers hold ``expected`` calls, or until the time is over.

        :param seconds: limit of the wait
        :returns: ``held``: number of calls; ``at``: end of the wait, monotonic nanoseconds
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._held) >= expected, seconds)
            return {"held": len(self._held), "at": time.monotonic_ns()}

    def release(self) -> dict[str, Any]:
        """Release the call that came last; each released call releases the next one.

        :returns: ``at``: when this began, monotonic nanoseconds
        """
        at = time.monotonic_ns()
        with self._changed:
            if self._held:
                self._held.pop().set()
        return {"at": at}


class Sweep(_Peer):
    """A client that sends to many servers, or has many calls outstanding, from its own threads."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._ours = {thread.native_id for thread in threading.enumerate()}
        super().__init__(order)
        self._client = self.client(self.transport)
        self._targets: list[Any] = []
        self._waiting: list[threading.Thread] = []
        self._returned: list[tuple[int, int]] = []
        self._errors = Errors()
        self._used = 0.0
        self._executor: ThreadPoolExecutor | None = None

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
        _join(_started(work, threads))
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
        if self._executor is None:
            self._executor = ThreadPoolExecutor(threads)
        shares = [share(count, threads, index) for index in range(threads)]
        return {"answered": sum(self._executor.map(self._repeated, shares))}

    def _repeated(self, count: int) -> int:
        answered = 0
        for _ in range(count):
            with contextlib.suppress(Exception):
                _call(self._targets[0])
                answered += 1
        return answered

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

        def wait(index: int) -> None:
            gates[index].acquire()

        threads = _started(wait, count)
        weight = self.weigh()
        began = time.monotonic_ns()
        for gate in gates:
            gate.release()
        _join(threads)
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
        _join(self._waiting)
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


def _cast(client: Any) -> None:
    client.cast({}, "take")


def _call(client: Any) -> None:
    client.call({}, "ping")


class Attempts:
    """A record of when drivers try to connect by TCP; it patches ``socket.socket``. Any thread."""

    def __init__(self) -> None:
        self.times: list[int] = []
        cls: Any = socket.socket
        for name in ("connect", "connect_ex"):
            setattr(cls, name, self._noting(getattr(cls, name)))

    def _noting(self, method: Any) -> Any:
        def noting(sock: Any, address: Any) -> Any:
            if isinstance(address, tuple):
                self.times.append(time.monotonic_ns())
            return method(sock, address)

        return noting


class Clients(_Peer):
    """Many clients, each with a transport, a connection and an I/O thread of its own.

    To the bus they look like as many processes. Each client calls in a thread of its own.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__(order)
        self._attempts = Attempts()
        self._clients: list[Any] = []
        self._worked: list[int] = []
        self._errors = Errors()
        self._lock = threading.Lock()

    def connect(self, count: int, seconds: float) -> dict[str, Any]:
        """Make ``count`` clients, and have each call until a server answers.

        :param seconds: time after which a client gives up
        :returns: as :meth:`again`
        """
        for _ in range(count):
            self._clients.append(self.client(self.make_transport(self.transport.conf)))
        quiet.after_import()
        return self.again(time.monotonic_ns(), seconds)

    def again(self, since: int, seconds: float, cut: bool = False) -> dict[str, Any]:
        """Have each client call until a server answers.

        :param since: time from which attempts to connect count, monotonic nanoseconds
        :param seconds: time after which a client gives up
        :param cut: cut all connections first
        :returns: ``at``: time of the cut, or ``since``; ``worked``: times of the answers;
            ``attempts``: times of the attempts to connect; all in monotonic nanoseconds
        """
        at = usage.sever()["at"] if cut else since
        self._worked, self._errors = [], Errors()
        until = time.monotonic() + seconds

        def work(index: int) -> None:
            while time.monotonic() < until:
                try:
                    self._clients[index].call({}, "ping")
                except Exception as error:
                    with self._lock:
                        self._errors.add(error)
                    time.sleep(_PAUSE)
                else:
                    self._worked.append(time.monotonic_ns())
                    return

        _join(_started(work, len(self._clients)))
        return {
            "at": at,
            "worked": self._worked,
            "attempts": [at for at in self._attempts.times if at >= since],
            "errors": [self._errors.kinds] if self._errors.kinds else [],
        }


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


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()
