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
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amqp1_driver.pipeline.spool import files
from amqp1_driver.pipeline.spool.errors import Damaged, Fenced, SpoolError

LOCK = "lock"
EPOCH = "epoch"
#: seconds; the lock is held for a rename and two fsyncs only
TIMEOUT = 30.0
_PAUSE = 0.01


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
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise SpoolError(
                        f"the spool {self._folder} was locked by another process for "
                        f"{self._timeout:g} s") from None
            time.sleep(_PAUSE)
