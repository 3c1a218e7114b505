# SPDX-License-Identifier: Apache-2.0
"""Notes how late the machine runs what is ready: ``python -m tests.chaos.watchdog FOLDER``.

Each line on standard input, "NAME PID", is a process to watch. Linux counts for each thread how
long it was ready and not run (``schedstat``); of a process the longest of its threads counts.
Beside these the watchdog, which only sleeps, notes how late it is woken itself.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

from tests.chaos.history import Writer

TICK = 0.05
#: seconds; less is not noted
WORTH = 0.01


class Process:
    """How long the threads of a process, and of those forked from it, were ready but not run."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self._pid = pid
        self._before: dict[str, int] = {}

    def waited(self) -> float:
        """The most that any of the threads has waited since the last time, in seconds.

        :raises OSError: the process has ended
        """
        now = {}
        os.stat(f"/proc/{self._pid}")
        pids = [str(self._pid)]
        for pid in pids:
            for thread in _names(f"/proc/{pid}/task"):
                folder = f"/proc/{pid}/task/{thread}"
                now[thread] = int((_words(f"{folder}/schedstat") or ("0", "0"))[1])
                pids.extend(_words(f"{folder}/children"))
        longest = max(
            (
                total - self._before.get(thread, 0 if self._before else total)
                for thread, total in now.items()
            ),
            default=0,
        )
        self._before = now
        return longest / 1e9


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # it has ended
        return []


def _words(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().split()
    except OSError:  # it has ended
        return []


def watch(history: Writer) -> None:
    """Note what is late until standard input ends."""
    processes: list[Process] = []
    last = time.monotonic()
    while True:
        due = last + TICK
        ready = select.select([sys.stdin], [], [], TICK)[0]
        now = time.monotonic()
        if ready:
            line = sys.stdin.readline().split()
            if not line:
                return
            processes.append(Process(line[0], int(line[1])))
        elif now - due > WORTH:
            history.add("late", of=None, by=round(now - due, 6))
        for process in list(processes):
            try:
                waited = min(process.waited(), now - last)
            except OSError:
                processes.remove(process)
                continue
            if waited > WORTH:
                history.add("late", of=process.name, by=round(waited, 6))
        last = now


if __name__ == "__main__":
    watch(Writer(Path(sys.argv[1]), "watchdog"))
