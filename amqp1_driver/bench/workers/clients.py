# SPDX-License-Identifier: Apache-2.0

"""Many clients in one process, each with a transport, a connection and an I/O thread of its own.

To the bus they look like as many processes. Main thread of a worker.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import oslo_messaging

from . import fault, messaging, quiet
from .load import Errors
from .sweep import _PAUSE, _started


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


class Worker(messaging.Peer):
    """The clients. Main thread; each client has a thread of its own while it calls.

    Field of the order: ``topic``, the topic of servers that answer ``ping``.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        super().__init__(order)
        self._attempts = Attempts()
        self._clients: list[Any] = []
        self._transports: list[Any] = []
        self._worked: list[int] = []
        self._errors = Errors()
        self._lock = threading.Lock()

    def connect(self, count: int, seconds: float) -> dict[str, Any]:
        """Make ``count`` clients, and have each call until a server answers.

        :param seconds: time after which a client gives up
        :returns: as :meth:`again`
        """
        target = oslo_messaging.Target(topic=self.order["topic"])
        for _ in range(count):
            transport = self.make_transport(self.transport.conf)
            self._transports.append(transport)
            self._clients.append(
                oslo_messaging.get_rpc_client(transport, target, timeout=self.order["timeout"])
            )
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
