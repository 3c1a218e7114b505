#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What a peer is asked about a link, and how long for.  Lives on the I/O thread."""

from collections import deque
from collections.abc import Callable

from amqp1_driver.protocol.link import Cancellable, Scheduler

#: seconds in which a peer has to say that it knows of a link's new credit
ANSWER_TIMEOUT = 2.0

#: told whether the peer has answered
Answered = Callable[[bool], object]


class Questions:
    """Those who wait for answers of the peer, which come in the order of the questions.

    :param late: called when an answer has not come in time
    """

    def __init__(self, scheduler: Scheduler, late: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._late = late
        self._waiting: deque[Answered] = deque()
        self._timer: Cancellable | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, done: Answered) -> None:
        """One more has asked."""
        self._waiting.append(done)
        if self._timer is None:
            self._timer = self._scheduler.call_later(ANSWER_TIMEOUT, self._too_late)

    def answer(self) -> None:
        """The oldest question was answered."""
        if not self._waiting:
            return
        done = self._waiting.popleft()
        if not self._waiting:
            self._stop_timer()
        done(True)

    def end(self, confirmed: bool) -> None:
        """All are answered, or never will be."""
        self._stop_timer()
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            done(confirmed)

    def _too_late(self) -> None:
        self._timer = None
        self._late()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
