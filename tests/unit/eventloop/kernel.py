# SPDX-License-Identifier: Apache-2.0


"""Descriptors without a system: eventfd, epoll, poll and sockets; each call is a switch point."""

import errno
import os
import select
from typing import Any

from tests.unit.eventloop.scheduler import Scheduler, Threading, Violation

_ERR, _HUP, _NVAL, _ET = select.EPOLLERR, select.EPOLLHUP, select.POLLNVAL, 1 << 31
_IN, _OUT = select.EPOLLIN, select.EPOLLOUT


class File:
    """Something with a descriptor."""

    def events(self) -> int:
        """What it is ready for."""
        return 0


class EventFd(File):
    count = 0

    def events(self) -> int:
        return _OUT | (_IN if self.count else 0)


class Watched:
    """One entry of an epoll set."""

    def __init__(self, file: File, mask: int) -> None:
        self.file = file
        self.mask = mask
        self.armed = True

    def events(self) -> int:
        ready = self.file.events() & (self.mask | _ERR | _HUP)
        return ready if self.armed or not self.mask & _ET else 0


class Epoll(File):
    def __init__(self, kernel: "Kernel") -> None:
        self._kernel = kernel
        self._fd = kernel.open(self)
        self.set: dict[int, Watched] = {}
        self.closed = False

    def _check(self) -> None:
        self._kernel.scheduler.point()
        if self.closed:
            raise ValueError("I/O operation on closed epoll object")

    def register(self, fd: int, mask: int) -> None:
        self._check()
        if fd in self.set:
            raise FileExistsError(errno.EEXIST, "File exists")
        self.set[fd] = Watched(self._kernel.file(fd), mask)

    def modify(self, fd: int, mask: int) -> None:
        self._check()
        self._kernel.file(fd)
        if fd not in self.set:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        self.set[fd].mask = mask

    def unregister(self, fd: int) -> None:
        self._check()
        self._kernel.file(fd)
        if fd not in self.set:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        del self.set[fd]

    def poll(self, timeout: float | None, maxevents: int) -> list[tuple[int, int]]:
        self._check()
        scheduler = self._kernel.scheduler
        until = None if timeout is None or timeout < 0 else scheduler.now + timeout
        scheduler.block(lambda: any(one.events() for one in self.set.values()), until)
        ready = [(fd, one.events()) for fd, one in self.set.items() if one.events()][:maxevents]
        for fd, _ in ready:
            if self.set[fd].mask & _ET:
                self.set[fd].armed = False
        scheduler.point()
        return ready

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._kernel.close(self._fd)


class Poll:
    def __init__(self, kernel: "Kernel") -> None:
        self._kernel = kernel
        self._fds: dict[int, int] = {}
        self._polling = False

    def register(self, fd: int, mask: int) -> None:
        self._fds[fd] = mask

    def unregister(self, fd: int) -> None:
        del self._fds[fd]

    def _ready(self) -> list[tuple[int, int]]:
        files = self._kernel.files
        found = [
            (fd, files[fd].events() & (mask | _ERR | _HUP) if fd in files else _NVAL)
            for fd, mask in self._fds.items()
        ]
        return [(fd, bits) for fd, bits in found if bits]

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        if self._polling:
            raise RuntimeError("concurrent poll() invocation")
        self._polling = True
        scheduler = self._kernel.scheduler
        try:
            scheduler.point()
            # The system holds on to the files, and looks at the numbers again once one is ready.
            held = [(self._kernel.files.get(fd), mask) for fd, mask in self._fds.items()]
            scheduler.block(
                lambda: any(
                    file is None or file.events() & (mask | _ERR | _HUP) for file, mask in held
                ),
                scheduler.now + timeout / 1000,
            )
            ready = self._ready()
            scheduler.point()
            return ready
        finally:
            self._polling = False


class Socket(File):
    """One end of a connection; the test is the other."""

    def __init__(self, kernel: "Kernel", room: int) -> None:
        self._kernel = kernel
        self._fd = kernel.open(self)
        self._room = room
        self.sent = bytearray()
        self.received = bytearray()
        self.ended = self.reset = self.told = self.closed = False

    def events(self) -> int:
        if self.reset:
            return _IN | _OUT | _ERR | _HUP
        taking = _OUT if len(self.sent) < self._room else 0
        return taking | (_IN if self.received or self.ended else 0)

    def fileno(self) -> int:
        return -1 if self.closed else self._fd

    def _enter(self) -> None:
        self._kernel.scheduler.point()
        if self.closed:
            raise OSError(errno.EBADF, "Bad file descriptor")

    def recv_into(self, buffer: memoryview) -> int:
        self._enter()
        if self.reset:
            if self.told:
                return 0
            self.told = True
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        if not self.received:
            if self.ended:
                return 0
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        n = min(len(buffer), len(self.received))
        buffer[:n] = self.received[:n]
        del self.received[:n]
        return n

    def send(self, data: Any) -> int:
        self._enter()
        if self.reset:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        data = data[: self._room - len(self.sent)]
        if not data:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        self.sent += data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._kernel.close(self._fd)


class Kernel:
    """The system's table of descriptors. Numbers are used again at once, the lowest first."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.files: dict[int, File] = {}

    def open(self, file: File) -> int:
        fd = next(number for number in range(3, 1000) if number not in self.files)
        self.files[fd] = file
        return fd

    def file(self, fd: int) -> File:
        if fd not in self.files:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return self.files[fd]

    def close(self, fd: int) -> None:
        self.scheduler.point()
        file = self.file(fd)
        del self.files[fd]
        for other in self.files.values():
            if isinstance(other, Epoll) and fd in other.set and other.set[fd].file is file:
                del other.set[fd]


class Os:
    """The module ``os``, as far as the event loop uses it."""

    EFD_CLOEXEC, EFD_NONBLOCK = os.EFD_CLOEXEC, os.EFD_NONBLOCK

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.close = kernel.close

    def eventfd(self, count: int, flags: int) -> int:
        self._kernel.scheduler.point()
        return self._kernel.open(EventFd())

    def _eventfd(self, fd: int) -> EventFd:
        self._kernel.scheduler.point()
        file = self._kernel.file(fd)
        if not isinstance(file, EventFd):
            raise Violation(f"descriptor {fd} belongs to somebody else by now")
        return file

    def eventfd_write(self, fd: int, n: int) -> None:
        file = self._eventfd(fd)
        file.count += n
        for other in self._kernel.files.values():
            if isinstance(other, Epoll) and fd in other.set:
                other.set[fd].armed = True
        self._kernel.scheduler.point()

    def eventfd_read(self, fd: int) -> int:
        file = self._eventfd(fd)
        if not file.count:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        count, file.count = file.count, 0
        return count


class Select:
    """The module ``select``."""

    POLLIN = select.POLLIN

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def epoll(self) -> Epoll:
        return Epoll(self._kernel)

    def poll(self) -> Poll:
        return Poll(self._kernel)


class Runtime:
    """``amqp1_driver.eventloop.runtime``: native threads."""

    def __init__(self, kernel: Kernel) -> None:
        self._modules = {
            "threading": Threading(kernel.scheduler),
            "select": Select(kernel),
            "os": Os(kernel),
        }

    def native(self, name: str) -> Any:
        return self._modules[name]

    def is_green(self) -> bool:
        return False
