# SPDX-License-Identifier: Apache-2.0

"""Blocking work on short-lived threads beside the loop: name lookups, which have no deadline."""

from collections.abc import Callable
from typing import Any, TypeVar

from amqp1_driver.eventloop import runtime

T = TypeVar("T")

AddrInfo = tuple[int, int, int, str, tuple[Any, ...]]


def offload(work: Callable[[], T], deliver: Callable[[T | Exception], object]) -> None:
    """Run ``work()`` in a short-lived daemon thread, then ``deliver(result or exception)`` there.

    The thread is native under eventlet too, because lookups would block the hub. So ``deliver``
    may only post to a loop. An exception of ``deliver`` is dropped: the loop has ended.

    :raises RuntimeError: no thread can be started.
    """
    thread = runtime.native("threading").Thread(
        target=_run, args=(work, deliver), name="amqp1-resolver", daemon=True
    )
    thread.start()


def _run(work: Callable[[], T], deliver: Callable[[T | Exception], object]) -> None:
    result: T | Exception
    try:
        result = work()
    except Exception as exc:
        result = exc
    try:
        deliver(result)
    except Exception:
        # No thread waits for the result any more. There is no log entry either, as the locks of
        # the log handlers may be green.
        pass


def lookup(host: str, port: int) -> list[AddrInfo]:
    """Return all TCP addresses of a host in the system's order of preference. Blocks.

    :raises OSError: the name does not resolve (socket.gaierror), or is no valid host name.
    """
    socket = runtime.native("socket")
    try:
        found: list[AddrInfo] = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    except UnicodeError as exc:  # a label that is empty or too long
        raise OSError(f"not a host name: {exc}") from exc
    return found
