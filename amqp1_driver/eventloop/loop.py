# SPDX-License-Identifier: Apache-2.0

"""The event loop of the I/O thread, with the methods for any thread and for the loop thread."""

import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver import exceptions
from amqp1_driver.eventloop.caller_runs import CallerRuns
from amqp1_driver.eventloop.errors import LoopClosed
from amqp1_driver.eventloop.futures import Future
from amqp1_driver.eventloop.iteration import Iteration
from amqp1_driver.eventloop.mailbox import Mailbox
from amqp1_driver.eventloop.poller import Waker
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.eventloop.watch import Callback, Watch

LOG = exceptions.logger(__name__)


class Resource(Protocol):
    """An owner of descriptors that belong to a loop, such as a transport."""

    def loop_closed(self, exc: Exception) -> None:
        """Close and notify the owner: the loop ends with ``exc``. Runs on the loop thread."""

    def abandon(self) -> None:
        """Close the inherited descriptors in the child of a fork, and touch nothing else."""


class EventLoop:
    """A loop that runs callbacks on a daemon thread of its own (a green one under eventlet).

    Threads: start(), stop(), is_alive(), post(), put(),
    on_death(), now(), in_loop() and assert_in_loop() may run on any thread. The rest runs on the
    loop thread only, except that add_before_sleep() may also run before start(); most of these
    methods check the thread with assert_in_loop().

    While the loop's own thread sleeps, a thread that has an operation may do the work in its place
    (see ``alone`` of put()), and is the loop thread meanwhile. :class:`Iteration` does the work of
    one pass; its docstring says which data other threads read without the loop lock
    (``loop_lock``), and why that is safe. The loop writes ``_cause`` once, before it calls the
    callbacks of on_death(); on_death() adds its callback before it reads ``_cause``.

    A callback that raises ends the loop. The loop then logs the exception, aborts every operation
    left in the mailbox and calls the on_death callbacks. A loop that went on with half-done state
    would leave callers waiting.

    The child of a fork inherits a dead loop with closed descriptors, and makes a new loop.

    :param mailbox_size: operations that the mailbox holds before put() waits
    """

    def __init__(self, name: str, *, mailbox_size: int = 10000) -> None:
        self.name = name
        self._waker = Waker()
        self.mailbox = Mailbox(mailbox_size, self._waker.wake)
        self.iteration = Iteration(self.mailbox)
        self._timers = self.iteration.timers
        self._stand_in = CallerRuns(self.iteration, self._waker.wake)
        self._may_stand_in = False
        self._main: int | None = None
        self._on_death: deque[Callable[[BaseException], object]] = deque()
        self._resources: dict[Resource, None] = {}
        self._cause: BaseException | None = None
        self._thread: threading.Thread | None = None
        _loops.add(self)

    # -- any thread ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; operations posted before the start run first.

        :raises LoopClosed: the loop was stopped before, or inherited through a fork.
        :raises RuntimeError: the loop was started before, or no thread can be started.
        :raises OSError: out of descriptors.
        """
        if self.iteration.stopping:
            raise LoopClosed(f"event loop {self.name} has ended", self._cause)
        if self._thread is not None:
            raise RuntimeError(f"event loop {self.name} was started before")
        try:
            self.iteration.watch = watch = Watch(self._waker)
            self._may_stand_in = watch.shared
            self._main = threading.main_thread().ident
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        except BaseException as exc:
            if self._thread is None or isinstance(exc, Exception):
                self._thread = None
                self._finish(exc)
            else:  # an interrupt while the thread was starting: the thread ends by itself
                self.iteration.stopping = True
                self._waker.wake()
            raise

    def stop(self, timeout: float | None = None) -> bool:
        """End the loop after the operations posted so far. Idempotent.

        :param timeout: seconds to wait for the thread's end; None waits for ever
        :returns: True once the loop's thread has ended; False on the loop thread itself, which
            cannot wait
        """
        try:
            self.mailbox.post(self._stop)
        except LoopClosed:
            pass  # the loop is ending or has ended
        thread = self._thread
        if thread is None:
            if not self.iteration.stopping:
                self.iteration.stopping = True
                self._finish(None)
            return True
        if self.iteration.abandoned:
            return True  # the thread exists in the parent process only
        if self.in_loop():
            return False
        thread.join(timeout)
        return not thread.is_alive()

    def is_alive(self) -> bool:
        """Return True while the thread runs."""
        return self._thread is not None and self._thread.is_alive() and not self.iteration.abandoned

    def post(self, fn: Callable[[Any], object], op: Any = None, alone: bool = False) -> None:
        """Have the loop call ``fn(op)``; never blocks.

        Operations run in the order of posting. If the loop ends before an operation has run, the
        loop calls ``op.abort(exc)``, if ``op`` has that method.

        :param alone: see :meth:`put`
        :raises LoopClosed: the loop has ended.
        """
        if alone:
            self.put(fn, op, alone=True, bounded=False)
        else:
            self.mailbox.post(fn, op)

    def put(
        self,
        fn: Callable[[Any], object],
        op: Any = None,
        timeout: float | None = None,
        alone: bool = False,
        future: Future[Any] | None = None,
        until: float = 0.0,
        bounded: bool = True,
    ) -> None:
        """Post an operation as post() does, but wait while the mailbox is full.

        :param timeout: seconds to wait for room; None waits for ever
        :param alone: True if no other operation is under way. If the loop sleeps, this thread
            leaves the loop asleep and does the work itself (it stands in for the loop). With more
            operations under way, the loop batches them better.
        :param future: the future that this thread is going to wait for. If this thread stands in,
            it may go on to read the socket until the future is done, so that no other thread has
            to wake it. The caller must still wait for the future, which may not be done yet.
        :param until: when this thread stops reading for ``future``, in seconds of the monotonic
            clock
        :param bounded: False: do not wait while the mailbox is full
        :raises MailboxFull: there was no room in time.
        :raises LoopClosed: the loop has ended.
        """
        ident, turn = threading.get_ident(), self.iteration
        if turn.ident == ident:
            self.mailbox.post(fn, op)  # waiting would block for ever: only this thread makes room
        # The main thread never stands in: signal handlers run on it and may raise anywhere.
        elif alone and self._may_stand_in and ident != self._main and turn.loop_lock.acquire(False):
            self._stand_in.run(ident, fn, op, future, until)
        else:
            self.mailbox.post(fn, op, bounded=bounded, timeout=timeout)

    def on_death(self, fn: Callable[[BaseException], object]) -> None:
        """Have the loop thread call ``fn(exc)`` if an exception ends the loop.

        If an exception has ended the loop already, this thread calls ``fn(exc)`` at once.
        """
        self._on_death.append(fn)
        if self._cause is not None:
            self._run_on_death(self._cause)

    def now(self) -> float:
        """Return the time of the monotonic clock in seconds, as the timers use it."""
        return time.monotonic()

    def in_loop(self) -> bool:
        """Return True on the loop thread."""
        return self.iteration.ident == threading.get_ident()

    def assert_in_loop(self) -> None:
        """Check that this is the loop thread.

        :raises AssertionError: this is another thread
        """
        if self.iteration.ident != threading.get_ident():
            raise AssertionError(f"not on the thread of event loop {self.name}")

    # -- loop thread -----------------------------------------------------------------------

    def call_at(self, when: float, fn: Callback) -> Timer:
        """Call ``fn()`` once now() is ``when`` or later."""
        self.assert_in_loop()
        return self._timers.call_at(when, fn)

    def call_later(self, delay: float, fn: Callback) -> Timer:
        """Call ``fn()`` in ``delay`` seconds."""
        return self.call_at(time.monotonic() + delay, fn)

    def register(
        self,
        fileno: int,
        on_readable: Callback,
        on_writable: Callback,
        failed: Callable[[Exception], object] | None = None,
    ) -> None:
        """Watch a non-blocking descriptor for reading; set_writable() adds writing.

        The loop treats a descriptor in error as ready for all that it is watched for.

        :param failed: called with an exception of a callback; None: the exception ends the loop
        """
        self.assert_in_loop()
        self._watched.register(fileno, on_readable, on_writable, failed)

    def set_writable(self, fileno: int, wanted: bool) -> None:
        """Set whether the loop calls on_writable when the descriptor takes data."""
        self.assert_in_loop()
        self._watched.set_writable(fileno, wanted)

    def is_registered(self, fileno: int) -> bool:
        """Return True if the loop watches this descriptor."""
        return self.iteration.watch is not None and self.iteration.watch.is_registered(fileno)

    def unregister(self, fileno: int) -> None:
        """Stop watching a descriptor; call this before closing the descriptor."""
        self.assert_in_loop()
        self._watched.unregister(fileno)

    @property
    def _watched(self) -> Watch:
        assert self.iteration.watch is not None  # start() makes it
        return self.iteration.watch

    def add_before_sleep(self, fn: Callback) -> None:
        """Call ``fn()`` after each batch of events, timers and operations, to flush output."""
        # A new list, because hooks may add and remove hooks while they run.
        self.iteration.hooks = [*self.iteration.hooks, fn]

    def attach(self, resource: Resource) -> None:
        """Have the loop close ``resource`` when the loop ends, or in the child of a fork."""
        self.assert_in_loop()
        self._resources[resource] = None

    def detach(self, resource: Resource) -> None:
        """Undo attach(); idempotent."""
        self._resources.pop(resource, None)

    # -- private ---------------------------------------------------------------------------

    def _stop(self, _: object) -> None:
        self.iteration.stopping = True

    def _run(self) -> None:
        turn = self.iteration
        turn.ident = threading.get_ident()
        cause: BaseException | None = None
        try:
            watch = self._watched
            while not (turn.stopping or turn.abandoned):
                turn.run(watch)
        except BaseException as exc:  # whatever it was, the thread must not end without a log entry
            cause = exc
        if not turn.abandoned:
            if cause is not None:
                with contextlib.suppress(Exception):  # the application's log handler may fail
                    LOG.error("event loop %s died: %r", self.name, cause, exc_info=cause)
            _guarded(self._finish, cause)
        turn.ident = None  # a new thread may get the same id
        turn.wake_all(_guarded)
        if turn.served_future is not None:
            turn.loop_lock.release()  # so that the thread that serves itself can leave

    def _finish(self, cause: BaseException | None) -> None:
        """Abort the operations, close the resources, call on_death callbacks, free descriptors.

        :param cause: the exception that ends the loop, None for an orderly end
        """
        turn = self.iteration
        turn.stopping = True
        self._cause = cause
        message = f"event loop {self.name} " + ("has stopped" if cause is None else "died")
        self.mailbox.close(message, cause)
        while self._resources:
            resource, _ = self._resources.popitem()
            _guarded(resource.loop_closed, LoopClosed(message, cause))
        if cause is not None:
            self._run_on_death(cause)
        turn.hooks = []
        turn.ended = True
        if turn.watch is not None:
            turn.watch.recall()
            turn.watch.close()

    def _run_on_death(self, cause: BaseException) -> None:
        while self._on_death:
            try:
                fn = self._on_death.popleft()
            except IndexError:
                return
            _guarded(fn, cause)

    def _abandon(self) -> None:
        """Close all that the child of a fork has inherited, without waiting or locking.

        The poller is closed without unregistering any descriptor, because the parent's epoll set
        is the same object in the kernel.
        """
        turn = self.iteration
        if turn.abandoned:
            return
        turn.abandoned = True
        self.mailbox.discard()
        self.mailbox.close(f"event loop {self.name} belongs to the parent process")
        for resource in list(self._resources):
            _guarded(resource.abandon)
        self._resources.clear()
        turn.stopping = True
        if turn.watch is not None:
            turn.watch.abandon()


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
