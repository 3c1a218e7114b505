# SPDX-License-Identifier: Apache-2.0

"""The numbers that the processes of one machine share out among themselves; any thread.

A process takes a number by binding a socket to a name in Linux's abstract name space. No file is
left behind, and the kernel frees the number when the process ends.
"""

import hashlib
import os
import weakref
from typing import TYPE_CHECKING

from amqp1_driver.eventloop import runtime

if TYPE_CHECKING:
    import socket

_slots: "weakref.WeakSet[WorkerSlot]" = weakref.WeakSet()


class WorkerSlot:
    """A number that belongs to this process until release() or the end of the process."""

    def __init__(self, number: int, sock: "socket.socket") -> None:
        self.number = number
        self._socket = sock
        _slots.add(self)

    def release(self) -> None:
        """Free the number for other processes; idempotent."""
        self._socket.close()


def claim(key: str, count: int) -> WorkerSlot | None:
    """Take the first number from 1 to ``count`` that is free for ``key``.

    Only Linux has abstract names; on other systems the number is always 1.

    :param key: processes that pass the same key get different numbers
    :returns: None if no number is free
    """
    module = runtime.native("socket")
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    for number in range(1, count + 1):
        sock = module.socket(module.AF_UNIX, module.SOCK_DGRAM)
        try:
            sock.bind(f"\0amqp1-driver.{digest}.{number}")
            return WorkerSlot(number, sock)
        except FileNotFoundError:
            return WorkerSlot(1, sock)
        except OSError:
            sock.close()
    return None


def _after_fork_in_child() -> None:
    """Close the inherited sockets; the numbers belong to the parent process."""
    for slot in list(_slots):
        slot.release()


os.register_at_fork(after_in_child=_after_fork_in_child)
