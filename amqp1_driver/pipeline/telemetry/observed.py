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

"""What is known of a system from its telemetry, as far as settings depend on it. Pure values.

All durations are seconds, sizes bytes, rates messages per second.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Flow:
    """What goes to one address.

    :ivar traffic: "rpc" or "notify"
    :ivar peak: most messages in a second
    :ivar round_trip: p99 from going out to the outcome; None where nobody knows
    :ivar samples: how many told it
    :ivar size: p99
    :ivar fanout: every reader gets every message
    :ivar readers: subscriptions that were seen to stall; 0: none was
    :ivar limit: credit of those, None where none was seen
    :ivar stalls: of those
    :ivar stall: median of how long they lasted
    """

    place: str
    traffic: str
    peak: float
    round_trip: float | None
    samples: int
    size: int = 0
    fanout: bool = False
    readers: int = 0
    limit: int | None = None
    stalls: int = 0
    stall: float | None = None


@dataclasses.dataclass(frozen=True)
class Times:
    """Total times of messages that got there in time, and how many did not (``late``)."""

    samples: int
    p999: float | None
    longest: float | None
    late: int = 0


@dataclasses.dataclass(frozen=True)
class Spread:
    """A p99 and how many values it is of."""

    samples: int
    p99: float | None


NOTHING = Spread(0, None)


@dataclasses.dataclass(frozen=True)
class Observed:
    """All of it.

    :ivar seconds: how long the records go on for
    :ivar times: by what is sent: call, cast (and fanout), notification, reply
    :ivar sends, calls, replies: most of one client in a second
    :ivar handover: until the I/O thread has a message
    :ivar reply_wait: until a reply goes out
    :ivar call_round_trip: from a call's going out to its outcome; where that is told seldom, since
        the reply came first, to the reply
    :ivar recovered: connections lost that were made up for
    :ivar recovery: the longest time that took
    :ivar first_connections: of a single attempt
    :ivar connecting: the longest time that took
    :ivar gaps: times between two uses of a link to send on
    """

    seconds: float = 0.0
    flows: Sequence[Flow] = ()
    times: Mapping[str, Times] = dataclasses.field(default_factory=dict)
    sends: float = 0.0
    calls: float = 0.0
    replies: float = 0.0
    handover: Spread = NOTHING
    reply_wait: Spread = NOTHING
    call_round_trip: Spread = NOTHING
    recovered: int = 0
    recovery: float | None = None
    first_connections: int = 0
    connecting: float | None = None
    gaps: Spread = NOTHING
