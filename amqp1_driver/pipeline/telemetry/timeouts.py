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

"""Settings of timeouts: how long is long enough, by what was seen. Pure.

A message has to outlast a change of the bus: it waits for a connection, then takes its usual time.
So a timeout has to be at least ``3 x p99.9``, and ``p99.9 + 1.5 x the longest recovery``.

Times of those that were late are not in the percentiles: they are not known. Where more than one
in a thousand was late, the p99.9 is not known either, and nothing is recommended: a longer timeout
would hide what holds them up.
"""

from __future__ import annotations

from amqp1_driver.pipeline.telemetry.advice import (
    HEADROOM,
    LEAST,
    LOOK,
    Advice,
    at_most,
    enough,
    none,
    said,
    too_few,
)
from amqp1_driver.pipeline.telemetry.credit import Lookup
from amqp1_driver.pipeline.telemetry.observed import Observed, Times

#: over the p99.9
TAIL = 3
#: no timeout is recommended below it, seconds
SHORTEST = 1.0
#: share of late ones from which the p99.9 is unknown
LATE = 0.001
#: connections, and losses of them, that say something
CONNECTIONS, LOSSES = 30, 3
#: a peer that is only slow must not be taken for dead, seconds
LEAST_IDLE = 10.0
_NO_TIMES = Times(0, None, None)

#: option -> what it is for
MESSAGES = {
    "default_send_timeout": ("cast", "casts"),
    "default_notify_timeout": ("notification", "notifications"),
    "default_reply_timeout": ("reply", "replies"),
    "[DEFAULT] rpc_response_timeout": ("call", "calls"),
}


def messages(observed: Observed, look: Lookup) -> list[Advice]:
    """The timeouts of messages whose sender gives none."""
    return [_message(option, observed, look) for option in MESSAGES]


def _message(option: str, observed: Observed, look: Lookup) -> Advice:
    kind, words = MESSAGES[option]
    times, known = observed.times.get(kind, _NO_TIMES), look(option)
    if times.samples < LEAST or times.p999 is None:
        return none(known, too_few(f"{words} that got there", times.samples), times.samples)
    share = times.late / (times.late + times.samples)
    if share >= LATE:
        why = (f"{times.late:,} of {times.late + times.samples:,} {words} ({share:.2%}) were late, "
               "so that their p99.9 is not known. The table of timeouts says what they waited for: "
               "a longer timeout would only hide it")
        return none(known, why, times.samples, LOOK)
    need = max(SHORTEST, TAIL * times.p999)
    why = f"p99.9 of {words} is {said(times.p999)}, the longest took {said(times.longest or 0.0)}"
    if observed.recovery is not None:
        need = max(need, times.p999 + HEADROOM * observed.recovery)
        why += f"; without connection for up to {said(observed.recovery)}"
    else:
        why += "; no connection was lost in these records, which would take longer"
    return enough(known, need, why, times.samples)


def connect(observed: Observed, look: Lookup) -> Advice:
    """connect_timeout: by first connections at the first attempt."""
    known, count = look("connect_timeout"), observed.first_connections
    if count < CONNECTIONS or observed.connecting is None:
        return none(known, too_few("connections at the first attempt", count, CONNECTIONS), count)
    need = max(SHORTEST, TAIL * observed.connecting)
    why = f"the longest of {count:,} took {said(observed.connecting)}; {TAIL} times that"
    return enough(known, need, why, count)


def idle(observed: Observed, look: Lookup) -> Advice:
    """idle_timeout: a dead peer has to be given up while those who wait still have time.

    ``idle_timeout + 1.5 x longest recovery <= timeout of messages``, the shortest of those for
    casts and notifications; but not less than 10 s.
    """
    known, count = look("idle_timeout"), observed.recovered
    if count < LOSSES or observed.recovery is None:
        return none(known, too_few("connections lost and made up for", count, LOSSES), count)
    patience = min(look("default_send_timeout").value, look("default_notify_timeout").value)
    bound = max(LEAST_IDLE, patience - HEADROOM * observed.recovery)
    why = (f"messages wait {said(patience)} at most; after a dead peer is given up it takes up to "
           f"{said(observed.recovery)} until there is a connection. What waits then is in time "
           f"only if the peer is given up within {said(bound)}")
    if known.value == 0:
        return enough(known, bound, why + "; it is turned off", count)
    return at_most(known, bound, why, count)


def sender_links(observed: Observed, look: Lookup) -> Advice:
    """default_sender_link_timeout: links in regular use should stay."""
    known, gaps = look("default_sender_link_timeout"), observed.gaps
    if observed.seconds < 2 * known.value:
        why = (f"the records go on for {said(observed.seconds)}, which is less than twice the "
               "present value")
        return none(known, why, gaps.samples)
    if gaps.samples < LEAST or gaps.p99 is None:
        return none(known, too_few("gaps between uses of a link", gaps.samples), gaps.samples)
    why = f"99 % of {gaps.samples:,} gaps between uses of a link are of {said(gaps.p99)} at most"
    return enough(known, gaps.p99 + 1, why, gaps.samples)
