# SPDX-License-Identifier: Apache-2.0

"""The loop's wait for descriptors and wake-ups: epoll with native threads, otherwise select."""

import functools
import os
from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver.eventloop import runtime

# The values of EPOLLIN and EPOLLOUT, so that answers of epoll need no translation.
READ = 1
WRITE = 4
# The values of EPOLLERR and EPOLLHUP, which epoll reports without being asked. They are literals
# because eventlet removes the names from the select module.
ERROR = 0x8 | 0x10
_EPOLLET = 1 << 31

# Limit of the descriptors that are handled between two polls.
MAX_EVENTS = 64


class Waker:
    """A descriptor through which any thread can interrupt the poller.

    The lock prevents a late wake() from writing to a descriptor number that close() has just
    given back to the system. It is a native lock under eventlet too: the code under the lock
    cannot switch green threads, and the resolver's native threads take the lock. ``_pending``
    saves the system calls of further posters between a wake-up and the loop's clear().
    """

    def __init__(self) -> None:
        self._lock = runtime.native("threading").Lock()
        self._pending = False
        self._closed = True
        self._fds: tuple[int, ...] = ()
        self._write: Callable[[], object]

    def open(self) -> None:
        """Open the descriptors; before that wake() does nothing.

        :raises OSError: out of descriptors
        """
        if hasattr(os, "eventfd"):
            fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._fds = (fd,)
            # eventlet does not replace these two functions of os.
            self._write = functools.partial(os.eventfd_write, fd, 1)
            self._read: Callable[[], object] = functools.partial(os.eventfd_read, fd)
        else:
            system = runtime.native("os")
            self._fds = os.pipe()  # close-on-exec by default
            for fd in self._fds:
                os.set_blocking(fd, False)
            self._write = functools.partial(system.write, self._fds[1], b"x")
            self._read = functools.partial(system.read, self._fds[0], 64)
        self._closed = False

    def fileno(self) -> int:
        """Return the descriptor that wake() makes readable."""
        return self._fds[0]

    def wake(self) -> None:
        """Make the poller return. Runs on any thread; does nothing unless the waker is open."""
        if self._pending:
            return  # the loop clears the flag before it looks for work
        with self._lock:
            if not (self._closed or self._pending):
                # No bytecode boundary at which a signal handler could raise lies between
                # the two statements, so the flag is never set without a wake-up.
                self._pending = True
                self._write()

    def clear(self, read: bool) -> None:
        """Clear the wake-ups. Runs on the loop thread, which must look for work only after this.

        :param read: the result of Poller.add_waker()
        """
        if read:
            try:
                self._read()
            except BlockingIOError:
                pass
        self._pending = False

    def close(self) -> None:
        """Close the descriptors."""
        with self._lock:
            self.abandon()

    def abandon(self) -> None:
        """Close the descriptors in the child of a fork, where the lock may be held for ever."""
        if not self._closed:
            self._closed = True
            for fd in self._fds:
                os.close(fd)


#: wait up to the given seconds (None: for ever) for events, of which there are at most as many as
#: given; return (descriptor, bits of READ, WRITE and ERROR) for each descriptor that is ready
Poll = Callable[[float | None, int], list[tuple[int, int]]]


class Poller(Protocol):
    """An interface to the system's wait for ready descriptors. Lives on the loop thread.

    The loop's own thread calls poll() without the loop lock (``loop_lock``). If the watch is
    ``shared``, poll() therefore reads nothing that another method writes.
    """

    def add_waker(self, fd: int) -> bool:
        """Watch the descriptor of a waker.

        :returns: True if Waker.clear() must read the wake-ups from the descriptor
        """

    def add(self, fd: int, mask: int) -> None:
        """Watch a descriptor for READ, WRITE or both."""

    def change(self, fd: int, mask: int) -> None:
        """Replace the mask for which a descriptor is watched."""

    def remove(self, fd: int) -> None:
        """Stop watching a descriptor; call this before closing the descriptor."""

    @property
    def poll(self) -> Poll:
        """Wait for ready descriptors, with or without the loop lock (``loop_lock``)."""

    def close(self) -> None:
        """Release the resources of the system."""


class EpollPoller:
    """A poller over epoll(7), level-triggered. The kernel keeps and locks the descriptors."""

    def __init__(self, epoll: Any) -> None:
        self._epoll = epoll  # close-on-exec, as Python opens it

    def add_waker(self, fd: int) -> bool:
        # Edge-triggered: each wake-up is an event by itself. Reading would cost one more system
        # call for each wake-up, and that call would give up the interpreter's lock.
        self._epoll.register(fd, READ | _EPOLLET)
        return False

    def add(self, fd: int, mask: int) -> None:
        self._epoll.register(fd, mask)

    def change(self, fd: int, mask: int) -> None:
        self._epoll.modify(fd, mask)

    def pause(self, fd: int) -> None:
        self._epoll.modify(fd, 0)  # with an empty mask the kernel still reports errors

    def remove(self, fd: int) -> None:
        self._epoll.unregister(fd)

    @property
    def poll(self) -> Poll:
        return self._epoll.poll  # type: ignore[no-any-return]

    def close(self) -> None:
        self._epoll.close()


class SelectPoller:
    """A poller over select(2), or over eventlet's, which has no limit of 1024 descriptors."""

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

    def poll(self, timeout: float | None, _: int = MAX_EVENTS) -> list[tuple[int, int]]:
        readable, writable, _ = self._select(list(self._readers), list(self._writers), [], timeout)
        masks = dict.fromkeys(readable, READ)
        for fd in writable:
            masks[fd] = masks.get(fd, 0) | WRITE
        return list(masks.items())

    def close(self) -> None:
        self._readers.clear()
        self._writers.clear()


def make_poller() -> Poller:
    """Return a poller for the thread model that the process runs under now."""
    if runtime.is_green():
        return SelectPoller(runtime.green_select())
    select = runtime.native("select")
    if hasattr(select, "epoll"):
        return EpollPoller(select.epoll())
    return SelectPoller(select.select)
