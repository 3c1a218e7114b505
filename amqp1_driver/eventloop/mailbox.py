# SPDX-License-Identifier: Apache-2.0

"""The one way from application threads to the I/O thread: a queue of operations; any thread."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from amqp1_driver import exceptions
from amqp1_driver.eventloop.errors import LoopClosed, MailboxFull

LOG = exceptions.logger(__name__)

Entry = tuple[Callable[[Any], object], Any]


class Mailbox:
    """A queue of operations for the loop, in the order of posting.

    Threads: post() runs on any thread, everything else on the thread that holds the loop lock
    (``loop_lock``). The mailbox itself has no lock: a deque's append and popleft are atomic, and
    each flag has one writer at a time.

    No wake-up is lost: a poster appends before it checks whether the loop sleeps, and the loop
    says that it sleeps before it checks whether the deque is empty. So at least one of the two
    sees the other.

    :param capacity: operations that the mailbox holds before a bounded post() waits
    :param wake: wakes the loop; called on the posting thread
    """

    def __init__(self, capacity: int, wake: Callable[[], object]) -> None:
        self._capacity = capacity
        self._wake = wake
        #: operations that have not run yet
        self.entries: deque[Entry] = deque()
        self._waiters: deque[Any] = deque()  # locks; _grant() releases one for each free place
        #: set by the loop before it looks for work once more and then waits
        self.sleeping = False
        #: set by the loop while its wait is a nap (iteration.NAP_SECONDS), which ends soon without
        #: a wake-up
        self.napping = False
        self._closed: tuple[str, BaseException | None] | None = None
        self._ended = False  # set after _closed; posters check it after the append

    def __len__(self) -> int:
        return len(self.entries)

    def closed(self) -> bool:
        """Return True once close() has begun."""
        return self._closed is not None

    def post(
        self,
        fn: Callable[[Any], object],
        op: Any = None,
        *,
        lazily: bool = False,
        bounded: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Have the loop call ``fn(op)``; without ``bounded`` this method never blocks.

        :param lazily: the operation may wait for the next post() or for the end of the loop's nap.
            A nap is the short wait (``iteration.NAP_SECONDS``) after a batch in which the loop has
            woken other threads. Operations that come in quick succession during a nap go out
            together, after one wake-up. If the loop sleeps without a nap, this call wakes it.
        :param bounded: wait for room if the mailbox is full
        :param timeout: seconds to wait for room; None waits for ever
        :raises MailboxFull: there was no room in time.
        :raises LoopClosed: the loop has ended. The mailbox aborts an operation that it has
            accepted and never ran.
        """
        if bounded and (len(self.entries) >= self._capacity or self._waiters):
            self._wait_for_room(timeout)
        if self._closed is not None:
            raise LoopClosed(*self._closed)
        self.entries.append((fn, op))
        if self._ended:
            self._abort_leftovers()  # closed between the check and the append
        elif self.sleeping and not (lazily and self.napping):
            self._wake()

    def _wait_for_room(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._closed is None:
            gate = threading.Lock()
            gate.acquire()
            self._waiters.append(gate)
            try:
                # The loop can see this waiter from here on, so a grant cannot be missed. Wait only
                # if the mailbox is still full and open.
                granted = not self._full() or self._closed or _acquire(gate, deadline)
            except BaseException:
                if not self._withdraw(gate):
                    self._grant()  # this caller gives up, so the next one gets its room
                raise
            if self._withdraw(gate) and not granted:
                raise MailboxFull(f"no room: {self._capacity} operations are waiting")
            if not self._full():
                return

    def _full(self) -> bool:
        return len(self.entries) >= self._capacity

    def _withdraw(self, gate: Any) -> bool:
        """Leave the queue of waiters; return False if the loop has granted room already."""
        try:
            self._waiters.remove(gate)
        except ValueError:
            return False
        return True

    def _grant(self) -> None:
        """Release as many waiters as there is room for."""
        for _ in range(self._capacity - len(self.entries)):
            try:
                gate = self._waiters.popleft()
            except IndexError:
                return
            gate.release()

    def drain(self, limit: int) -> int:
        """Run up to ``limit`` operations.

        An exception of an operation ends the loop. The mailbox aborts that operation first.

        :returns: the number of operations that ran
        """
        entries = self.entries
        count = len(entries)
        if count > limit:
            count = limit
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
        """Accept no more operations, and abort those that are left.

        Each operation that has an ``abort(exc)`` method gets a LoopClosed of its own.

        :param cause: the exception that ended the loop, None after an orderly end
        """
        if self._closed is None:
            self._closed = (message, cause)
        self._ended = True
        self.sleeping = False
        self._abort_leftovers()
        while True:
            try:
                gate = self._waiters.popleft()
            except IndexError:
                return  # also if the last waiter has just given up
            gate.release()

    def discard(self) -> None:
        """Drop all operations without aborting them, in the child of a fork."""
        self.entries.clear()
        self._waiters.clear()

    def _abort_leftovers(self) -> None:
        while self.entries:
            try:
                _, op = self.entries.popleft()
            except IndexError:
                return  # another thread took the last one
            # a new exception for each, so that threads share no traceback
            if self._closed is not None:
                abort(op, LoopClosed(*self._closed))


def _acquire(gate: Any, deadline: float | None) -> bool:
    if deadline is None:
        return bool(gate.acquire())
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        return bool(gate.acquire(False))
    return bool(gate.acquire(True, min(remaining, threading.TIMEOUT_MAX)))


def abort(op: Any, error: LoopClosed) -> None:
    """Call ``op.abort(error)``, if ``op`` has that method; log an exception that it raises.

    :param op: an operation that never runs because the loop has ended, or that has raised
    """
    tell = getattr(op, "abort", None)
    if tell is None:
        return
    try:
        tell(error)
    except Exception:
        LOG.exception("aborting %r failed", op)
