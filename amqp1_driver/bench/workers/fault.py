# SPDX-License-Identifier: Apache-2.0

"""The imitated failure of a network: a worker loses all its connections. Any thread."""

from __future__ import annotations

import os
import socket
import stat
import time
from typing import Any


def sever() -> dict[str, Any]:
    """Shut down all TCP connections of this process.

    :returns: ``connections``: their number; ``at``: when this began, monotonic nanoseconds
    """
    at = time.monotonic_ns()
    count = 0
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
                count += _shut(sock)
    return {"at": at, "connections": count}


def _shut(sock: socket.socket) -> bool:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False  # the socket is not connected
    return True
