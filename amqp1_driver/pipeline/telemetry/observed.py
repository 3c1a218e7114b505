# SPDX-License-Identifier: Apache-2.0

"""The observations from telemetry on which recommended settings depend.  Values; any thread.

All durations are seconds, sizes bytes, rates messages per second.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Flow:
    """The messages to one address.

    :ivar place: the address
    :ivar traffic: "rpc" or "notify"
    :ivar peak: most messages in a second
    :ivar round_trip: p99 of the time from sending a message to its outcome; None: no value
    :ivar samples: number of values in ``round_trip``
    :ivar size: p99 of the bodies' sizes
    :ivar fanout: every reader gets every message
    :ivar readers: clients whose subscription stalled; 0: none did
    :ivar limit: highest credit of these subscriptions; None: none stalled
    :ivar stalls: number of their stalls
    :ivar stall: median duration of their stalls; None: none has ended
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
    """The total times of messages that arrived.

    :ivar samples: number of messages that arrived
    :ivar p999: None: no value
    :ivar longest: None: no value
    :ivar late: number of messages that timed out
    """

    samples: int
    p999: float | None
    longest: float | None
    late: int = 0


@dataclasses.dataclass(frozen=True)
class Spread:
    """A p99, and the number of its values.

    :ivar p99: None: no value
    """

    samples: int
    p99: float | None


NOTHING = Spread(0, None)


@dataclasses.dataclass(frozen=True)
class Observed:
    """All observations from one set of records.

    :ivar seconds: time from the first record to the last
    :ivar flows: one for each address and kind of traffic
    :ivar times: total times by operation: call, cast (fanouts included), notification, reply
    :ivar sends: most messages that one client sent in a second; likewise ``calls``, ``replies``
    :ivar handover: time until the I/O thread has a message
    :ivar reply_wait: time until a reply goes out
    :ivar call_round_trip: time from sending a call to its outcome; to its reply, where few calls
        have an outcome because the reply came first
    :ivar recovered: lost connections after which the client connected again
    :ivar recovery: longest time from a lost connection to the next one; None: no value
    :ivar first_connections: first connections that took a single attempt
    :ivar connecting: longest time that one of these took; None: no value
    :ivar gaps: times between two uses of a sending link
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
