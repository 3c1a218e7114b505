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

"""The one way from application threads to the I/O thread."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from amqp1_driver.eventloop.errors import LoopClosed, MailboxFull

LOG = logging.getLogger(__name__)

Entry = tuple[Callable[[Any], object], Any]


class Mailbox:
    """Operations for the loop, in the order in which they were handed in.

    Threads: post() and put() on any thread, everything else on the loop. There is no lock:
    a deque's append and popleft are atomic. The wake-up rule that loses nothing: the poster
    appends, then looks whether the loop sleeps; the loop says that it sleeps, then looks
    whether the deque is empty. One of them sees the other.
    """

    def __init__(self, capacity: int, wake: Callable[[], object]) -> None:
        self._capacity = capacity
        self._wake = wake
        #: what waits to be run
        self.entries: deque[Entry] = deque()
        self._waiters: deque[Any] = deque()  # locks, released one by one as room appears
        #: set by the loop: it is about to wait, and then has looked for work once more
        self.sleeping = False
        #: set by the loop: it waits for a moment only, and then looks for work by itself
        self.napping = False
        self._closed: tuple[str, BaseException | None] | None = None
        self._ended = False  # as _closed, for whom it has been None a moment ago

    def __len__(self) -> int:
        return len(self.entries)

    def closed(self) -> bool:
        """True once close() has begun."""
        return self._closed is not None

    def post(self, fn: Callable[[Any], object], op: Any = None) -> None:
        """Have the loop call ``fn(op)``; never blocks and ignores the capacity.

        :raises LoopClosed: the loop has ended. What was accepted and never ran is aborted.
        """
        if self._closed is not None:
            raise LoopClosed(*self._closed)
        self.entries.append((fn, op))
        if self._ended:
            self._abort_leftovers()  # closed between the check and the append
        elif self.sleeping:
            self._wake()

    def post_idly(self, fn: Callable[[Any], object], op: Any = None) -> None:
        """As post(), for what may wait until something else is posted, or for a nap's time.

        So much that comes in quick succession goes out together, at one wake-up. A loop that
        has woken nobody just now is woken at once.

        :raises LoopClosed: the loop has ended.
        """
        if self._closed is not None:
            raise LoopClosed(*self._closed)
        self.entries.append((fn, op))
        if self._ended:
            self._abort_leftovers()
        elif self.sleeping and not self.napping:
            self._wake()

    def put(self, fn: Callable[[Any], object], op: Any, timeout: float | None) -> None:
        """As post(), but wait up to ``timeout`` seconds (None: for ever) for room.

        :raises MailboxFull: no room in time.
        :raises LoopClosed: the loop has ended.
        """
        if len(self.entries) >= self._capacity or self._waiters:
            self._wait_for_room(timeout)
        self.post(fn, op)

    def _wait_for_room(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._closed is None:
            gate = threading.Lock()
            gate.acquire()
            self._waiters.append(gate)
            try:
                # Full, and the loop has not ended, after it could see this waiter? Then wait.
                granted = not self._full() or self._closed or _acquire(gate, deadline)
            except BaseException:
                if not self._withdraw(gate):
                    self._grant()  # room granted to a caller that gave up goes to the next
                raise
            if self._withdraw(gate) and not granted:
                raise MailboxFull(f"no room: {self._capacity} operations are waiting")
            if not self._full():
                return

    def _full(self) -> bool:
        return len(self.entries) >= self._capacity

    def _withdraw(self, gate: Any) -> bool:
        """Leave the queue of waiters; False if room had been granted already."""
        try:
            self._waiters.remove(gate)
        except ValueError:
            return False
        return True

    def _grant(self) -> None:
        """Let as many waiters go on as there is room."""
        for _ in range(self._capacity - len(self.entries)):
            try:
                gate = self._waiters.popleft()
            except IndexError:
                return
            gate.release()

    def drain(self, limit: int) -> int:
        """Run up to ``limit`` operations; the number that ran.

        An exception of an operation ends the loop; the operation is aborted first.
        """
        entries = self.entries
        count = min(limit, len(entries))
        for _ in range(count):
            fn, op = entries.popleft()
            try:
                fn(op)
            except BaseException as exc:
                abort(op, LoopClosed("the event loop died of this operation", exc))
                raise
        if self._waiters:
            self._grant()
        return count

    def close(self, message: str, cause: BaseException | None = None) -> None:
        """Accept nothing more and abort what is left.

        Each operation that has an ``abort(exc)`` method gets a LoopClosed of its own.
        """
        if self._closed is None:
            self._closed = (message, cause)
        self._ended = True
        self.sleeping = False
        self._abort_leftovers()
        while self._waiters:
            self._waiters.popleft().release()

    def discard(self) -> None:
        """Forget everything without aborting: for the child of a fork."""
        self.entries.clear()
        self._waiters.clear()

    def _abort_leftovers(self) -> None:
        while self.entries:
            try:
                _, op = self.entries.popleft()
            except IndexError:
                return  # another thread was faster
            if self._closed is not None:  # a new exception each: threads share no traceback
                abort(op, LoopClosed(*self._closed))


def _acquire(gate: Any, deadline: float | None) -> bool:
    if deadline is None:
        return bool(gate.acquire())
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        return bool(gate.acquire(False))
    return bool(gate.acquire(True, min(remaining, threading.TIMEOUT_MAX)))


def abort(op: Any, error: LoopClosed) -> None:
    """Tell an operation that it will never run, or has failed to."""
    tell = getattr(op, "abort", None)
    if tell is None:
        return
    try:
        tell(error)
    except Exception:
        LOG.exception("aborting %r failed", op)
