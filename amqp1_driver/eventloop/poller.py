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

"""Waiting for descriptors and for wake-ups: epoll natively, select elsewhere."""

import functools
import os
from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver.eventloop import runtime

# The values of epoll's EPOLLIN and EPOLLOUT, so that its answers need no translation.
READ = 1
WRITE = 4

_MAX_EVENTS = 64


class Waker:
    """Interrupts the poller from any thread.

    The lock keeps a late wake() off a descriptor number that close() has just given back to
    the system. It is a native lock under eventlet too: nothing that it covers can switch, and
    the resolver's native threads take it. ``_pending`` spares the system calls of posters that
    come between the wake-up and the loop's answer to it.
    """

    def __init__(self) -> None:
        self._lock = runtime.native("threading").Lock()
        self._pending = False
        self._closed = False
        self._fds: tuple[int, ...]
        self._write: Callable[[], object]
        if hasattr(os, "eventfd"):
            fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._fds = (fd,)
            # These two are not among the calls that eventlet replaces in os.
            self._write = functools.partial(os.eventfd_write, fd, 1)
            self._read: Callable[[], object] = functools.partial(os.eventfd_read, fd)
        else:
            system = runtime.native("os")
            self._fds = os.pipe()  # close-on-exec by default
            for fd in self._fds:
                os.set_blocking(fd, False)
            self._write = functools.partial(system.write, self._fds[1], b"x")
            self._read = functools.partial(system.read, self._fds[0], 64)

    def fileno(self) -> int:
        """The descriptor that becomes readable."""
        return self._fds[0]

    def wake(self) -> None:
        """Make the poller return. Any thread; does nothing after close()."""
        if self._pending:
            return  # the loop clears it before it looks for work
        with self._lock:
            if not (self._closed or self._pending):
                # No bytecode boundary at which a signal handler could raise lies between
                # the two: a wake-up is never marked and not sent.
                self._pending = True
                self._write()

    def clear(self, read: bool) -> None:
        """Take back the wake-ups. Loop thread; look for work only after it.

        ``read`` is what Poller.add_waker() said.
        """
        if read:
            try:
                self._read()
            except BlockingIOError:
                pass
        self._pending = False

    def close(self) -> None:
        """Give the descriptors back."""
        with self._lock:
            self.abandon()

    def abandon(self) -> None:
        """close() in the child of a fork, where the lock may be held for ever."""
        if not self._closed:
            self._closed = True
            for fd in self._fds:
                os.close(fd)


class Poller(Protocol):
    """Which descriptors are ready. Lives on the loop thread."""

    def add_waker(self, fd: int) -> bool:
        """Watch the descriptor of a waker; True if its wake-ups must be read off."""

    def add(self, fd: int, mask: int) -> None:
        """Watch a descriptor for READ, WRITE or both."""

    def change(self, fd: int, mask: int) -> None:
        """Watch for something else."""

    def remove(self, fd: int) -> None:
        """Watch no more; must come before the descriptor is closed."""

    def poll(self, timeout: float | None) -> list[tuple[int, int]]:
        """Wait up to ``timeout`` seconds; (descriptor, mask) for each that is ready."""

    def close(self) -> None:
        """Let go of the system's resources."""


class EpollPoller:
    """epoll(7), level-triggered. A descriptor in error counts as all that it is watched for."""

    def __init__(self, epoll: Any) -> None:
        self._epoll = epoll  # close-on-exec, as Python opens it
        self._masks: dict[int, int] = {}

    def add_waker(self, fd: int) -> bool:
        # Edge-triggered, each wake-up is an event by itself. Reading would be one more system
        # call that gives up the interpreter's lock for each wake-up.
        self._epoll.register(fd, READ | _EPOLLET)
        self._masks[fd] = READ
        return False

    def add(self, fd: int, mask: int) -> None:
        self._epoll.register(fd, mask)
        self._masks[fd] = mask

    def change(self, fd: int, mask: int) -> None:
        self._epoll.modify(fd, mask)
        self._masks[fd] = mask

    def pause(self, fd: int) -> None:
        self._epoll.modify(fd, 0)  # errors are told all the same

    def remove(self, fd: int) -> None:
        del self._masks[fd]
        self._epoll.unregister(fd)

    def poll(self, timeout: float | None) -> list[tuple[int, int]]:
        events: list[tuple[int, int]] = self._epoll.poll(timeout, _MAX_EVENTS)
        for _, bits in events:
            if bits & ~(READ | WRITE):
                return [(fd, self._from_epoll(fd, bits)) for fd, bits in events]
        return events

    def close(self) -> None:
        self._epoll.close()

    def _from_epoll(self, fd: int, bits: int) -> int:
        return self._masks[fd] if bits & (_EPOLLERR | _EPOLLHUP) else bits & (READ | WRITE)


# The values of the kernel's interface: eventlet takes the names away from the select module.
_EPOLLERR, _EPOLLHUP, _EPOLLET = 0x8, 0x10, 1 << 31


class SelectPoller:
    """select(2), or eventlet's function of that name, which has no limit of 1024."""

    def __init__(self, select: Callable[..., Any]) -> None:
        self._select = select
        self._readers: set[int] = set()
        self._writers: set[int] = set()

    def add_waker(self, fd: int) -> bool:
        self.add(fd, READ)
        return True

    def add(self, fd: int, mask: int) -> None:
        self.change(fd, mask)

    def change(self, fd: int, mask: int) -> None:
        (self._readers.add if mask & READ else self._readers.discard)(fd)
        (self._writers.add if mask & WRITE else self._writers.discard)(fd)

    def remove(self, fd: int) -> None:
        self.change(fd, 0)

    def poll(self, timeout: float | None) -> list[tuple[int, int]]:
        readable, writable, _ = self._select(list(self._readers), list(self._writers), [], timeout)
        masks = dict.fromkeys(readable, READ)
        for fd in writable:
            masks[fd] = masks.get(fd, 0) | WRITE
        return list(masks.items())

    def close(self) -> None:
        self._readers.clear()
        self._writers.clear()


def make_poller() -> Poller:
    """The poller for the thread model that the process runs under now."""
    if runtime.is_green():
        return SelectPoller(runtime.green_select())
    select = runtime.native("select")
    if hasattr(select, "epoll"):
        return EpollPoller(select.epoll())
    return SelectPoller(select.select)
