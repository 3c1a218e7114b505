# SPDX-License-Identifier: Apache-2.0

"""The loan of a watched descriptor to a caller, which waits in place of the loop's own thread."""

import math
import os

from amqp1_driver.eventloop import runtime

#: longest wait in seconds; the time-out of poll(2) is bounded
MAX_POLL_SECONDS = 86400.0


class BorrowedFd:
    """A loan of one descriptor at a time to a thread other than the loop's own.

    A loan needs epoll and eventfd.

    Threads: wait() runs on the borrowing thread, without the loop lock (``loop_lock``). wait()
    reads the values that begin() has written, and nothing changes these values before the next
    begin(). All else, ``out`` included, belongs to the thread that holds ``loop_lock``. So no
    thread calls recall() after close() or while a new loan begins.

    :raises OSError: out of descriptors
    """

    def __init__(self) -> None:
        select = runtime.native("select")
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._event, select.POLLIN)
        self._readable = select.POLLIN
        self._registration: object = None
        self.fileno = -1
        #: True while a thread has the loan
        self.out = False

    def begin(self, fileno: int, registration: object) -> None:
        """Begin a loan: set the descriptor that wait() waits for.

        :param registration: the watch's registration of ``fileno``; if it differs from that of
            the last loan, the descriptor's number may belong to another file now
        """
        if registration is not self._registration:
            if self._registration is not None:
                self._poll.unregister(self.fileno)
            self._poll.register(fileno, self._readable)
            self.fileno, self._registration = fileno, registration
        self.out = True

    def wait(self, seconds: float) -> bool:
        """Wait for input on the descriptor.

        :returns: True if there is input, the end of input or an error; False after ``seconds`` or
            recall()
        """
        ready = self._poll.poll(math.ceil(min(seconds, MAX_POLL_SECONDS) * 1000))
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
        """Make wait() return."""
        os.eventfd_write(self._event, 1)

    def close(self) -> None:
        """Close the eventfd. Call this only when no thread waits any more."""
        event, self._event = self._event, -1
        if event >= 0:
            os.close(event)
