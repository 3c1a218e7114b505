# SPDX-License-Identifier: Apache-2.0

"""A connection's access to the loop, on the loop thread unless :class:`Guard` says otherwise.

An exception in a callback of the connection fails that connection and never ends the loop.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from amqp1_driver.eventloop.loop import EventLoop, Resource
from amqp1_driver.eventloop.timers import Timer
from amqp1_driver.eventloop.watch import Callback


class Guard:
    """The loop's methods for one connection, which catch what the connection's callbacks raise.

    A connection has no other way to the loop, so none of its callbacks can end the loop. An
    exception that is not derived from Exception, such as KeyboardInterrupt, still ends the loop.
    Threads: post(), wrap() and now() on any thread; the rest on the loop thread. See
    :class:`EventLoop` for methods without a docstring here.

    :param failed: called with the exception, on the loop thread; fails the connection
    """

    def __init__(self, loop: EventLoop, failed: Callable[[Exception], object]) -> None:
        self._loop = loop
        self._failed = failed

    def now(self) -> float:
        return self._loop.now()

    def assert_in_loop(self) -> None:
        self._loop.assert_in_loop()

    def attach(self, resource: Resource) -> None:
        self._loop.attach(resource)

    def detach(self, resource: Resource) -> None:
        self._loop.detach(resource)

    def register(self, fileno: int, on_readable: Callback, on_writable: Callback) -> None:
        self._loop.register(fileno, on_readable, on_writable, self._failed)

    def set_writable(self, fileno: int, wanted: bool) -> None:
        self._loop.set_writable(fileno, wanted)

    def unregister(self, fileno: int) -> None:
        """Stop watching a descriptor; idempotent."""
        if self._loop.is_registered(fileno):
            self._loop.unregister(fileno)

    def call_at(self, when: float, fn: Callback) -> Timer:
        return self._loop.call_at(when, partial(self.run, fn))

    def call_later(self, delay: float, fn: Callback) -> Timer:
        return self._loop.call_later(delay, partial(self.run, fn))

    def post(self, fn: Callable[[Any], object], op: Any = None) -> None:
        self._loop.post(self.wrap(fn), op)

    def wrap(self, fn: Callable[[Any], object]) -> Callable[[Any], object]:
        """Return a function that calls ``fn(op)``; if ``fn`` raises, the connection fails.

        :meth:`EventLoop.put` takes the returned function.
        """

        def guarded(op: Any) -> None:
            try:
                fn(op)
            except Exception as exc:
                self._failed(exc)

        return guarded

    def run(self, fn: Callback) -> None:
        """Call ``fn()`` at once; if it raises, the connection fails."""
        try:
            fn()
        except Exception as exc:
            self._failed(exc)
