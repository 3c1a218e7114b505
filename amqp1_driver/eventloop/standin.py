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

"""A thread that has an operation for the loop, in place of the loop's own, which sleeps."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from amqp1_driver.eventloop.errors import LoopClosed
from amqp1_driver.eventloop.futures import Future
from amqp1_driver.eventloop.loan import Loan
from amqp1_driver.eventloop.mailbox import abort
from amqp1_driver.eventloop.turn import BATCH, Turn
from amqp1_driver.eventloop.watch import Callback, Watch


class StandIn:
    """Does the loop's work; by who holds the baton, which is laid down in the end.

    What raises ends the loop, as it does there. Work that is left, or a timer that is due
    sooner than the loop would wake, is left to the loop.

    :param wake: has the loop's own thread look up
    """

    def __init__(self, turn: Turn, wake: Callable[[], object]) -> None:
        self._turn = turn
        self._wake = wake

    def run(self, ident: int, fn: Callable[[Any], object], op: Any,
            future: Future[Any] | None, until: float) -> None:
        """One batch that begins with ``fn(op)``.

        :param ident: this thread
        :param future: as in :meth:`EventLoop.put`, and ``until``
        """
        turn = self._turn
        watch = turn.watch
        assert watch is not None  # nobody stands in before the start
        begin = partial(self._begin, fn, op)
        loan = watch.lend() if future is not None and turn.attended is None else None
        if loan is None or future is None:
            asleep = turn.batch(ident, begin)
            if turn.attended is not None and turn.attended.done():
                watch.recall()
        else:
            turn.attended = future
            asleep = self._serve(ident, watch, loan, begin, until)
            turn.attended = None
            if turn.ended:
                loan.close()
                return  # with the baton: nobody is the loop thread any more
        turn.baton.release()
        if not asleep:
            self._wake()

    def _serve(self, ident: int, watch: Watch, loan: Loan, begin: Callback, until: float) -> bool:
        """A batch, and those for what comes in until the attended future is done. Never raises:
        the baton has to be given back.

        :returns: whether the loop was left asleep
        """
        turn = self._turn
        future = turn.attended
        try:
            asleep = turn.batch(ident, begin)
            while (asleep and future is not None and not future.done()
                    and (left := until - time.monotonic()) > 0):
                changes = watch.changes
                turn.baton.release()
                try:
                    readable = loan.wait(left)
                finally:
                    turn.baton.acquire()
                if turn.stopping or turn.failure is not None or changes != watch.changes:
                    break  # the future tells, or the loop's own thread sees to it
                if readable:
                    asleep = turn.batch(ident, partial(watch.read_lent, loan))
            if not turn.ended:
                watch.take_back(loan)
            return asleep
        except BaseException as exc:
            turn.failure = exc  # nobody reads the socket any more: the loop has to end
            loan.out = False
            return False

    def _begin(self, fn: Callable[[Any], object], op: Any) -> None:
        """What was posted before comes first."""
        mailbox = self._turn.mailbox
        if mailbox.entries:
            mailbox.drain(BATCH)
        if mailbox.entries:
            mailbox.post(fn, op)
            return
        try:
            fn(op)
        except BaseException as exc:
            abort(op, LoopClosed("the event loop died of this operation", exc))
            raise
