# SPDX-License-Identifier: Apache-2.0

"""Many RPC servers in one process, each made as a service makes it. Main thread of a worker."""

from __future__ import annotations

import threading
import time
from typing import Any

import futurist
import oslo_messaging

from . import fault, messaging, quiet


class _Server:
    """One server, which is its own endpoint and counts its messages.

    ``take``, ``ping`` and ``hold`` run in the threads of the server's executor.
    """

    def __init__(self, worker: Worker, transport: Any, number: int) -> None:
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


class Worker(messaging.Peer):
    """All servers of one process. Main thread, unless a method says otherwise.

    Fields of the order: ``topic``; ``executor``: threads of each server; ``shared``: True if one
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
        return fault.sever()

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
        waiting = [threading.Thread(target=server.rpc.wait) for server in self._servers]
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join()
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
