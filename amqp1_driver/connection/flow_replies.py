# SPDX-License-Identifier: Apache-2.0

"""The echoes and drains of a link that the peer has not answered yet; on the I/O thread."""

from collections import deque
from collections.abc import Callable

from amqp1_driver.interfaces import Scheduler, Timer

#: seconds within which a peer has to answer an echo or a drain
ANSWER_TIMEOUT = 2.0

#: called with True if the peer has answered, with False if it has not
Answered = Callable[[bool], object]


class FlowReplies:
    """A queue of callbacks, one for each unanswered request for an echo or a drain.

    The peer answers in the order of the requests.

    :param late: called when one request has been the oldest for :data:`ANSWER_TIMEOUT` seconds
    """

    def __init__(self, scheduler: Scheduler, late: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._on_late = late
        self._waiting: deque[Answered] = deque()
        self._timer: Timer | None = None

    def __bool__(self) -> bool:
        """Return whether any request is unanswered."""
        return bool(self._waiting)

    def add(self, done: Answered) -> None:
        """Queue the callback of a request that the link has just sent."""
        self._waiting.append(done)
        if self._timer is None:
            self._timer = self._scheduler.call_later(ANSWER_TIMEOUT, self._timed_out)

    def answer(self) -> None:
        """Call the oldest callback with True: the peer has answered its request."""
        if not self._waiting:
            return
        done = self._waiting.popleft()
        self._stop_timer()
        if self._waiting:  # the time of the next request begins now
            self._timer = self._scheduler.call_later(ANSWER_TIMEOUT, self._timed_out)
        done(True)

    def end(self, confirmed: bool) -> None:
        """Call all callbacks with ``confirmed``: no request needs an answer any more."""
        self._stop_timer()
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            done(confirmed)

    def _timed_out(self) -> None:
        self._timer = None
        self._on_late()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
