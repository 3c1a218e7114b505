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

"""Settings of credit and windows: how much has to be under way. Pure.

By Little's law ``rate x round trip`` messages are under way on a link that is never idle. A
subscription grants its limit L, and fills it up when less than half of it is left
(policy/credit.py): at that moment the bus holds at most ``ceil(L/2) - 1`` credits. They have to
last until the new credit has gone to the bus and the first message for it has come: one round
trip. Hence

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

#: A stall that lasts longer than this many round trips is not for want of credit.
DISTANCE = 4
#: bytes that may be under way to a process before a session window is worth while
MOST_BYTES = 64 << 20

Lookup = Callable[[str], Known]


@dataclasses.dataclass(frozen=True)
class Need:
    """The credit that the readers of one address need; None: too few samples to tell."""

    flow: Flow
    rate: float
    credit: int | None
    why: str


def credit_for(rate: float, round_trip: float) -> int:
    """The limit that a link needs so that it never runs dry.

    :param rate: messages per second
    :param round_trip: seconds
    """
    return 2 * (math.ceil(rate * round_trip * HEADROOM - 1e-9) + 1)


def need(flow: Flow) -> Need:
    """What one reader of an address needs.

    Readers share what is sent, but for fanouts. Only those that stalled are known; that there may
    be more of them makes the need come out too high rather than too low.
    """
    rate = flow.peak if flow.fanout or not flow.readers else flow.peak / flow.readers
    if flow.samples < LEAST or flow.round_trip is None:
        return Need(flow, rate, None, too_few("outcomes of messages to it", flow.samples))
    credit = credit_for(rate, flow.round_trip)
    why = f"{rate:,.4g}/s x {said(flow.round_trip)}, twice and {HEADROOM} times that"
    if flow.stalls and flow.limit and flow.stall is not None and credit <= flow.limit:
        if flow.stall <= DISTANCE * flow.round_trip:
            credit = 2 * flow.limit
            why += (f"; but it stalled {flow.stalls:,} times for about {said(flow.stall)}, as long "
                    "as a round trip: it comes in bursts")
        else:
            why += (f"; it stalled {flow.stalls:,} times for about {said(flow.stall)}, far longer "
                    "than a round trip: the application is slower than what comes, and more "
                    "credit would only queue it")
    return Need(flow, rate, credit, why)


def subscriptions(option: str, traffic: str, observed: Observed, look: Lookup) -> Advice:
    """rpc_server_credit or notify_server_credit: what the neediest address needs."""
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
    """reply_link_credit: by the client with the most calls in a second."""
    known = look("reply_link_credit")
    trip = observed.call_round_trip
    if trip.samples < LEAST or trip.p99 is None:
        return none(known, too_few("outcomes and replies of calls", trip.samples), trip.samples)
    credit = credit_for(observed.calls, trip.p99)
    why = (f"{observed.calls:,.4g} calls/s of one client x {said(trip.p99)}, twice and "
           f"{HEADROOM} times that")
    return enough(known, credit, why, trip.samples)


def session_window(observed: Observed, look: Lookup) -> Advice:
    """session_window: a bound for bytes, where credit alone would let very much come."""
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
        why = (f"{flow.place}: the credit lets {held} of bodies (p99) come ahead, less than "
               f"{said_bytes(MOST_BYTES)}: no further bound is needed")
        return enough(known, 0, why, flow.samples)
    frames = max(1, math.ceil(flow.size / frame))
    under_way = math.ceil(flow.peak * (flow.round_trip or 0.0) * frames * HEADROOM - 1e-9) + 1
    why = (f"{flow.place}: the credit lets {held} of bodies (p99) come ahead; {under_way} frames "
           f"are enough for {flow.peak:,.4g}/s x {said(flow.round_trip or 0.0)} x {frames} frames "
           f"of {said_bytes(min(frame, flow.size))}")
    if known.value:
        return enough(known, under_way, why, flow.samples)
    # 0 is no bound: any bound is lower than that
    made = enough(known, under_way, why, flow.samples)
    return dataclasses.replace(made, verdict="set a bound")


def queues(observed: Observed, look: Lookup) -> list[Advice]:
    """mailbox_size and reply_backlog: what waits in the process, by Little's law."""
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
