# SPDX-License-Identifier: Apache-2.0

"""The loop's work on a caller's thread, which holds ``loop_lock``; the loop's own thread sleeps."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp1_driver.eventloop.borrowed_fd import BorrowedFd
from amqp1_driver.eventloop.errors import LoopClosed
from amqp1_driver.eventloop.futures import Future
from amqp1_driver.eventloop.iteration import BATCH, Iteration
from amqp1_driver.eventloop.mailbox import abort
from amqp1_driver.eventloop.watch import Callback, Watch


class CallerRuns:
    """The loop's work, done by a caller that has an operation for the loop.

    Threads: the caller holds the loop lock (``loop_lock``) when it enters run(). run() releases the
    lock at the end, unless the loop has ended meanwhile. The caller reads and writes the loop's
    data only with the lock held.

    An exception ends the loop, as on the loop's own thread. The caller leaves to the loop's own
    thread any work that remains, and any timer that is due before that thread would wake.

    :param wake: wakes the loop's own thread
    """

    def __init__(self, turn: Iteration, wake: Callable[[], object]) -> None:
        self._turn = turn
        self._wake = wake

    def run(
        self,
        ident: int,
        fn: Callable[[Any], object],
        op: Any,
        future: Future[Any] | None,
        until: float,
    ) -> None:
        """Do one batch that includes ``fn(op)``.

        If there is a ``future``, and the loop can lend its socket, this thread then also reads the
        socket until ``future`` is done.

        :param ident: the id of this thread
        :param future: see :meth:`EventLoop.put`
        :param until: see :meth:`EventLoop.put`
        :raises LoopClosed: the loop has ended
        """
        turn = self._turn
        if turn.stopping:
            # The loop ends, or belongs to the parent process. post() raises if the mailbox is
            # closed; otherwise the loop's own thread aborts the operation.
            turn.loop_lock.release()
            turn.mailbox.post(fn, op)
            return
        watch = turn.watch
        assert watch is not None  # no thread stands in before start()
        loan: BorrowedFd | None = None
        asleep = False
        try:
            begin = partial(self._begin, fn, op)
            if future is not None and turn.served_future is None:
                loan = watch.lend()
            if loan is None or future is None:
                asleep = turn.batch(ident, begin)
                if turn.served_future is not None and turn.served_future.done():
                    watch.recall()
            else:
                turn.served_future = future
                asleep = self._serve(ident, watch, loan, begin, future, until)
        except BaseException as exc:
            # No thread reads the socket any more, or the operation is lost: the loop must end.
            turn.fail(exc)
            abort(op, LoopClosed("the event loop died of this operation", exc))
        if loan is not None:
            turn.served_future = None
            loan.out = False
            if turn.ended:
                loan.close()
                return  # keep loop_lock: no thread may become the loop thread any more
        turn.loop_lock.release()
        if not asleep:
            self._wake()

    def _serve(
        self,
        ident: int,
        watch: Watch,
        loan: BorrowedFd,
        begin: Callback,
        future: Future[Any],
        until: float,
    ) -> bool:
        """Do a batch, then one more each time input arrives, until ``future`` is done.

        :param loan: the loan of the socket, which has begun
        :returns: True if the loop's own thread may sleep on; see :meth:`Iteration.batch`
        :raises BaseException: the wait has failed; this thread holds ``loop_lock``
        """
        turn = self._turn
        changes = watch.changes
        asleep = turn.batch(ident, begin)
        # Once the watched descriptors change, or the loop ends, the loop's own thread takes over.
        while (
            asleep
            and not future.done()
            and changes == watch.changes
            and not turn.stopping
            and (left := until - time.monotonic()) > 0
        ):
            turn.loop_lock.release()
            try:
                readable = loan.wait(left)
            finally:
                turn.loop_lock.acquire()
            if readable and changes == watch.changes and not turn.stopping:
                asleep = turn.batch(ident, partial(watch.on_borrowed_readable, loan))
        if not turn.ended:
            watch.take_back(loan)
        return asleep

    def _begin(self, fn: Callable[[Any], object], op: Any) -> None:
        """Run ``fn(op)`` after all operations that were posted before.

        If operations still wait after :data:`BATCH` of them have run, post ``fn(op)`` behind them.
        """
        mailbox = self._turn.mailbox
        try:
            if mailbox.entries:
                mailbox.drain(BATCH)
            if mailbox.entries:
                mailbox.post(fn, op)
            else:
                fn(op)
        except BaseException as exc:
            abort(op, LoopClosed("the event loop died of this operation", exc))
            raise
