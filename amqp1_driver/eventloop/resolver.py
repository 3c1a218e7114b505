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

"""Slow work beside the loop: name lookups, which know no deadline."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from amqp1_driver.eventloop import runtime

T = TypeVar("T")

AddrInfo = tuple[int, int, int, str, tuple[Any, ...]]


def offload(work: Callable[[], T], deliver: Callable[[T | Exception], object]) -> None:
    """Run ``work()`` in a short-lived daemon thread, then ``deliver(result or exception)`` there.

    The thread is a native one under eventlet too: lookups would block the hub. So ``deliver``
    may do no more than post to a loop; what it raises is dropped (the loop has gone).

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
        # Nobody waits any more. Not even logged: the locks of the handlers may be green.
        pass


def lookup(host: str, port: int) -> list[AddrInfo]:
    """All TCP addresses of a host, in the order of the system's preference. Blocks.

    :raises OSError: the name does not resolve (socket.gaierror), or is no name at all.
    """
    socket = runtime.native("socket")
    try:
        found: list[AddrInfo] = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    except UnicodeError as exc:  # a label that is empty or too long
        raise OSError(f"not a host name: {exc}") from exc
    return found


def resolve(host: str, port: int, deliver: Callable[[list[AddrInfo] | Exception], object]) -> None:
    """Look up a host in a thread of its own; ``deliver`` gets the addresses or the error.

    ``deliver`` runs on that thread (see offload()). The lookup may take for ever: the caller
    applies a deadline and ignores what comes late.
    """
    offload(functools.partial(lookup, host, port), deliver)
