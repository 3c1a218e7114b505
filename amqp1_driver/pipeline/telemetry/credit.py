# SPDX-License-Identifier: Apache-2.0

"""Recommendations for credit, windows and queues, by Little's law.  Pure; any thread.

By Little's law, ``rate x round trip`` messages are in flight on a link that is never idle. A
subscription grants its limit L, and grants credit up to L again when less than half of L is left
(policy/credit.py). At that moment the bus holds at most ``ceil(L/2) - 1`` credits. These have to
last for one round trip, until the new credit has reached the bus and its first message has arrived.
Hence

    ceil(L/2) - 1 >= rate x round trip x head-room,    L = 2 x (ceil(rate x round trip x 1.5) + 1)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from amqp1_driver.pipeline.telemetry.advice import (
    HEADROOM,
    LEAST,
    Advice,
    Known,
    enough,
    none,
    said,
    said_bytes,
    too_few,
)
from amqp1_driver.pipeline.telemetry.observed import Flow, Observed

#: A stall that lasts longer than this many round trips has another cause than too little credit.
DISTANCE = 4
#: bytes that may be in flight to a process before a session window is worth while
MOST_BYTES = 64 << 20

Lookup = Callable[[str], Known]


@dataclasses.dataclass(frozen=True)
class Need:
    """The credit that each reader of one address needs.

    :ivar rate: most messages per second of one reader
    :ivar credit: limit of the link, messages; None: too few samples
    :ivar why: the reason, in words
    """

    flow: Flow
    rate: float
    credit: int | None
    why: str


def credit_for(rate: float, round_trip: float) -> int:
    """Return the limit, in messages, with which a link never runs out of credit.

    :param rate: messages per second
    :param round_trip: seconds
    """
    return 2 * (math.ceil(rate * round_trip * HEADROOM - 1e-9) + 1)


def need(flow: Flow) -> Need:
    """Compute the credit that one reader of an address needs.

    The readers of an address share its messages; with a fanout each reader gets all of them. The
    records show only readers that stalled. If there are more readers, the result is too high, never
    too low.
    """
    rate = flow.peak if flow.fanout or not flow.readers else flow.peak / flow.readers
    if flow.samples < LEAST or flow.round_trip is None:
        return Need(flow, rate, None, too_few("outcomes of messages to it", flow.samples))
    credit = credit_for(rate, flow.round_trip)
    why = f"{rate:,.4g}/s x {said(flow.round_trip)}, twice and {HEADROOM} times that"
    if flow.stalls and flow.limit and flow.stall is not None and credit <= flow.limit:
        if flow.stall <= DISTANCE * flow.round_trip:
            credit = 2 * flow.limit
            why += (
                f"; but it stalled {flow.stalls:,} times for about {said(flow.stall)}, as long "
                "as a round trip: it comes in bursts"
            )
        else:
            why += (
                f"; it stalled {flow.stalls:,} times for about {said(flow.stall)}, far longer "
                "than a round trip: the application is slower than what comes, and more "
                "credit would only queue it"
            )
    return Need(flow, rate, credit, why)


def subscriptions(option: str, traffic: str, observed: Observed, look: Lookup) -> Advice:
    """Judge ``rpc_server_credit`` or ``notify_server_credit`` by the address that needs most.

    :param option: name of the option
    :param traffic: "rpc" or "notify"
    :param look: returns the present value of an option
    """
    flows = [flow for flow in observed.flows if flow.traffic == traffic]
    known = look(option)
    limits = [flow.limit for flow in flows if flow.limit]
    if limits:
        known = Known(option, max(limits), "records", known.unit)
    if not flows:
        return none(known, too_few("messages of this kind", 0), 0)
    found = [(one.credit, one) for one in map(need, flows) if one.credit is not None]
    if not found:
        most = max(flow.samples for flow in flows)
        return none(known, too_few("outcomes for the address with the most", most), most)
    credit, chosen = max(found, key=lambda pair: pair[0])
    held = max(known.value, credit) * chosen.flow.size
    why = f"{chosen.flow.place}: {chosen.why}. Bodies ahead: at most {said_bytes(held)} (p99)"
    return enough(known, credit, why, chosen.flow.samples)


def reply_link(observed: Observed, look: Lookup) -> Advice:
    """Judge ``reply_link_credit`` by the client with the most calls in a second."""
    known = look("reply_link_credit")
    trip = observed.call_round_trip
    if trip.samples < LEAST or trip.p99 is None:
        return none(known, too_few("outcomes and replies of calls", trip.samples), trip.samples)
    credit = credit_for(observed.calls, trip.p99)
    why = (
        f"{observed.calls:,.4g} calls/s of one client x {said(trip.p99)}, twice and "
        f"{HEADROOM} times that"
    )
    return enough(known, credit, why, trip.samples)


def session_window(observed: Observed, look: Lookup) -> Advice:
    """Judge ``session_window``, which bounds the bytes in flight.

    The address whose credit allows the most bytes decides. Up to :data:`MOST_BYTES` there is no
    need for a bound.
    """
    known, frame = look("session_window"), look("max_frame_size").value
    flows = [flow for flow in observed.flows if flow.samples >= LEAST and flow.round_trip]
    if not flows:
        most = max((flow.samples for flow in observed.flows), default=0)
        return none(known, too_few("outcomes for the address with the most", most), most)

    def ahead(flow: Flow) -> float:
        name = "rpc_server_credit" if flow.traffic == "rpc" else "notify_server_credit"
        return (flow.limit or look(name).value) * flow.size

    flow = max(flows, key=ahead)
    held = said_bytes(ahead(flow))
    if ahead(flow) <= MOST_BYTES:
        why = (
            f"{flow.place}: the credit lets {held} of bodies (p99) come ahead, less than "
            f"{said_bytes(MOST_BYTES)}: no further bound is needed"
        )
        return enough(known, 0, why, flow.samples)
    frames = max(1, math.ceil(flow.size / frame))
    under_way = math.ceil(flow.peak * (flow.round_trip or 0.0) * frames * HEADROOM - 1e-9) + 1
    why = (
        f"{flow.place}: the credit lets {held} of bodies (p99) come ahead; {under_way} frames "
        f"are enough for {flow.peak:,.4g}/s x {said(flow.round_trip or 0.0)} x {frames} frames "
        f"of {said_bytes(min(frame, flow.size))}"
    )
    if known.value:
        return enough(known, under_way, why, flow.samples)
    # The present value 0 means no bound, so the verdict "raise" would be wrong.
    made = enough(known, under_way, why, flow.samples)
    return dataclasses.replace(made, verdict="set a bound")


def queues(observed: Observed, look: Lookup) -> list[Advice]:
    """Judge ``mailbox_size`` and ``reply_backlog``, the queues within a process."""
    found = []
    for option, rate, spread, what in (
        ("mailbox_size", observed.sends, observed.handover, "sends/s of one client"),
        ("reply_backlog", observed.replies, observed.reply_wait, "replies/s of one client"),
    ):
        known = look(option)
        if spread.samples < LEAST or spread.p99 is None:
            found.append(none(known, too_few("values of it", spread.samples), spread.samples))
            continue
        waiting = math.ceil(rate * spread.p99 * HEADROOM - 1e-9) + 1
        why = f"{rate:,.4g} {what} x {said(spread.p99)} (p99 of their wait), {HEADROOM} times that"
        found.append(enough(known, waiting, why, spread.samples))
    return found
