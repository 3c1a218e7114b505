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

"""One turn of a loop: what is ready, what is due, what was handed in; output; those who wait."""

import math
import threading
import time
from typing import Any

from amqp1_driver.eventloop.futures import Future
from amqp1_driver.eventloop.mailbox import Mailbox
from amqp1_driver.eventloop.timers import TimerQueue
from amqp1_driver.eventloop.watch import Callback, Watch

# Operations that run between two looks at the sockets.
BATCH = 256
# How long the answers of those who were woken are waited for, seconds.
NAP = 0.004
# The same while one thread makes call after call and serves itself: the next takes along what
# the last has left.
CALM = 0.025


class Turn:
    """What a loop is made of, for whoever turns it.

    Threads: ``baton`` is held by whoever is the loop thread to all that lives there, and who
    says so by ``ident``. It is free while that thread waits for something to do. release() and
    later() on any thread, the rest by the holder.

    :param mailbox: what other threads hand in
    """

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self.timers = TimerQueue()
        self.baton = threading.Lock()
        self.baton.acquire()
        self.ident: int | None = None
        #: there is one from the start of the loop on
        self.watch: Watch | None = None
        #: no more turns: the loop was told so, has died, or is another process's
        self.stopping = False
        self.abandoned = False
        #: nothing is left of the loop
        self.ended = False
        #: what a thread waits for that serves itself
        self.attended: Future[Any] | None = None
        #: of one who stood in; the loop's thread dies of it
        self.failure: BaseException | None = None
        self.hooks: list[Callback] = []
        self._gates: list[Any] = []
        self._later: list[Callback] = []
        #: seconds until the hooks are to run again; 0: when something happens
        self.linger = 0.0
        self._napping = 0.0
        # when the earliest timer was due as the loop last looked
        self._due = 0.0

    def release(self, gate: Any) -> None:
        """Release a lock that another thread waits for: on the loop thread not at once, but
        with all others when the present batch is done.

        A thread that wakes wants the interpreter, and takes it at the loop's next call into C:
        woken one by one they would have the loop wait for each of them.
        """
        if self.ident == threading.get_ident():
            self._gates.append(gate)
        else:
            gate.release()

    def later(self, fn: Callback) -> None:
        """Call ``fn()``, which wakes others: on the loop thread not at once, but when the
        present batch is done and before release() takes effect. ``fn`` may not block.
        """
        if self.ident == threading.get_ident():
            self._later.append(fn)
        else:
            fn()

    def run(self, watch: Watch) -> None:
        """Wait, and do all there is to do; on the loop's own thread.

        :raises BaseException: what a callback raised, here or to one who stood in
        """
        events = self._wait(watch)
        if self.abandoned:
            return  # a green thread goes on in the child of a fork
        if self.failure is not None:
            raise self.failure
        if events:
            watch.dispatch(events)
        # no sooner than that, and timers set since then are for the next turn
        if (now := time.monotonic()) >= self._due:
            self.timers.run_due(now)
        if self.mailbox.entries:
            self.mailbox.drain(BATCH)
        if self._end_batch():
            self.linger = NAP
        if self.attended is not None and self.attended.done():
            watch.recall()

    def batch(self, ident: int, work: Callback) -> bool:
        """As the loop's own thread does one, on another while that sleeps.

        :returns: whether it may sleep on: no work is left, and no timer is due sooner
        """
        mailbox, heap = self.mailbox, self.timers.heap
        self.ident = ident
        try:
            mailbox.sleeping = False
            work()
            if mailbox.entries:
                mailbox.drain(BATCH)
            self._end_batch()
            if self.linger and self.attended is not None:
                self.linger = CALM
            mailbox.napping = self._napping == NAP
            mailbox.sleeping = True
            return not (mailbox.entries or (self.linger and not self._napping) or self.stopping
                        or (heap and heap[0].when < self._due))
        except BaseException as exc:
            self.failure = exc
            return False
        finally:
            self.ident = None

    def wake_all(self) -> None:
        """Nobody turns it any more: whom release() and later() have kept waiting."""
        self._run_later()
        self._open_gates()

    # -- private ---------------------------------------------------------------------------

    def _wait(self, watch: Watch) -> list[tuple[int, int]]:
        """Until there is something to do; meanwhile another thread may stand in for this."""
        mailbox, heap = self.mailbox, self.timers.heap
        self._due = due = heap[0].when if heap else math.inf
        patience: float | None = self.linger or None
        if due != math.inf:
            patience = max(0.0, due - time.monotonic())
            if self.linger and patience > self.linger:
                patience = self.linger
        mailbox.napping = self.linger == NAP
        mailbox.sleeping = True
        # The order matters: who posts now sees that the loop sleeps.
        if mailbox.entries or patience == 0:
            mailbox.sleeping = False
            return watch.wait(0)
        self._napping, self.linger = self.linger, 0.0
        ident, self.ident = self.ident, None
        changes = watch.changes
        self.baton.release()
        try:
            events = watch.wait(patience)
        finally:
            self.baton.acquire()
            self.ident = ident
            mailbox.sleeping = False
        return events if changes == watch.changes else watch.look_again()

    def _end_batch(self) -> bool:
        """Output first, then wake those who wait for something; whether there were any."""
        for hook in self.hooks:
            hook()
        if not (self._later or self._gates):
            return False
        self._run_later()
        self._open_gates()
        return True

    def _run_later(self) -> None:
        later, self._later = self._later, []
        for fn in later:
            fn()

    def _open_gates(self) -> None:
        gates, self._gates = self._gates, []
        for gate in gates:
            gate.release()
