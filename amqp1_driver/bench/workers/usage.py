# SPDX-License-Identifier: Apache-2.0

"""The resources that processes use: processor time, context switches, memory.

Linux only; any thread.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from typing import NamedTuple

_TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Processor time in microseconds, user and system, and context switches of either kind."""

    cpu_us: float
    switches: int

    def since(self, before: Usage) -> Usage:
        """Return the usage since ``before``."""
        return Usage(self.cpu_us - before.cpu_us, self.switches - before.switches)


def own() -> Usage:
    """Return the usage of this process: of all its threads, also of ended ones."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage((used.ru_utime + used.ru_stime) * 1e6, used.ru_nvcsw + used.ru_nivcsw)


def of_process(pid: int) -> Usage:
    """Return the usage of any process, with processor time in steps of 10 ms.

    :raises OSError: the process has ended
    """
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    switches = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            status = _read(f"/proc/{pid}/task/{thread}/status")
        except OSError:
            continue  # the thread has just ended
        switches += sum(
            int(line.split()[1]) for line in status.splitlines() if "ctxt_switches:" in line
        )
    return Usage((int(fields[11]) + int(fields[12])) * _TICK_US, switches)


def peak_kib(pid: int | str = "self") -> int:
    """Return the peak of a process's resident memory, KiB.

    ``ru_maxrss`` is no substitute: it counts the memory that the parent had when it started the
    process.
    """
    return _status(pid, "VmHWM:")


def resident_kib(pid: int | str = "self") -> int:
    """Return the memory that a process has resident now, KiB."""
    return _status(pid, "VmRSS:")


def of_threads(ids: Iterable[int]) -> float:
    """Return the processor time that threads of this process have used so far, microseconds."""
    total = 0
    for thread in ids:
        try:
            total += int(_read(f"/proc/self/task/{thread}/schedstat").split()[0])
        except OSError:
            continue  # the thread has ended
    return total / 1e3


def _status(pid: int | str, name: str) -> int:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
