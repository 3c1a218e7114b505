# SPDX-License-Identifier: Apache-2.0

"""Processes of a job: found by their session, waited for by the kernel's word."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path


def members(session: int) -> list[int]:
    """All processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


def gone(pid: int, timeout: float) -> bool:
    """Wait until a process, anybody's child, has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(timeout * 1000))
    finally:
        os.close(handle)


def left(session: int, timeout: float) -> list[int]:
    """The processes of a session that have not ended after so many seconds."""
    until = time.monotonic() + timeout
    while True:
        found = members(session)
        if not all(gone(pid, max(0.0, until - time.monotonic())) for pid in found):
            return members(session)
        if not found:
            return []


def kill(pid: int) -> None:
    """SIGKILL; returns when it has ended.

    :raises TimeoutError: the kernel does not end it
    """
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    if not gone(pid, 20):
        raise TimeoutError(f"process {pid} does not end")
