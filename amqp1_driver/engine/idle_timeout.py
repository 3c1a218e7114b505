# SPDX-License-Identifier: Apache-2.0

"""The times of proton's ticks, which keep the idle time-outs (2.4.5); lives on the I/O thread.

proton measures silence from the tick at which it notices traffic, not from the traffic itself. With
ticks only at the deadlines that proton names, it would notice a dead peer after up to twice the
time-out, and it would send its empty frames just as late. Therefore a tick follows soon after
traffic, and there is no additional tick without traffic. Sans-I/O.
"""

import math
from typing import Any

#: the error of a time-out is at most the time-out divided by this
PRECISION = 8


class IdleTimeout:
    """The due time of the next additional tick, besides the deadlines that proton names."""

    def __init__(self) -> None:
        #: due time in seconds of the caller's clock; infinite: no additional tick is due
        self.due = math.inf
        self._interval = math.inf
        self._frames = (0, 0)

    def ticked(self, transport: Any, now: float) -> None:
        """Note a tick of proton; if frames have passed since the last one, make another due soon.

        :param now: seconds of the caller's clock
        """
        times = [t for t in (transport.idle_timeout, transport.remote_idle_timeout) if t]
        self._interval = min(times) / PRECISION if times else math.inf
        frames = (transport.frames_input, transport.frames_output)
        self.due = now + self._interval if frames != self._frames else math.inf
        self._frames = frames

    def passed_over(self, now: float) -> None:
        """Make a tick due soon: there was no tick now, but there may have been traffic.

        :param now: seconds of the caller's clock
        """
        if self.due == math.inf:
            self.due = now + self._interval

    def sooner(self, deadline: float) -> float:
        """Return the earlier of a deadline (0: none) and the due time; 0 if there is neither."""
        if self.due == math.inf:
            return deadline
        return min(deadline, self.due) if deadline else self.due
