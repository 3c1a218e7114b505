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

"""One writer at a time: whoever opens the spool last fences all others out.

After a JVM was killed its reader process lives on for seconds, still connected and writing. An
exclusive lock alone would keep the new one waiting for it; so the new one takes the next epoch,
and every change is made under the lock and only while the epoch is still one's own.
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
#: seconds; the lock is held for a rename and two fsyncs only
TIMEOUT = 30.0


class Fence:
    """The right to change a folder. Any thread.

    :param folder: exists
    """

    def __init__(self, folder: Path, timeout: float = TIMEOUT) -> None:
        self._folder = folder
        self._timeout = timeout
        self._threads = threading.Lock()
        self._handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.epoch = 0

    @contextmanager
    def take(self) -> Iterator[None]:
        """Take the next epoch; the lock is held until the context ends, to look around in peace.

        :raises SpoolError: the lock is not to be had in time
        """
        with self._locked():
            self.epoch = self._read() + 1
            files.replace(self._folder / EPOCH, b"%d\n" % self.epoch)
            yield

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for a change.

        :raises Fenced: another one has taken a later epoch
        :raises SpoolError: the lock is not to be had in time
        """
        with self._locked():
            current = self._read()
            if current != self.epoch:
                raise Fenced(
                    f"the spool {self._folder} was opened by another process (epoch {current}, "
                    f"ours is {self.epoch}): this one writes and acknowledges nothing more")
            yield

    def close(self) -> None:
        """Give the file handle back."""
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
                    f"{self._timeout:g} s") from None
            os.close(self._handle)
            self._handle = handle


class _Waiter:
    """Waits for a lock on a thread of its own, because the kernel's wait has no deadline and only
    the main thread can be interrupted in it.

    A wait that is given up goes on there, on a handle of its own; the lock that it gets in the end
    is let go at once. A process that ends does not wait for it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        #: the handle with the lock, or the error; whoever takes it decides
        self._got: queue.SimpleQueue[int | OSError] = queue.SimpleQueue()
        self._deciding = threading.Lock()
        self._given_up = False

    def wait(self, timeout: float) -> int | None:
        """The handle with the lock; None if it was not to be had in so many seconds.

        :raises OSError: it cannot be locked
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
