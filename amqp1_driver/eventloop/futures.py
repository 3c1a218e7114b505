# SPDX-License-Identifier: Apache-2.0

"""The one way back from the I/O thread to a caller: a future per operation; any thread."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from amqp1_driver.eventloop.errors import Cancelled

T = TypeVar("T")

#: seconds that cancel() waits for a thread that has taken the claim and writes the result next;
#: only two lines of code lie between claim and result
CLAIM_TO_RESULT_SECONDS = 5.0


class Future(Generic[T]):
    """The result of one operation, completed exactly once.

    Threads: any thread may complete a future (normally the loop thread does), and any number of
    threads may wait for it. Only one thread can take the claim, which is the right to complete
    the future; that thread writes value or error, then ``_done``, then opens the gate. Other
    threads read value and error only after they have seen ``_done`` or passed the gate.

    The gate is a lock that starts locked; waiters queue at it. A lock is faster than a condition
    variable by half, and each waiting caller has a future of its own anyway.

    :param release: called with the gate to open it, in place of the gate's own release(); see
        :meth:`EventLoop.release`
    """

    __slots__ = ("_claims", "_done", "_error", "_gate", "_release", "_value")

    def __init__(self, release: Callable[[Any], object] | None = None) -> None:
        self._release = release
        # Looked up now, not at import: eventlet may have replaced threading.Lock since.
        self._gate = threading.Lock()
        self._gate.acquire()
        # list.pop() is atomic: the thread that gets the one element may complete the future.
        self._claims = [None]
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def set_result(self, value: T | None, error: BaseException | None = None) -> bool:
        """Complete the future with a value; return False if it was complete or cancelled.

        :param error: complete the future with this exception instead
        """
        try:
            self._claims.pop()
        except IndexError:
            return False
        self._value = value
        self._error = error
        self._done = True
        if self._release is None:
            self._gate.release()
        else:
            self._release(self._gate)
        return True

    def set_exception(self, error: BaseException) -> bool:
        """Complete the future with an exception; return False if it was complete or cancelled."""
        return self.set_result(None, error)

    def cancel(self) -> bool:
        """Give up on the result.

        :returns: False if another thread has completed the future; done() is then true
        """
        if self.set_exception(Cancelled()):
            return True
        self.wait(CLAIM_TO_RESULT_SECONDS)  # another thread has the claim and writes the result now
        return False

    def done(self) -> bool:
        """Return True once there is a result, an exception or a cancellation."""
        return self._done

    def cancelled(self) -> bool:
        """Return True once cancel() has succeeded."""
        return self._done and isinstance(self._error, Cancelled)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds (None: for ever); return True if the future is done."""
        if self._done:
            return True
        if timeout is None:
            self._gate.acquire()
        elif timeout <= 0:
            if not self._gate.acquire(False):
                return self._done
        elif not self._gate.acquire(True, min(timeout, threading.TIMEOUT_MAX)):
            return self._done
        self._gate.release()  # the next waiter passes too
        return True

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it, or raise the exception of the operation.

        :param timeout: seconds; None waits for ever
        :raises TimeoutError: the future is not done within ``timeout`` seconds. The future stays
            as it is: cancel() then returns False if a result has come meanwhile.
        :raises Cancelled: cancel() was called.
        """
        if not self._done:
            # the code of wait(), inline because every call waits here
            if timeout is None or not 0 < timeout <= threading.TIMEOUT_MAX:
                done = self.wait(timeout)
            elif done := self._gate.acquire(True, timeout):
                self._gate.release()
            if not (done or self._done):
                raise TimeoutError(f"no result within {timeout} s")
        if self._error is None:
            return self._value  # type: ignore[return-value]
        try:
            raise self._error
        finally:
            # The traceback refers to this frame, and self to the exception: break the cycle.
            del self
