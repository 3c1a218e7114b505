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

"""Many RPC servers in one process, each as a service makes it."""

from __future__ import annotations

import threading
import time
from typing import Any

import futurist
import oslo_messaging

from . import fault, messaging, quiet


class _Server:
    """One server and what it was asked. ``take`` and ``ping`` run in its executor's threads."""

    def __init__(self, worker: Worker, transport: Any, number: int) -> None:
        self.taken = 0
        self._worker = worker
        self._number = number
        target = oslo_messaging.Target(topic=worker.order["topic"], server=f"s{number}")
        self.rpc = oslo_messaging.get_rpc_server(transport, target, [self])
        if worker.executor is not None:
            self.rpc._executor_cls = lambda **_: worker.executor

    def take(self, ctxt: dict[str, Any]) -> None:
        """A cast."""
        self.taken += 1  # in one thread, as only ``hold`` is in several

    def ping(self, ctxt: dict[str, Any]) -> int:
        """A call, answered at once."""
        self.taken += 1
        return self._number

    def hold(self, ctxt: dict[str, Any], number: int) -> int:
        """A call that is answered when all are."""
        self._worker.held()
        return number


class Worker(messaging.Peer):
    """All servers of one process. Main thread, unless it says otherwise.

    Order: ``topic``; ``executor``, the threads of each server; ``shared``: one thread serves all
    of them, for servers that are there only to be sent to. The threads of an executor look once
    a second whether they shall end, and those of thousands would keep the machine busy.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__(order)
        self._transports = [self.transport]
        self._servers: list[_Server] = []
        self.executor = futurist.ThreadPoolExecutor(1) if order.get("shared") else None
        self._held: list[threading.Event] = []
        self._changed = threading.Condition()

    def rest(self) -> dict[str, Any]:
        """Only be weighed."""
        return {}

    def sever(self) -> dict[str, Any]:
        """Lose all connections; how many, and when."""
        return fault.sever()

    def listen(self, count: int, first: int, transports: int = 1) -> dict[str, Any]:
        """Start so many servers one after the other; the time each of them takes to listen.

        :param first: number of the first, which is part of its name
        :param transports: over which they are spread, each with a connection of its own
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
        """What each server has taken, once it is ``each`` or the time is over."""
        until = time.monotonic() + seconds
        while True:
            taken = [server.taken for server in self._servers]
            if min(taken) >= each or time.monotonic() > until:
                return {"taken": taken}
            time.sleep(0.02)

    def stop(self) -> dict[str, Any]:
        """Stop all servers one after the other, the time each takes; then wait for them all.

        Not one after the other: the threads of an executor look once a second for its end.
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
        """Executor's threads: wait until the calls are released, then let the next one go.

        One after the other, as work is done: thousands of threads that want the interpreter at
        the same moment keep it busy with themselves.
        """
        mine = threading.Event()
        with self._changed:
            self._held.append(mine)
            self._changed.notify_all()
        mine.wait(self.order["timeout"])
        self.release()

    def gathered(self, expected: int, seconds: float) -> dict[str, Any]:
        """When so many calls were here, monotonic nanoseconds; how many there were in time."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._held) >= expected, seconds)
            return {"held": len(self._held), "at": time.monotonic_ns()}

    def release(self) -> dict[str, Any]:
        """Have the call answered that came last, and then the others; when that began."""
        at = time.monotonic_ns()
        with self._changed:
            if self._held:
                self._held.pop().set()
        return {"at": at}
