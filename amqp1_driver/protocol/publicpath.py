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

"""Deliveries through proton's documented Python API.

Used where ``fastpath`` can't be (another proton); slower by a Python object
per event, the same otherwise.  I/O thread only.
"""

from typing import Any

import proton

from amqp1_driver.codec import Encoded
from amqp1_driver.policy.outcome import Disposition, Outcome

_STATES = {
    Outcome.ACCEPTED: proton.Delivery.ACCEPTED,
    Outcome.REJECTED: proton.Delivery.REJECTED,
    Outcome.RELEASED: proton.Delivery.RELEASED,
    Outcome.MODIFIED: proton.Delivery.MODIFIED,
}
_OUTCOMES = {int(state): outcome for outcome, state in _STATES.items()}


def pump(connection: Any) -> bool:
    """Have all events dispatched, in order; pyngus still has to be run."""
    collector = connection._pn_collector
    while (event := collector.peek()) is not None:
        try:
            connection.dispatch(event)
        finally:
            collector.pop()
    return True


def receive(connection: Any, data: Any) -> None:
    view = memoryview(data)
    while view:
        room = connection.needs_input
        taken = connection.process_input(bytes(view[:room])) if room > 0 else 0
        if taken <= 0:
            return
        view = view[taken:]


def output(connection: Any) -> memoryview | None:
    data = connection.output_data()
    return None if data is None else memoryview(data)


def output_written(connection: Any, count: int) -> None:
    connection.output_written(count)


def link(connection: Any, link: Any) -> None:
    """Nothing to register: pyngus finds its links by itself."""


def unlink(connection: Any, link: Any) -> None:
    """Nothing was registered."""


def credit(link: Any) -> int:
    return int(link._pn_link.credit)


def may_send(link: Any) -> bool:
    """As :attr:`EngineSender.may_send`."""
    if link._pn_link.credit <= 0:
        return False
    window = link.window or link.outgoing_window()
    return window.has_room() or link.hold()  # type: ignore[no-any-return]


def send(link: Any, data: Encoded, settled: bool) -> int:
    key = link.next_key = link.next_key + 1
    delivery = link._pn_link.delivery(f"{key:x}")
    for part in data if isinstance(data, tuple) else (data,):
        link._pn_link.send(part)
    link._pn_link.advance()
    if settled:
        delivery.settle()
    else:
        link.unsettled[key] = delivery
    return int(key)


def forget(link: Any, key: int) -> None:
    delivery = link.unsettled.pop(key, None)
    if delivery is not None:
        delivery.settle()


def outcome(link: Any, delivery: Any) -> None:
    """An event on a delivery that we sent."""
    state = int(delivery.remote_state)
    if not delivery.settled and state not in _OUTCOMES:
        return
    key = int(delivery.tag, 16)
    if link.unsettled.pop(key, None) is None:
        return
    remote = delivery.remote
    modified = state == int(proton.Delivery.MODIFIED)
    condition = remote.condition if state == int(proton.Delivery.REJECTED) else None
    disposition = Disposition(
        # settled without an outcome: nobody can tell what became of it
        _OUTCOMES.get(state, Outcome.IN_DOUBT),
        condition=condition.name if condition else None,
        description=condition.description if condition else None,
        failed=modified and bool(remote.failed),
        undeliverable=modified and bool(remote.undeliverable),
    )
    delivery.settle()
    link.handler.link_outcome(key, disposition)


def flow(link: Any, credit: int) -> None:
    link._pn_link.flow(credit)


def delivery(link: Any, delivery: Any) -> None:
    """An event on a delivery that we receive."""
    if link._told:  # closed by us, the peer has not heard of it yet
        return
    if delivery.aborted:
        delivery.settle()
        link._pn_link.flow(1)  # it has cost a credit, and the owner never sees it
        link.pieces.clear()
        return
    if not delivery.readable:
        return
    if delivery.partial and not link.session.bounded:
        return
    data = bytes(link._pn_link.recv(delivery.pending) or b"")
    if delivery.partial:
        link.pieces.append(data)
        return
    data = b"".join((*link.pieces, data))
    link.pieces.clear()
    link._pn_link.advance()
    key = link.next_key = link.next_key + 1
    settled = bool(delivery.settled)
    if settled:
        delivery.settle()
    else:
        link.unsettled[key] = delivery
    link.handler.link_delivery(key, data, settled)


def settle(link: Any, key: int, outcome: Outcome) -> bool:
    delivery = link.unsettled.pop(key, None)
    if delivery is None:
        return False
    if outcome is Outcome.MODIFIED:
        delivery.local.failed = True
    delivery.update(_STATES[outcome])
    delivery.settle()
    return True
