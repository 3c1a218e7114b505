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

"""A descriptor that a thread other than the loop's waits for, with a way to call it away."""

import math
import os

from amqp1_driver.eventloop import runtime

#: seconds; what poll(2) takes is bounded
_LONGEST = 86400.0


class Loan:
    """One at a time; where there are epoll and eventfd.

    Threads: recall() on any; the rest on the one that waits, which holds the loop's baton except
    in wait().

    :raises OSError: out of descriptors
    """

    def __init__(self) -> None:
        select = runtime.native("select")
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._event, select.POLLIN)
        self._readable = select.POLLIN
        self._lent: object = None
        self.fileno = -1
        #: whether somebody waits
        self.out = False

    def begin(self, fileno: int, registration: object) -> None:
        """What to wait for.

        :param registration: of the watch; another one, and the number is another file's
        """
        if registration is not self._lent:
            if self._lent is not None:
                self._poll.unregister(self.fileno)
            self._poll.register(fileno, self._readable)
            self.fileno, self._lent = fileno, registration
        self.out = True

    def wait(self, seconds: float) -> bool:
        """True if there is something to read, or the end; False after that time or recall()."""
        ready = self._poll.poll(math.ceil(min(seconds, _LONGEST) * 1000))
        if len(ready) == 1 and ready[0][0] == self.fileno:
            return True
        for fileno, _ in ready:
            if fileno == self._event:
                try:
                    os.eventfd_read(fileno)
                except BlockingIOError:
                    pass
        return len(ready) > 1

    def recall(self) -> None:
        """Have wait() return."""
        os.eventfd_write(self._event, 1)

    def close(self) -> None:
        """Give the descriptor back; nobody waits any more."""
        event, self._event = self._event, -1
        if event >= 0:
            os.close(event)
