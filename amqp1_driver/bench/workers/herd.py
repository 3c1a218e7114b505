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

"""Many clients in one process, each with a transport, a connection and an I/O thread of its own.

They stand for as many processes: what a bus sees of them is the same.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import oslo_messaging

from . import fault, messaging, quiet
from .pace import Errors
from .sweep import _PAUSE, _started


class Attempts:
    """Notes when TCP connections are tried, by all drivers written in Python. Any thread."""

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


class Worker(messaging.Peer):
    """The clients. Main thread; each client has a thread of its own while it calls.

    Order: ``topic``, whose servers answer ``ping``.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__(order)
        self._attempts = Attempts()
        self._clients: list[Any] = []
        self._transports: list[Any] = []
        self._worked: list[int] = []
        self._errors = Errors()
        self._lock = threading.Lock()

    def rest(self) -> dict[str, Any]:
        """Only be weighed."""
        return {}

    def connect(self, count: int, seconds: float) -> dict[str, Any]:
        """Make so many clients and have each call once: when each of them was answered."""
        target = oslo_messaging.Target(topic=self.order["topic"])
        for _ in range(count):
            transport = self.make_transport(self.transport.conf)
            self._transports.append(transport)
            self._clients.append(
                oslo_messaging.get_rpc_client(
                    transport, target, timeout=self.order["timeout"]
                )
            )
        quiet.after_import()
        return self.again(time.monotonic_ns(), seconds)

    def again(self, since: int, seconds: float, cut: bool = False) -> dict[str, Any]:
        """Have each client call until it is answered; when that was, monotonic nanoseconds.

        :param since: attempts to connect count from then on
        :param seconds: after which a client gives up
        :param cut: they lose all connections first
        """
        at = fault.sever()["at"] if cut else since
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

        for thread in _started(work, len(self._clients)):
            thread.join()
        return {
            "at": at,
            "worked": self._worked,
            "attempts": [at for at in self._attempts.times if at >= since],
            "errors": [self._errors.kinds] if self._errors.kinds else [],
        }
