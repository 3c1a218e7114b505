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

"""Takes a process its connections, as a failing network does."""

from __future__ import annotations

import os
import socket
import stat
import time
from typing import Any


def sever() -> dict[str, Any]:
    """Shut down all TCP connections that this process has; how many, and when that began."""
    at = time.monotonic_ns()
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            descriptor = os.dup(int(name))
        except OSError:
            continue  # that of the listing
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
        return False  # it is not connected
    return True
