# SPDX-License-Identifier: Apache-2.0
"""What a process holds: threads, file descriptors, memory. Linux."""

from __future__ import annotations

import gc
import os
import threading
import time
from pathlib import Path


def descriptors() -> dict[int, str]:
    """Open file descriptors and what they are, but for the one that reads them."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


class Leftovers:
    """Compares what there is with what there was when it was made."""

    def __init__(self) -> None:
        self._descriptors = descriptors()
        self._threads = threads()

    def find(self, timeout: float) -> list[str]:
        """What has been added; threads may end until then, this one does not count."""
        gc.collect()
        until = time.monotonic() + timeout
        found = []
        for thread in threads() - self._threads - {threading.current_thread()}:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                found.append(f"thread {thread.name}")
        for number, what in descriptors().items():
            if self._descriptors.get(number) != what:
                found.append(f"fd {number} {what}")
        return sorted(found)


def resident() -> int:
    """Bytes resident now."""
    return _status("VmRSS")


def reset_peak() -> int:
    """Bytes resident now; from here on `peak` counts anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident()


def peak() -> int:
    """Most bytes resident since `reset_peak`."""
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)
