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


"""Numbers that the processes of one machine share out among themselves.

A number is taken by binding a socket to a name in Linux's abstract name space: no file is left
behind, and the kernel gives the number back whenever its process ends. Any thread.
"""

import hashlib
import os
import weakref
from typing import TYPE_CHECKING

from amqp1_driver.eventloop import runtime

if TYPE_CHECKING:
    import socket

_slots: "weakref.WeakSet[Slot]" = weakref.WeakSet()


class Slot:
    """A number that is ours until it is released, or the process ends."""

    def __init__(self, number: int, sock: "socket.socket") -> None:
        self.number = number
        self._socket = sock
        _slots.add(self)

    def release(self) -> None:
        """Others may have it; idempotent."""
        self._socket.close()


def claim(key: str, count: int) -> Slot | None:
    """The first number from 1 to ``count`` that is free for ``key``, None if there is none.

    Where there are no abstract names, which is everywhere but on Linux, it is always 1.
    """
    module = runtime.native("socket")
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    for number in range(1, count + 1):
        sock = module.socket(module.AF_UNIX, module.SOCK_DGRAM)
        try:
            sock.bind(f"\0amqp1-driver.{digest}.{number}")
        except FileNotFoundError:
            return Slot(1, sock)
        except OSError:
            sock.close()
        else:
            return Slot(number, sock)
    return None


def _after_fork_in_child() -> None:
    """The numbers are the parent's."""
    for slot in list(_slots):
        slot.release()


os.register_at_fork(after_in_child=_after_fork_in_child)
