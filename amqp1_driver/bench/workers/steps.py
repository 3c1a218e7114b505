# SPDX-License-Identifier: Apache-2.0

"""The loop of a worker that takes one step for each order, and reports the cost. Main thread."""

from __future__ import annotations

import ctypes
import gc
import time
import tracemalloc
from typing import Any

from . import usage


def serve(worker: Any, channel: Any, orders: Any) -> None:
    """Run the worker's method that each order names, until the order "end".

    An event of the same name reports the result of the method, the time and the processor time
    that the method took, and the memory after it.
    """
    for order in orders:
        step = order.pop("do")
        if step == "end":
            return
        before = usage.own()
        began = time.monotonic_ns()
        result = getattr(worker, step)(**order)
        took = time.monotonic_ns() - began
        used = usage.own().since(before)
        channel.tell(step, **{"took_ns": took, "cpu_us": used.cpu_us, **weigh(), **result})


def weigh() -> dict[str, int]:
    """Collect garbage, give free memory back to the system, and return the memory of this process.

    :returns: ``resident_kib``: resident memory; ``heap``: memory of Python's own allocations in
        bytes, 0 unless they are traced
    """
    gc.collect()
    _trim()
    heap = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0
    return {"resident_kib": usage.resident_kib(), "heap": heap}


def _trim() -> None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:
        pass  # the C library is not glibc
