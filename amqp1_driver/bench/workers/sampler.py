# SPDX-License-Identifier: Apache-2.0

"""A sampler of the Python stacks on which this process spends its processor time.

During sampling, the kernel's timer of processor time (``ITIMER_PROF``) interrupts the thread that
uses the processor at that moment. ``faulthandler`` writes the Python stack of that thread to a
file, in the signal handler itself: this needs no interpreter lock and no other thread, and does not
stop the process. So a thread that only waits gives no sample, and the time of C code and of the
kernel counts at the Python line that called them.

While C code calls a Python function, the stack has no valid beginning for a few instructions (seen
with CPython 3.11 to 3.13). A sample at such a moment ends the process with signal 11. In clients
and servers this happens to one sample in several thousand, so the parent must repeat such a run.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
from typing import Any

from .channel import Channel

#: processor time between two samples, seconds; kernels have ticks of 1 to 10 ms
INTERVAL = 0.008


class Sampler:
    """The sampler of one process. Main thread of a worker.

    Its orders are ``sample``, with the path of the file, and ``sampled``, which stops it.
    """

    def __init__(self) -> None:
        self._descriptor = -1
        self._before = resource.getrusage(resource.RUSAGE_SELF)

    def serve(self, order: dict[str, Any], channel: Channel) -> bool:
        """Execute and answer an order if it is for the sampler; return whether it was."""
        if order["do"] == "sample":
            self.start(order["path"])
            channel.tell("sampling", pid=os.getpid())
        elif order["do"] == "sampled":
            channel.tell("sampled", **self.stop())
        else:
            return False
        return True

    def start(self, path: str) -> None:
        """Start to write samples to this file."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)
        # unregister() restores this handler: a signal still pending must not end the process
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        faulthandler.register(signal.SIGPROF, self._descriptor, all_threads=False, chain=False)
        self._before = resource.getrusage(resource.RUSAGE_SELF)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)

    def stop(self) -> dict[str, float]:
        """Stop sampling.

        :returns: processor time since the start: ``user_us`` and ``system_us``, microseconds
        """
        signal.setitimer(signal.ITIMER_PROF, 0)
        after = resource.getrusage(resource.RUSAGE_SELF)
        faulthandler.unregister(signal.SIGPROF)
        os.close(self._descriptor)
        return {
            "user_us": (after.ru_utime - self._before.ru_utime) * 1e6,
            "system_us": (after.ru_stime - self._before.ru_stime) * 1e6,
        }
