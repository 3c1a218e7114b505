#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""When proton has to look at the clock, so that idle time-outs are kept (AMQP 1.0, 2.4.5).

proton reckons silence from the tick at which it notices that bytes have come or gone, not from
the bytes themselves.  Were it ticked only at the deadlines it names, a dead peer would be noticed
after up to twice the time-out, and the peer would hear of us just as late.  So a tick follows
traffic closely, and none is made while nothing moves.  Sans-I/O; lives on the I/O thread.
"""

import math
from typing import Any

#: a time-out is kept to within this part of it
PRECISION = 8


class Ticks:
    """The due time of the next tick, beside the deadlines that proton names."""

    def __init__(self) -> None:
        #: seconds of the caller's clock
        self.due = math.inf
        self._interval = math.inf
        self._frames = (0, 0)

    def ticked(self, transport: Any, now: float) -> None:
        """proton has been ticked: do so again soon if frames have moved meanwhile."""
        times = [t for t in (transport.idle_timeout, transport.remote_idle_timeout) if t]
        self._interval = min(times) / PRECISION if times else math.inf
        frames = (transport.frames_input, transport.frames_output)
        self.due = now + self._interval if frames != self._frames else math.inf
        self._frames = frames

    def passed_over(self, now: float) -> None:
        """proton has not been ticked, but something may have moved."""
        if self.due == math.inf:
            self.due = now + self._interval

    def sooner(self, deadline: float) -> float:
        """The earlier of a deadline (0: none) and the due time."""
        if self.due == math.inf:
            return deadline
        return min(deadline, self.due) if deadline else self.due
