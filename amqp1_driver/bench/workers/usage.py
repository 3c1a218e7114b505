# SPDX-License-Identifier: Apache-2.0

"""The resources that this process uses: processor time, context switches, memory, connections.

Linux only; any thread. Workers cannot use psutil: their virtual environment may lack it. psutil
also has neither the peak of the memory nor the time of a thread in steps below 10 ms.
"""

from __future__ import annotations

import os
import resource
import socket
import stat
import time
from collections.abc import Iterable
from typing import Any, NamedTuple


class Usage(NamedTuple):
    """Processor time (user and system, microseconds), context switches (voluntary or not)."""

    cpu_us: float
    switches: int

    def since(self, before: Usage) -> Usage:
        """Return the usage since ``before``."""
        return Usage(self.cpu_us - before.cpu_us, self.switches - before.switches)


def own() -> Usage:
    """Return the usage of this process: of all its threads, also of ended ones."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage((used.ru_utime + used.ru_stime) * 1e6, used.ru_nvcsw + used.ru_nivcsw)


def peak_kib(pid: int | str = "self") -> int:
    """Return the peak of a process's resident memory, KiB.

    ``ru_maxrss`` is no substitute: it counts the memory that the parent had when it started the
    process.
    """
    return _status(pid, "VmHWM:")


def resident_kib() -> int:
    """Return the memory that this process has resident now, KiB."""
    return _status("self", "VmRSS:")


def of_threads(ids: Iterable[int]) -> float:
    """Return the processor time that threads of this process have used so far, microseconds."""
    total = 0
    for thread in ids:
        try:
            total += int(_read(f"/proc/self/task/{thread}/schedstat").split()[0])
        except OSError:
            continue  # the thread has ended
    return total / 1e3


def sever() -> dict[str, Any]:
    """Shut down all TCP connections of this process, as a failure of the network does.

    :returns: ``connections``: their number; ``at``: when this began, monotonic nanoseconds
    """
    at, count = time.monotonic_ns(), 0
    for name in os.listdir("/proc/self/fd"):
        try:
            descriptor = os.dup(int(name))
        except OSError:
            continue  # the descriptor that listed the folder
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            continue
        with socket.socket(fileno=descriptor) as sock:
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                    count += 1
                except OSError:
                    pass  # the socket is not connected
    return {"at": at, "connections": count}


def _status(pid: int | str, name: str) -> int:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
