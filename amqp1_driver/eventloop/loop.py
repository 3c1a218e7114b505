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
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver.eventloop.errors import LoopClosed
from amqp1_driver.eventloop.futures import Future
from amqp1_driver.eventloop.mailbox import Mailbox
from amqp1_driver.eventloop.standin import StandIn
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.eventloop.turn import NAP, Turn
from amqp1_driver.eventloop.watch import Callback, Watch

LOG = logging.getLogger(__name__)


class Resource(Protocol):
    """Something with descriptors that belongs to a loop, such as a transport."""

    def loop_closed(self, exc: Exception) -> None:
        """The loop ends: tell whoever is concerned, and close. Loop thread."""

    def abandon(self) -> None:
        """This is the child of a fork: close the inherited descriptors, touch nothing else."""


class EventLoop:
    """Runs callbacks on a daemon thread of its own (a green one under eventlet).

    Threads: post(), post_idly(), put(), release(), later(), stop(), now(), in_loop() and
    on_death() on any; the rest on the loop thread only, which assert_in_loop() checks. While
    that sleeps, a thread that has an operation for it may do the work in its place (put(),
    ``alone``), and is the loop thread meanwhile. What happens in a turn is :class:`Turn`'s.

    A callback that raises ends the loop: this is logged, every operation left in the mailbox is
    aborted and on_death callbacks run, because a loop that went on with half-done state would
    leave callers waiting.

    A child of a fork inherits a dead loop, with its descriptors closed; it makes a new one.
    """

    def __init__(self, name: str, *, mailbox_size: int = 10000) -> None:
        self.name = name
        self._mailbox = Mailbox(mailbox_size, self._wake)
        self._turn = Turn(self._mailbox)
        self._timers = self._turn.timers
        self._stand_in = StandIn(self._turn, self._wake)
        # called for every message: see Mailbox.post_idly(), Turn.release() and Turn.later()
        self.post_idly = self._mailbox.post_idly
        self.release = self._turn.release
        self.later = self._turn.later
        self._may_stand_in = False
        self._main: int | None = None
        self._on_death: deque[Callable[[BaseException], object]] = deque()
        self._resources: dict[Resource, None] = {}
        self._cause: BaseException | None = None
        self._thread: threading.Thread | None = None
        _loops.add(self)

    # -- any thread ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; what was posted before runs first.

        :raises LoopClosed: stopped before, or inherited through a fork.
        :raises OSError: out of descriptors.
        """
        if self._turn.stopping:
            raise LoopClosed(f"event loop {self.name} has ended", self._cause)
        if self._thread is not None:
            raise RuntimeError(f"event loop {self.name} was started before")
        try:
            self._turn.watch = watch = Watch()
            self._may_stand_in = watch.shared
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
            if not self._turn.stopping:
                self._turn.stopping = True
                self._finish(None)
            return True
        if self._turn.abandoned:
            return True  # the thread is the parent's
        if self.in_loop():
            return False
        thread.join(timeout)
        return not thread.is_alive()

    def is_alive(self) -> bool:
        """True while the thread runs."""
        return self._thread is not None and self._thread.is_alive() and not self._turn.abandoned

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
        ident, turn = threading.get_ident(), self._turn
        if turn.ident == ident:
            self._mailbox.post(fn, op)  # only this thread could make room
        # Handlers of signals run on the main thread, and may raise anywhere.
        elif (alone and self._may_stand_in and ident != self._main
                and turn.baton.acquire(False)):
            self._stand_in.run(ident, fn, op, future, until)
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
        return self._turn.ident == threading.get_ident()

    def assert_in_loop(self) -> None:
        """:raises AssertionError: this is not the loop thread."""
        if self._turn.ident != threading.get_ident():
            raise AssertionError(f"not on the thread of event loop {self.name}")

    # -- loop thread -----------------------------------------------------------------------

    def call_at(self, when: float, fn: Callback) -> Timer:
        """Call ``fn()`` once now() is ``when`` or later."""
        self.assert_in_loop()
        return self._timers.call_at(when, fn)

    def linger(self) -> None:
        """Run the hooks of add_before_sleep() again within :data:`NAP`, come what may."""
        self._turn.linger = NAP

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
        return self._turn.watch is not None and self._turn.watch.is_registered(fileno)

    def unregister(self, fileno: int) -> None:
        """Watch no more; to be called before the descriptor is closed."""
        self.assert_in_loop()
        self._watched.unregister(fileno)

    @property
    def _watched(self) -> Watch:
        assert self._turn.watch is not None  # there is one from start() on
        return self._turn.watch

    def add_before_sleep(self, fn: Callback) -> None:
        """Call ``fn()`` after each batch of events, timers and operations, to flush output."""
        # A new list: hooks may add and remove while they run.
        self._turn.hooks = [*self._turn.hooks, fn]

    def remove_before_sleep(self, fn: Callback) -> None:
        """Undo add_before_sleep()."""
        self._turn.hooks = [hook for hook in self._turn.hooks if hook != fn]

    def attach(self, resource: Resource) -> None:
        """Have ``resource`` closed when the loop ends or is inherited through a fork."""
        self.assert_in_loop()
        self._resources[resource] = None

    def detach(self, resource: Resource) -> None:
        """Undo attach(); harmless if that is done."""
        self._resources.pop(resource, None)

    # -- private ---------------------------------------------------------------------------

    def _wake(self) -> None:
        watch = self._turn.watch
        if watch is not None:
            watch.wake()

    def _stop(self, _: object) -> None:
        self._turn.stopping = True

    def _run(self) -> None:
        turn = self._turn
        turn.ident = threading.get_ident()
        cause: BaseException | None = None
        try:
            watch = self._watched
            while not (turn.stopping or turn.abandoned):
                turn.run(watch)
        except BaseException as exc:  # the thread must not end in silence, whatever it was
            cause = exc
        if not turn.abandoned:
            if cause is not None:
                LOG.error("event loop %s died: %r", self.name, cause, exc_info=cause)
            self._finish(cause)
        turn.ident = None  # the next thread may get the same number
        turn.wake_all()
        if turn.attended is not None:
            turn.baton.release()  # for the one who serves itself, to leave

    def _finish(self, cause: BaseException | None) -> None:
        """The end, orderly (cause None) or not: fail what waits, then free what is held."""
        turn = self._turn
        turn.stopping = True
        self._cause = cause
        message = f"event loop {self.name} " + ("has stopped" if cause is None else "died")
        self._mailbox.close(message, cause)
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
        """In the child of a fork: close what was inherited, wait for nothing, lock nothing.

        The poller is closed without unregistering anything: the parent's epoll set is the
        same object in the kernel.
        """
        turn = self._turn
        if turn.abandoned:
            return
        turn.abandoned = True
        self._mailbox.discard()
        self._mailbox.close(f"event loop {self.name} belongs to the parent process")
        for resource in list(self._resources):
            _guarded(resource.abandon)
        self._resources.clear()
        if self._thread is not None and not turn.stopping and turn.watch is not None:
            turn.watch.abandon()
        turn.stopping = True


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
