# SPDX-License-Identifier: Apache-2.0

"""Recommendations for timeouts, by observed times.  Pure; any thread.

A message has to survive a failover: it waits for a connection, then takes its usual time. So a
timeout has to be at least ``3 x p99.9``, and at least ``p99.9 + 1.5 x the longest recovery``.

The percentiles do not count messages that timed out, since their times are not known. If one
message in a thousand or more timed out, the p99.9 is not known either. Then there is no
recommendation: a longer timeout would hide the cause of the delay.
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

#: factor over the p99.9, and over the longest time to connect
TAIL = 3
#: lowest timeout that is recommended, seconds
SHORTEST = 1.0
#: share of messages that timed out from which on the p99.9 is unknown
LATE = 0.001
#: connections, and lost connections, that a recommendation needs at least
CONNECTIONS, LOSSES = 30, 3
#: lowest idle timeout, seconds; with a lower one the driver would take a slow peer for dead
LEAST_IDLE = 10.0
_NO_TIMES = Times(0, None, None)

#: option -> operation whose timeout it sets, and its plural
MESSAGES = {
    "default_send_timeout": ("cast", "casts"),
    "default_notify_timeout": ("notification", "notifications"),
    "default_reply_timeout": ("reply", "replies"),
    "[DEFAULT] rpc_response_timeout": ("call", "calls"),
}


def messages(observed: Observed, look: Lookup) -> list[Advice]:
    """Judge the default timeouts of messages, for senders that give no timeout."""
    return [_message(option, observed, look) for option in MESSAGES]


def _message(option: str, observed: Observed, look: Lookup) -> Advice:
    kind, words = MESSAGES[option]
    times, known = observed.times.get(kind, _NO_TIMES), look(option)
    if times.samples < LEAST or times.p999 is None:
        return none(known, too_few(f"{words} that got there", times.samples), times.samples)
    share = times.late / (times.late + times.samples)
    if share >= LATE:
        why = (
            f"{times.late:,} of {times.late + times.samples:,} {words} ({share:.2%}) were late, "
            "so that their p99.9 is not known. The table of timeouts says what they waited for: "
            "a longer timeout would only hide it"
        )
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
    """Judge ``connect_timeout`` by clients whose first connection took a single attempt."""
    known, count = look("connect_timeout"), observed.first_connections
    if count < CONNECTIONS or observed.connecting is None:
        return none(known, too_few("connections at the first attempt", count, CONNECTIONS), count)
    need = max(SHORTEST, TAIL * observed.connecting)
    why = f"the longest of {count:,} took {said(observed.connecting)}; {TAIL} times that"
    return enough(known, need, why, count)


def idle(observed: Observed, look: Lookup) -> Advice:
    """Judge ``idle_timeout``: the driver has to give up a dead peer before messages time out.

    The rule is ``idle_timeout + 1.5 x longest recovery <= timeout of messages``, with the shorter
    timeout of casts and notifications. The bound is never below 10 s.
    """
    known, count = look("idle_timeout"), observed.recovered
    if count < LOSSES or observed.recovery is None:
        return none(known, too_few("connections lost and made up for", count, LOSSES), count)
    patience = min(look("default_send_timeout").value, look("default_notify_timeout").value)
    bound = max(LEAST_IDLE, patience - HEADROOM * observed.recovery)
    why = (
        f"messages wait {said(patience)} at most; after a dead peer is given up it takes up to "
        f"{said(observed.recovery)} until there is a connection. What waits then is in time "
        f"only if the peer is given up within {said(bound)}"
    )
    if known.value == 0:
        return enough(known, bound, why + "; it is turned off", count)
    return at_most(known, bound, why, count)


def sender_links(observed: Observed, look: Lookup) -> Advice:
    """Judge ``default_sender_link_timeout``, so that links in regular use stay attached."""
    known, gaps = look("default_sender_link_timeout"), observed.gaps
    if observed.seconds < 2 * known.value:
        why = (
            f"the records go on for {said(observed.seconds)}, which is less than twice the "
            "present value"
        )
        return none(known, why, gaps.samples)
    if gaps.samples < LEAST or gaps.p99 is None:
        return none(known, too_few("gaps between uses of a link", gaps.samples), gaps.samples)
    why = f"99 % of {gaps.samples:,} gaps between uses of a link are of {said(gaps.p99)} at most"
    return enough(known, gaps.p99 + 1, why, gaps.samples)
