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

"""Where this process spends its processor time.

While it samples, the kernel's timer of processor time (``ITIMER_PROF``) interrupts whichever thread
uses it just then, and ``faulthandler`` writes the Python stack of that thread to a file, in the
signal handler itself: no lock of the interpreter, no other thread and no stop is needed. So a
thread that only waits gives no sample, and the time that C code and the kernel take is found at
the line that called them.

While C code is making a call of Python, the stack begins nowhere for a few instructions (seen with
CPython 3.11 to 3.13): a sample that meets these ends the process with signal 11. Of the samples of
clients and servers one in several thousand does, so whoever asks for samples has to ask again.
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
    """One process's. Main thread of a worker.

    Orders are ``sample`` with the path of the file, and ``sampled``.
    """

    def __init__(self) -> None:
        self._descriptor = -1
        self._before = resource.getrusage(resource.RUSAGE_SELF)

    def serve(self, order: dict[str, Any], channel: Channel) -> bool:
        """Whether the order was for the sampler, which has then answered it."""
        if order["do"] == "sample":
            self.start(order["path"])
            channel.tell("sampling", pid=os.getpid())
        elif order["do"] == "sampled":
            channel.tell("sampled", **self.stop())
        else:
            return False
        return True

    def start(self, path: str) -> None:
        """Samples go to this file from now on."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)
        # what unregister() puts back: a signal that is still under way must not end the process
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        faulthandler.register(signal.SIGPROF, self._descriptor, all_threads=False, chain=False)
        self._before = resource.getrusage(resource.RUSAGE_SELF)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)

    def stop(self) -> dict[str, float]:
        """No more samples; the processor time in the meantime, microseconds."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        after = resource.getrusage(resource.RUSAGE_SELF)
        faulthandler.unregister(signal.SIGPROF)
        os.close(self._descriptor)
        return {
            "user_us": (after.ru_utime - self._before.ru_utime) * 1e6,
            "system_us": (after.ru_stime - self._before.ru_stime) * 1e6,
        }
