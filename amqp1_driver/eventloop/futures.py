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

"""The one way back from the I/O thread to a caller: a future per operation."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from amqp1_driver.eventloop.errors import Cancelled

T = TypeVar("T")


class Future(Generic[T]):
    """The result of one operation, completed exactly once.

    Threads: completed by any thread (normally the loop), awaited by any number of threads.
    A lock that is born locked is the gate that waiters queue at; it is faster than a
    condition variable by half, and there is one for each waiting caller anyway.

    :param release: opens the gate in place of the gate's own method; see
        :meth:`EventLoop.release`
    """

    __slots__ = ("_claims", "_done", "_error", "_gate", "_release", "_value")

    def __init__(self, release: Callable[[Any], object] | None = None) -> None:
        self._release = release
        # Looked up now, not at import: eventlet may have replaced it since.
        self._gate = threading.Lock()
        self._gate.acquire()
        # list.pop() is atomic: who gets the one element may complete the future.
        self._claims = [None]
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def _claim(self) -> bool:
        try:
            self._claims.pop()
        except IndexError:
            return False
        return True

    def _finish(self) -> None:
        self._done = True
        if self._release is None:
            self._gate.release()
        else:
            self._release(self._gate)

    def set_result(self, value: T) -> bool:
        """Complete with a value; False if it was completed or cancelled before."""
        try:  # as _claim() and _finish(), in line: it is called for every message
            self._claims.pop()
        except IndexError:
            return False
        self._value = value
        self._done = True
        if self._release is None:
            self._gate.release()
        else:
            self._release(self._gate)
        return True

    def set_exception(self, error: BaseException) -> bool:
        """Complete with an exception; False if it was completed or cancelled before."""
        if not self._claim():
            return False
        self._error = error
        self._finish()
        return True

    def cancel(self) -> bool:
        """Give up on the result; False if there is one already."""
        return self.set_exception(Cancelled())

    def done(self) -> bool:
        """True once there is a result, an exception or a cancellation."""
        return self._done

    def cancelled(self) -> bool:
        """True once cancel() has succeeded."""
        return self._done and isinstance(self._error, Cancelled)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds (None: for ever); True if the future is done."""
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

        :raises TimeoutError: not done within ``timeout`` seconds. The future stays as it is:
            cancel() then tells whether a result came in meanwhile.
        :raises Cancelled: cancel() was called.
        """
        if not self._done:
            # as wait(), in line: every call waits here
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
            # The traceback refers to this frame, and self to the exception: break the circle.
            del self
