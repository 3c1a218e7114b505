# SPDX-License-Identifier: Apache-2.0

"""The thread model of the process, native threads or eventlet's green threads; any thread.

Each function looks at the present state, because ``eventlet.monkey_patch()`` may come before or
after the import of this module. Only green_select() imports from eventlet; its callers have seen
that is_green() is true, so eventlet is loaded already.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")


def _patcher() -> Any:
    return sys.modules.get("eventlet.patcher")


def is_green() -> bool:
    """Return True if ``threading.Thread`` makes green threads in this process."""
    patcher = _patcher()
    return patcher is not None and bool(patcher.is_monkey_patched("thread"))


def native(name: str) -> ModuleType:
    """Return the module ``name`` of the standard library without eventlet's patches.

    The driver needs it for work beside the green hub: a blocking name lookup on a native thread,
    and sockets whose calls never block and so need no hub.
    """
    key = "thread" if name == "threading" else name
    patcher = _patcher()
    if patcher is None or not patcher.is_monkey_patched(key):
        return importlib.import_module(name)
    module: ModuleType = patcher.original(name)
    return module


def green_select() -> Any:
    """Return eventlet's own ``select`` function, which yields to the hub."""
    return importlib.import_module("eventlet.green.select").select


def offload(work: Callable[[], T], deliver: Callable[[T | Exception], object]) -> None:
    """Run ``work()`` in a short-lived daemon thread, then ``deliver(result or exception)`` there.

    The thread is native under eventlet too, because name lookups would block the hub. So
    ``deliver`` may only post to a loop.

    :raises RuntimeError: no thread can be started.
    """

    def run() -> None:
        result: T | Exception
        try:
            result = work()
        except Exception as exc:
            result = exc
        try:
            deliver(result)
        except Exception:
            # The loop has ended: no thread waits for the result any more. There is no log entry
            # either, as the locks of the log handlers may be green.
            pass

    native("threading").Thread(target=run, name="amqp1-resolver", daemon=True).start()
