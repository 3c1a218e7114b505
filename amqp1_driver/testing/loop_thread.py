# SPDX-License-Identifier: Apache-2.0
"""An asyncio event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A running event loop; any thread but its own may call the methods.

    :param name: name of the thread
    :param on_error: called on the thread with an exception that no function has caught
    """

    def __init__(self, name: str, on_error: Callable[[BaseException], object] = bool) -> None:
        self._on_error = on_error
        self._lock = threading.Lock()
        self._stopped = False
        self._end = asyncio.Event()
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main(started)), name=name, daemon=True
        )
        self._thread.start()
        self.loop = started.result()

    async def _main(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        started.set_result(loop)
        await self._end.wait()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "exception" in context:
            self._on_error(context["exception"])

    def post(self, function: Callable[[], object]) -> bool:
        """Run a function on the thread soon; return False if the loop has ended."""
        with self._lock:
            if not self._stopped:
                self.loop.call_soon_threadsafe(function)
            return not self._stopped

    def call(self, function: Callable[[], T], timeout: float = 10.0) -> T | None:
        """Run a function on the thread and return its result; do nothing if the loop has ended.

        :param timeout: seconds
        :raises TimeoutError: the thread does not answer in time
        """
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as exc:
                future.set_exception(exc)

        return future.result(timeout) if self.post(run) else None

    def stop(self, last: Callable[[], object]) -> None:
        """Run a last function, then end the thread; idempotent."""

        def end() -> None:
            try:
                last()
            finally:
                self._end.set()

        with self._lock:
            if not self._stopped:
                self._stopped = True
                self.loop.call_soon_threadsafe(end)
        self._thread.join(10)


def reset_on_close(sock: socket.socket) -> None:
    """Make the socket send a reset (RST) when it is closed."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
