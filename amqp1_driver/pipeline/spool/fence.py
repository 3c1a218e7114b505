# SPDX-License-Identifier: Apache-2.0

"""The fence that gives a spool one writer: the process that opened the spool last.  Any thread.

When a JVM is killed, its reader process lives on for seconds, still connected and writing. With an
exclusive lock alone, the next reader would have to wait for that process. Instead, the next reader
takes the next epoch, a number in a file of the folder. A process makes each change under the lock,
and only while the number in the folder is the one that it took.
"""

from __future__ import annotations

import fcntl
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amqp1_driver.pipeline.spool import files
from amqp1_driver.pipeline.spool.errors import Damaged, Fenced, SpoolError

LOCK = "lock"
EPOCH = "epoch"
#: seconds to wait for the lock; a change holds it for a rename and two fsyncs only
TIMEOUT = 30.0


class Fence:
    """The right of this process to change a folder. Any thread.

    :param folder: an existing folder
    :param timeout: seconds to wait for the lock
    """

    def __init__(self, folder: Path, timeout: float = TIMEOUT) -> None:
        self._folder = folder
        self._timeout = timeout
        self._threads = threading.Lock()
        self._handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.epoch = 0

    @contextmanager
    def take(self) -> Iterator[None]:
        """Take the next epoch, and hold the lock until the context ends.

        No other process changes the folder within the context, so the caller can read its files.

        :raises SpoolError: another process held the lock until the timeout, or the fence is closed
        :raises Damaged: the file with the epoch holds no number
        """
        with self._locked():
            self.epoch = self._read() + 1
            files.replace(self._folder / EPOCH, b"%d\n" % self.epoch)
            yield

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of the folder until the context ends; the caller makes one change within.

        :raises Fenced: another process has taken a later epoch
        :raises SpoolError: another process held the lock until the timeout, or the fence is closed
        :raises Damaged: the file with the epoch holds no number
        """
        with self._locked():
            current = self._read()
            if current != self.epoch:
                raise Fenced(
                    f"the spool {self._folder} was opened by another process (epoch {current}, "
                    f"ours is {self.epoch}): this one writes and acknowledges nothing more"
                )
            yield

    def close(self) -> None:
        """Close the file handle. A second call does nothing."""
        with self._threads:
            if self._handle >= 0:
                os.close(self._handle)
            self._handle = -1

    def _read(self) -> int:
        try:
            return int((self._folder / EPOCH).read_bytes())
        except FileNotFoundError:
            return 0
        except ValueError:
            raise Damaged(f"{self._folder / EPOCH} holds no number") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._threads:
            if self._handle < 0:
                raise SpoolError(f"the spool {self._folder} is closed")
            self._lock()
            try:
                yield
            finally:
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle = _Waiter(self._folder / LOCK).wait(self._timeout)
            if handle is None:
                raise SpoolError(
                    f"the spool {self._folder} was locked by another process for "
                    f"{self._timeout:g} s"
                ) from None
            os.close(self._handle)
            self._handle = handle


class _Waiter:
    """A wait for a lock, on a thread of its own.

    The kernel's wait has no deadline, and a signal interrupts it on the main thread only. After a
    timeout the thread keeps waiting, with a file handle of its own; when it gets the lock, it
    releases the lock at once. The thread is a daemon: the process can end without it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        #: the handle with the lock, or the error
        self._got: queue.SimpleQueue[int | OSError] = queue.SimpleQueue()
        self._deciding = threading.Lock()
        self._given_up = False

    def wait(self, timeout: float) -> int | None:
        """Wait for the lock.

        :param timeout: seconds
        :returns: the handle with the lock, which the caller closes; None: the timeout has passed
        :raises OSError: the file cannot be opened or locked
        """
        threading.Thread(target=self._run, name="amqp1-lock", daemon=True).start()
        try:
            found = self._got.get(timeout=timeout)
        except queue.Empty:
            with self._deciding:
                self._given_up = self._got.empty()
            if self._given_up:
                return None
            found = self._got.get()
        if isinstance(found, OSError):
            raise found
        return found

    def _run(self) -> None:
        handle = -1
        found: int | OSError
        try:
            handle = found = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            found = error
        with self._deciding:
            wanted = not self._given_up
            if wanted:
                self._got.put(found)
        if handle >= 0 and (not wanted or isinstance(found, OSError)):
            os.close(handle)
