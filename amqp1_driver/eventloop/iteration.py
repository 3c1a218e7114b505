# SPDX-License-Identifier: Apache-2.0

"""One iteration of a loop, on the thread that holds the loop lock (``loop_lock``).

The order of an iteration: ready descriptors, due timers, operations, output, waiting threads.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from amqp1_driver.eventloop.futures import Future
from amqp1_driver.eventloop.mailbox import Mailbox
from amqp1_driver.eventloop.poller import MAX_EVENTS
from amqp1_driver.eventloop.timers import TimerQueue
from amqp1_driver.eventloop.watch import Callback, Watch

# Limit of the operations that run between two polls of the sockets.
BATCH = 256
# Seconds of a nap: the longest wait of the loop after it has woken other threads. The loop then
# sends together what these threads post in answer; a lazy post() does not end a nap.
NAP_SECONDS = 0.004
# Seconds of the longest wait, in place of NAP_SECONDS, while one thread makes call after call and
# serves itself (see Iteration). The batch of each call does the work that the last call has left.
CALM_SECONDS = 0.025


class Iteration:
    """The state of a loop, and the code of one iteration.

    A caller *stands in* for the loop when it does a batch on its own thread while the loop's own
    thread sleeps (see :class:`CallerRuns`). It *serves itself* if it then also reads the socket
    until its future is done.

    Threads: the thread that holds the loop lock (``loop_lock``) is the loop thread; ``ident`` is
    its id. The loop's own thread releases ``loop_lock`` only while it waits in the poller.
    release() and later() run on any thread, everything else on the holder of ``loop_lock``. Threads
    read these attributes without ``loop_lock``, for these reasons:

    * ``ident``: a thread compares ``ident`` with its own id, and only that thread writes or
      removes its own id.
    * ``stopping``: EventLoop.start() and stop() read it; it never becomes false again.
    * ``abandoned``: EventLoop.stop() and is_alive() read it. The child of a fork writes it, where
      no other thread is left.
    * ``watch``: start() writes it once, before the thread starts.
    * ``mailbox``: see :class:`Mailbox`.

    After the end no thread is the loop thread: ``loop_lock`` stays with the loop's own thread, or
    with the thread that served itself until then.

    :param mailbox: the operations that other threads post
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self.timers = TimerQueue()
        self.loop_lock = threading.Lock()
        self.loop_lock.acquire()
        self.ident: int | None = None
        #: None before the loop starts
        self.watch: Watch | None = None
        #: True if no further iteration may begin, and no thread may stand in: stop() was called, or
        #: the loop dies, or the loop belongs to the parent process
        self.stopping = False
        self.abandoned = False
        #: True once the loop has ended and has freed all that it held
        self.ended = False
        #: the future of the thread that serves itself; None if there is no such thread
        self.served_future: Future[Any] | None = None
        #: the exception of a thread that stood in; the loop's own thread raises it
        self.failure: BaseException | None = None
        self.hooks: list[Callback] = []
        self._gates: list[Any] = []
        self._later: list[Callback] = []
        #: limit of the loop's next wait in seconds, after which the hooks run again; 0: no limit
        self.linger = 0.0
        self._napping = 0.0
        # deadline of the earliest timer when the loop last began to wait
        self._due = 0.0
        #: time at which the present batch began, or the last one, seconds of the monotonic clock
        self.now = time.monotonic()

    def release(self, gate: Any) -> None:
        """Release a lock that another thread waits for.

        On the loop thread, release() queues the lock; the end of the present batch releases all
        queued locks together. A thread that wakes takes the interpreter's lock at the loop's next
        call into C. If the loop woke threads one by one, it would wait for each of them.
        """
        if self.ident == threading.get_ident():
            self._gates.append(gate)
        else:
            gate.release()

    def later(self, fn: Callback) -> None:
        """Call ``fn()``, which wakes other threads and must not block.

        On the loop thread, later() queues ``fn``; the end of the present batch calls it before
        the locks of release() are released.
        """
        if self.ident == threading.get_ident():
            self._later.append(fn)
        else:
            fn()

    def run(self, watch: Watch) -> None:
        """Wait for work, then do it; runs on the loop's own thread.

        Other threads may stand in during the wait.

        :raises BaseException: the exception of a callback, on this thread or on one that stood in
        """
        mailbox, heap = self.mailbox, self.timers.heap
        self._due = due = heap[0].when if heap else math.inf
        patience: float | None = self.linger or None
        if due != math.inf:
            left = due - time.monotonic()
            if patience is None or left < patience:
                patience = left if left > 0.0 else 0.0
        mailbox.napping = self.linger == NAP_SECONDS
        mailbox.sleeping = True
        # The order matters: a thread that posts after this check sees that the loop sleeps.
        if mailbox.entries or patience == 0.0:
            mailbox.sleeping = False
            events = watch.wait(0.0, MAX_EVENTS)
        else:
            self._napping, self.linger = self.linger, 0.0
            ident, self.ident = self.ident, None
            changes = watch.changes
            self.loop_lock.release()
            try:
                events = watch.wait(patience, MAX_EVENTS)
            finally:
                self.loop_lock.acquire()
                self.ident = ident
                mailbox.sleeping = False
            if changes != watch.changes:
                events = watch.look_again()
        if self.abandoned:
            return  # under eventlet, this green thread goes on in the child of a fork
        if self.failure is not None:
            raise self.failure
        if events:
            watch.dispatch(events)
        # When the wait began, no timer was due before ``_due``. Timers set since then wait for the
        # next iteration.
        self.now = now = time.monotonic()
        if now >= self._due:
            self.timers.run_due(now)
        if mailbox.entries:
            mailbox.drain(BATCH)
        if self._end_batch():
            self.linger = NAP_SECONDS
        if self.served_future is not None and self.served_future.done():
            watch.recall()

    def batch(self, ident: int, work: Callback) -> bool:
        """Do one batch on the calling thread while the loop's own thread sleeps.

        :param ident: the id of this thread, which holds ``loop_lock``
        :param work: called first
        :returns: True if the loop's own thread may sleep on: no work is left, and no timer is due
            before that thread wakes
        """
        mailbox, heap = self.mailbox, self.timers.heap
        self.ident = ident
        try:
            mailbox.sleeping = False
            self.now = time.monotonic()
            work()
            if mailbox.entries:
                mailbox.drain(BATCH)
            self._end_batch()
            if self.linger and self.served_future is not None:
                self.linger = CALM_SECONDS
            mailbox.napping = self._napping == NAP_SECONDS
            mailbox.sleeping = True
            return not (
                mailbox.entries
                or (self.linger and not self._napping)
                or self.stopping
                or (heap and heap[0].when < self._due)
            )
        except BaseException as exc:
            self.fail(exc)
            return False
        finally:
            self.ident = None

    def fail(self, error: BaseException) -> None:
        """Have the loop's own thread raise ``error``; no thread stands in from here on."""
        self.failure = error
        self.stopping = True

    def wake_all(self, call: Callable[[Callback], object]) -> None:
        """Release all waiters queued by release() and later(); the loop has ended.

        :param call: calls a callback and raises nothing
        """
        later, self._later = self._later, []
        gates, self._gates = self._gates, []
        for fn in (*later, *(gate.release for gate in gates)):
            call(fn)

    # -- private ---------------------------------------------------------------------------

    def _end_batch(self) -> bool:
        """Run the hooks, which send output, then wake the threads that wait.

        :returns: True if there was anything queued by release() or later()
        """
        for hook in self.hooks:
            hook()
        if not (self._later or self._gates):
            return False
        later, self._later = self._later, []
        for number, fn in enumerate(later):
            try:
                fn()
            except BaseException:
                # wake_all() calls the callbacks that are left
                self._later = [*later[number + 1 :], *self._later]
                raise
        gates, self._gates = self._gates, []
        for gate in gates:
            gate.release()
        return True
