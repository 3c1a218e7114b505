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

"""The I/O thread: one loop over descriptors, timers and the mailbox."""

import logging
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from amqp1_driver.eventloop.errors import LoopClosed
from amqp1_driver.eventloop.futures import Future
from amqp1_driver.eventloop.loan import Loan
from amqp1_driver.eventloop.mailbox import Mailbox, abort
from amqp1_driver.eventloop.timers import Timer, TimerQueue
from amqp1_driver.eventloop.watch import Callback, Watch

LOG = logging.getLogger(__name__)

# Operations that run between two looks at the sockets.
_BATCH = 256
# How long the answers of those who were woken are waited for, seconds.
NAP = 0.004
# The same while one thread makes call after call and serves itself: the next takes along what
# the last has left.
CALM = 0.025

class Resource(Protocol):
    """Something with descriptors that belongs to a loop, such as a transport."""

    def loop_closed(self, exc: Exception) -> None:
        """The loop ends: tell whoever is concerned, and close. Loop thread."""

    def abandon(self) -> None:
        """This is the child of a fork: close the inherited descriptors, touch nothing else."""


class EventLoop:
    """Runs callbacks on a daemon thread of its own (a green one under eventlet).

    Threads: post(), put(), stop(), now(), in_loop(), on_death() on any; the rest on the loop
    thread only, which assert_in_loop() checks. While that sleeps, a thread that has an operation
    for it may do the work in its place (put(), ``alone``), and is the loop thread meanwhile.

    A callback that raises ends the loop: this is logged, every operation left in the mailbox is
    aborted and on_death callbacks run, because a loop that went on with half-done state would
    leave callers waiting.

    A child of a fork inherits a dead loop, with its descriptors closed; it makes a new one.
    """

    def __init__(self, name: str, *, mailbox_size: int = 10000) -> None:
        self.name = name
        self._mailbox = Mailbox(mailbox_size, self._wake)
        # Whoever holds it is the loop thread to all that lives there. It is free while that
        # thread waits for something to do.
        self._baton = threading.Lock()
        self._baton.acquire()
        self.post_idly = self._mailbox.post_idly
        self._may_stand_in = False
        # what the thread waits for that serves itself; by who holds the baton
        self._attended: Future[Any] | None = None
        self._ended = False
        self._main: int | None = None
        self._failure: BaseException | None = None
        self._napping = 0.0
        self._timers = TimerQueue()
        self._before_sleep: list[Callback] = []
        self._gates: list[Any] = []
        self._later: list[Callback] = []
        self._linger = 0.0
        # when the earliest timer was due as the loop last looked
        self._due = 0.0
        self._on_death: deque[Callable[[BaseException], object]] = deque()
        self._resources: dict[Resource, None] = {}
        self._cause: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._ident: int | None = None
        self._watch: Watch | None = None
        self._stopping = False
        self._abandoned = False
        _loops.add(self)

    # -- any thread ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; what was posted before runs first.

        :raises LoopClosed: stopped before, or inherited through a fork.
        :raises OSError: out of descriptors.
        """
        if self._stopping or self._abandoned:
            raise LoopClosed(f"event loop {self.name} has ended", self._cause)
        if self._thread is not None:
            raise RuntimeError(f"event loop {self.name} was started before")
        try:
            self._watch = Watch()
            self._may_stand_in = self._watch.shared
            self._main = threading.main_thread().ident
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        except BaseException as exc:
            self._finish(exc)
            raise

    def stop(self, timeout: float | None = None) -> bool:
        """End the loop after what was posted so far; True once its thread has gone.

        Waits up to ``timeout`` seconds (None: for ever). Called on the loop thread it cannot
        wait, and is False. Idempotent.
        """
        try:
            self._mailbox.post(self._stop)
        except LoopClosed:
            pass  # on its way out, or out
        thread = self._thread
        if thread is None:
            if not self._stopping:
                self._stopping = True
                self._finish(None)
            return True
        if self._abandoned:
            return True  # the thread is the parent's
        if self.in_loop():
            return False
        thread.join(timeout)
        return not thread.is_alive()

    def is_alive(self) -> bool:
        """True while the thread runs."""
        return self._thread is not None and self._thread.is_alive() and not self._abandoned

    def post(self, fn: Callable[[Any], object], op: Any = None) -> None:
        """Have the loop call ``fn(op)``; never blocks.

        Operations run in the order in which they were handed in. One that never runs because
        the loop ends gets ``op.abort(exc)``, if it has that method.

        :raises LoopClosed: the loop has ended.
        """
        self._mailbox.post(fn, op)

    def put(
        self, fn: Callable[[Any], object], op: Any = None, timeout: float | None = None,
        alone: bool = False, future: Future[Any] | None = None, until: float = 0.0,
    ) -> None:
        """As post(), but wait up to ``timeout`` seconds (None: for ever) while it is full.

        :param alone: nothing else is under way: if the loop sleeps, it is left to, and this
            thread does what there is to do. With more under way the loop gathers it better.
        :param future: what this thread is going to wait for. If it stands in, it goes on to
            serve itself, up to ``until`` (seconds of the monotonic clock): nobody has to wake
            it. Whether the future is done has to be seen in any case.
        :raises MailboxFull: no room in time.
        :raises LoopClosed: the loop has ended.
        """
        ident = threading.get_ident()
        if self._ident == ident:
            self._mailbox.post(fn, op)  # only this thread could make room
        # Handlers of signals run on the main thread, and may raise anywhere.
        elif (alone and self._may_stand_in and ident != self._main
                and self._baton.acquire(False)):
            self._stand_in(ident, fn, op, future, until)
        else:
            self._mailbox.put(fn, op, timeout)

    def on_death(self, fn: Callable[[BaseException], object]) -> None:
        """Have ``fn(exc)`` called on the loop thread if a callback's exception ends the loop.

        At once, on this thread, if that has happened already.
        """
        self._on_death.append(fn)
        if self._cause is not None:
            self._run_on_death(self._cause)

    def now(self) -> float:
        """Seconds of the monotonic clock, which the timers go by."""
        return time.monotonic()

    def in_loop(self) -> bool:
        """Is this the loop thread?"""
        return self._ident == threading.get_ident()

    def assert_in_loop(self) -> None:
        """:raises AssertionError: this is not the loop thread."""
        if self._ident != threading.get_ident():
            raise AssertionError(f"not on the thread of event loop {self.name}")

    def release(self, gate: Any) -> None:
        """Release a lock that another thread waits for: on the loop thread not at once, but
        with all others when the present batch is done.

        A thread that wakes wants the interpreter, and takes it at the loop's next call into C:
        woken one by one they would have the loop wait for each of them.
        """
        if self._ident == threading.get_ident():
            self._gates.append(gate)
        else:
            gate.release()

    def later(self, fn: Callback) -> None:
        """Call ``fn()``, which wakes others: on the loop thread not at once, but when the
        present batch is done and before release() takes effect. ``fn`` may not block.
        """
        if self._ident == threading.get_ident():
            self._later.append(fn)
        else:
            fn()

    # -- loop thread -----------------------------------------------------------------------

    def call_at(self, when: float, fn: Callback) -> Timer:
        """Call ``fn()`` once now() is ``when`` or later."""
        self.assert_in_loop()
        return self._timers.call_at(when, fn)

    def linger(self) -> None:
        """Run the hooks of add_before_sleep() again within :data:`NAP`, come what may."""
        self._linger = NAP

    def call_later(self, delay: float, fn: Callback) -> Timer:
        """Call ``fn()`` in ``delay`` seconds."""
        return self.call_at(time.monotonic() + delay, fn)

    def register(self, fileno: int, on_readable: Callback, on_writable: Callback) -> None:
        """Watch a non-blocking descriptor: for reading now, for writing by set_writable().

        A descriptor in error counts as ready for all that it is watched for.
        """
        self.assert_in_loop()
        self._watched.register(fileno, on_readable, on_writable)

    def set_writable(self, fileno: int, wanted: bool) -> None:
        """Whether to call on_writable when the descriptor takes data."""
        self.assert_in_loop()
        self._watched.set_writable(fileno, wanted)

    def is_registered(self, fileno: int) -> bool:
        """Is this descriptor watched?"""
        return self._watch is not None and self._watch.is_registered(fileno)

    def unregister(self, fileno: int) -> None:
        """Watch no more; to be called before the descriptor is closed."""
        self.assert_in_loop()
        self._watched.unregister(fileno)

    @property
    def _watched(self) -> Watch:
        assert self._watch is not None  # there is one from start() on
        return self._watch

    def add_before_sleep(self, fn: Callback) -> None:
        """Call ``fn()`` after each batch of events, timers and operations, to flush output."""
        # A new list: hooks may add and remove while they run.
        self._before_sleep = [*self._before_sleep, fn]

    def remove_before_sleep(self, fn: Callback) -> None:
        """Undo add_before_sleep()."""
        self._before_sleep = [hook for hook in self._before_sleep if hook != fn]

    def attach(self, resource: Resource) -> None:
        """Have ``resource`` closed when the loop ends or is inherited through a fork."""
        self.assert_in_loop()
        self._resources[resource] = None

    def detach(self, resource: Resource) -> None:
        """Undo attach(); harmless if that is done."""
        self._resources.pop(resource, None)

    # -- private ---------------------------------------------------------------------------

    def _wake(self) -> None:
        watch = self._watch
        if watch is not None:
            watch.wake()

    def _stop(self, _: object) -> None:
        self._stopping = True

    def _run(self) -> None:
        self._ident = threading.get_ident()
        cause: BaseException | None = None
        try:
            while not (self._stopping or self._abandoned):
                self._run_once()
        except BaseException as exc:  # the thread must not end in silence, whatever it was
            cause = exc
        if not self._abandoned:
            if cause is not None:
                LOG.error("event loop %s died: %r", self.name, cause, exc_info=cause)
            self._finish(cause)
        self._ident = None  # the next thread may get the same number
        self._run_later()
        self._open_gates()
        if self._attended is not None and self._watch is not None:
            self._baton.release()  # for the one who serves itself, to leave

    def _run_once(self) -> None:
        watch = self._watch
        assert watch is not None  # there is one from start() on
        events = self._wait(watch)
        if self._abandoned:
            return  # a green thread goes on in the child of a fork
        if self._failure is not None:
            raise self._failure
        if events:
            watch.dispatch(events)
        # no sooner than that, and timers set since then are for the next turn
        if (now := time.monotonic()) >= self._due:
            self._timers.run_due(now)
        if self._mailbox.entries:
            self._mailbox.drain(_BATCH)
        if self._end_batch():
            self._linger = NAP
        if self._attended is not None and self._attended.done():
            watch.recall()

    def _end_batch(self) -> bool:
        """Output first, then wake those who wait for something; whether there were any."""
        for hook in self._before_sleep:
            hook()
        if not (self._later or self._gates):
            return False
        self._run_later()
        self._open_gates()
        return True

    def _wait(self, watch: Watch) -> list[tuple[int, int]]:
        """Until there is something to do; meanwhile another thread may stand in for this."""
        mailbox, heap = self._mailbox, self._timers.heap
        self._due = due = heap[0].when if heap else math.inf
        patience: float | None = self._linger or None
        if due != math.inf:
            patience = max(0.0, due - time.monotonic())
            if self._linger and patience > self._linger:
                patience = self._linger
        mailbox.napping = self._linger == NAP
        mailbox.sleeping = True
        # The order matters: who posts now sees that the loop sleeps.
        if mailbox.entries or patience == 0:
            mailbox.sleeping = False
            return watch.wait(0)
        self._napping, self._linger = self._linger, 0.0
        ident, self._ident = self._ident, None
        changes = watch.changes
        self._baton.release()
        try:
            events = watch.wait(patience)
        finally:
            self._baton.acquire()
            self._ident = ident
            mailbox.sleeping = False
        return events if changes == watch.changes else watch.look_again()

    def _stand_in(self, ident: int, fn: Callable[[Any], object], op: Any,
                  future: Future[Any] | None, until: float) -> None:
        """One batch in place of the loop thread, which sleeps; by who holds the baton.

        What raises ends the loop, as it does there. Work that is left, or a timer that is due
        sooner than the loop would wake, is left to the loop.
        """
        watch = self._watch
        assert watch is not None  # there is one from start() on
        begin = partial(self._begin, fn, op)
        loan = watch.lend() if future is not None and self._attended is None else None
        if loan is None or future is None:
            asleep = self._batch(ident, watch, begin)
            if self._attended is not None and self._attended.done():
                watch.recall()
        else:
            self._attended = future
            asleep = self._serve(ident, watch, loan, begin, until)
            self._attended = None
            if self._ended:
                loan.close()
                return  # with the baton: nobody is the loop thread any more
        self._baton.release()
        if not asleep:
            self._wake()

    def _serve(self, ident: int, watch: Watch, loan: Loan, begin: Callback, until: float) -> bool:
        """A batch, and those for what comes in until the attended future is done; by who holds
        the baton. Never raises: it has to be given back.

        :returns: whether the loop was left asleep
        """
        future = self._attended
        try:
            asleep = self._batch(ident, watch, begin)
            while (asleep and future is not None and not future.done()
                    and (left := until - time.monotonic()) > 0):
                changes = watch.changes
                self._baton.release()
                try:
                    readable = loan.wait(left)
                finally:
                    self._baton.acquire()
                if self._stopping or self._failure is not None or changes != watch.changes:
                    break  # the future tells, or the loop's own thread sees to it
                if readable:
                    asleep = self._batch(ident, watch, partial(watch.read_lent, loan))
            if not self._ended:
                watch.take_back(loan)
            return asleep
        except BaseException as exc:
            self._failure = exc  # nobody reads the socket any more: the loop has to end
            loan.out = False
            return False

    def _batch(self, ident: int, watch: Watch, work: Callback) -> bool:
        """As the loop's own thread does one; whether that may sleep on."""
        mailbox, heap = self._mailbox, self._timers.heap
        self._ident = ident
        try:
            mailbox.sleeping = False
            work()
            if mailbox.entries:
                mailbox.drain(_BATCH)
            self._end_batch()
            if self._linger and self._attended is not None:
                self._linger = CALM
            mailbox.napping = self._napping == NAP
            mailbox.sleeping = True
            return not (mailbox.entries or (self._linger and not self._napping) or self._stopping
                        or (heap and heap[0].when < self._due))
        except BaseException as exc:
            self._failure = exc
            return False
        finally:
            self._ident = None

    def _begin(self, fn: Callable[[Any], object], op: Any) -> None:
        """What was posted before comes first."""
        mailbox = self._mailbox
        if mailbox.entries:
            mailbox.drain(_BATCH)
        if mailbox.entries:
            mailbox.post(fn, op)
        else:
            self._call(fn, op)

    def _call(self, fn: Callable[[Any], object], op: Any) -> None:
        try:
            fn(op)
        except BaseException as exc:
            abort(op, LoopClosed("the event loop died of this operation", exc))
            raise

    def _run_later(self) -> None:
        later, self._later = self._later, []
        for fn in later:
            fn()

    def _open_gates(self) -> None:
        gates, self._gates = self._gates, []
        for gate in gates:
            gate.release()

    def _finish(self, cause: BaseException | None) -> None:
        """The end, orderly (cause None) or not: fail what waits, then free what is held."""
        self._stopping = True
        self._cause = cause
        message = f"event loop {self.name} " + ("has stopped" if cause is None else "died")
        self._mailbox.close(message, cause)
        while self._resources:
            resource, _ = self._resources.popitem()
            _guarded(resource.loop_closed, LoopClosed(message, cause))
        if cause is not None:
            self._run_on_death(cause)
        self._before_sleep = []
        self._ended = True
        if self._watch is not None:
            self._watch.recall()
            self._watch.close()

    def _run_on_death(self, cause: BaseException) -> None:
        while self._on_death:
            try:
                fn = self._on_death.popleft()
            except IndexError:
                return
            _guarded(fn, cause)

    def _abandon(self) -> None:
        """In the child of a fork: close what was inherited, wait for nothing, lock nothing.

        The poller is closed without unregistering anything: the parent's epoll set is the
        same object in the kernel.
        """
        if self._abandoned:
            return
        self._abandoned = True
        self._mailbox.discard()
        self._mailbox.close(f"event loop {self.name} belongs to the parent process")
        for resource in list(self._resources):
            _guarded(resource.abandon)
        self._resources.clear()
        if self._thread is not None and not self._stopping and self._watch is not None:
            self._watch.abandon()
        self._stopping = True


def _guarded(fn: Callable[..., object], *args: object) -> None:
    try:
        fn(*args)
    except Exception:
        LOG.exception("%r failed while its event loop ended", fn)


_loops: "weakref.WeakSet[EventLoop]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for loop in list(_loops):
        loop._abandon()
    _loops.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
