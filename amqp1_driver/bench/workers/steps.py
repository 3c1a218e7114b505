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

"""A worker that is told step by step what to do, and says after each what it cost."""

from __future__ import annotations

import ctypes
import gc
import time
import tracemalloc
from typing import Any

from . import usage


def serve(worker: Any, channel: Any, orders: Any) -> None:
    """Run the worker's method that each order names, until the order "end".

    What the method returns is the event of the same name, with the processor time that it took
    and the memory there is afterwards.
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
    """Memory of this process when garbage is collected and free memory given back.

    ``heap`` is what Python's own allocations take, bytes: 0 unless they are traced.
    """
    gc.collect()
    _trim()
    heap = tracemalloc.get_traced_memory()[0] if tracemalloc.is_tracing() else 0
    return {"resident_kib": usage.resident_kib(), "heap": heap}


def _trim() -> None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:
        pass  # another C library than glibc
