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

"""What one listener reads, over links that come and go.  Lives on the I/O thread."""

import logging
from collections.abc import Callable, Mapping, Sequence

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination, Entity, Node
from amqp1_driver.protocol.prepare import entities, nothing_there
from amqp1_driver.protocol.questions import Answered
from amqp1_driver.protocol.receiver import Delivery, Receiver, Sink

LOG = logging.getLogger(__name__)


class Subscription:
    """What one listener reads; outlives connections.

    :param destination: the listener's target
    :param pool: name of a shared pool of notification listeners
    :param unique: what tells this listener from all others
    :param credit: of each link, messages
    :param batched: the application collects messages before it settles them
    :param on_ready: called when all links are attached
    :param on_error: called when the bus can't do it at all
    """

    def __init__(self, destinations: tuple[Destination, ...], pool: str | None, unique: str,
                 credit: int, batched: bool, sink: Sink, on_ready: Callable[[], object],
                 on_error: Callable[[BaseException], object]) -> None:
        self.destinations = destinations
        self.pool = pool
        self.unique = unique
        self.credit = credit
        self.batched = batched
        self.sink = sink
        self.receivers: list[Receiver] = []
        self.stopping = False
        self.last_error: BaseException | None = None
        self._on_ready = on_ready
        self._on_error = on_error
        self._stalls = self._received = 0
        #: the most that the bus allows for each link; None: no limit
        self.limit: int | None = None
        self._missing: tuple[Entity, ...] = ()
        self.paused = False
        #: messages that the reader may still take, of all links together; None: no such limit
        self.room: int | None = None
        self._returned = 0

    @property
    def allowed(self) -> int:
        """Credit of each link, messages."""
        return self.credit if self.limit is None else min(self.credit, self.limit)

    @property
    def stalls(self) -> int:
        """Credit stalls of all links so far."""
        return self._stalls + sum(r.window.stalls for r in self.receivers)

    def counters(self) -> dict[str, int]:
        """By name, since the subscription was made."""
        return {"stalls": self.stalls,
                "received": self._handed,
                "unsettled": sum(r.window.unsettled for r in self.receivers)}

    @property
    def backlog(self) -> int | None:
        """Messages that the bus has for this listener, as it last said; None: it did not."""
        known = [r.available for r in self.receivers if r.available is not None]
        return sum(known) if known else None

    def add(self, receiver: Receiver) -> None:
        """One more link to read; it is attached afterwards."""
        if self.paused:
            receiver.window.pause()
        self.receivers.append(receiver)

    def pause(self, done: Answered) -> None:
        """No more messages, on this connection or another; see :meth:`Receiver.pause`."""
        self.paused = True
        self._all([receiver.pause for receiver in self.receivers], done)

    def resume(self, done: Answered = bool) -> None:
        """Messages again."""
        self.paused = False
        for receiver in self.receivers:
            receiver.resume()
        done(True)

    def resize(self, credit: int, done: Answered = bool) -> None:
        """Another credit for each link."""
        self.credit = credit
        for receiver in self.receivers:
            receiver.resize(self.allowed)
        done(True)

    def settle_all(self, deliveries: Sequence[Delivery], room: int) -> None:
        """Accept deliveries, and ask for no more than there is room for.

        For a reader that is bounded as a whole: the credit of all links and what was handed
        over and has not come back through here are together never more than ``room``. All
        that is handed over has to come back, also what can't be settled any more.

        :param room: messages that it could take beside these
        """
        settled: dict[Receiver, list[Delivery]] = {}
        for delivery in deliveries:
            found = settled.get(delivery.receiver)
            if found is None:
                found = settled[delivery.receiver] = []
            found.append(delivery)
        self.room = room
        self._returned += len(deliveries)
        self.share({receiver: receiver.settle_all(found) for receiver, found in settled.items()})

    def share(self, settled: Mapping[Receiver, int] = {}) -> None:
        """Divide the room among the links; credit is never taken back for that, since what is
        under way by then would come all the same.

        :param settled: deliveries that each has settled since the last time
        """
        if self.room is None:
            return
        levels = {r: r.window.level - settled.get(r, 0) for r in self.receivers}
        # what links delivered that have gone since: it will want room, too
        stale = self._handed - self._returned - sum(r.window.unsettled - settled.get(r, 0)
                                                    for r in self.receivers)
        spare = max(0, self.room - stale - sum(levels.values()))
        # the emptiest first: a link with nothing to read must not have the last of it
        for left, receiver in zip(range(len(levels), 0, -1), sorted(levels, key=levels.__getitem__),
                                  strict=True):
            level = levels[receiver]
            more = min(-(-spare // left), max(0, self.allowed - level))
            spare -= more
            receiver.on_settled(settled.get(receiver, 0), level + more)

    def brake(self) -> int:
        """For such a reader: take back what credit there is, until :meth:`settle_all`.

        :returns: messages; what the bus had sent by then still comes
        """
        before = sum(receiver.window.credit for receiver in self.receivers)
        for receiver in self.receivers:
            receiver.resize(1)
        return before - sum(receiver.window.credit for receiver in self.receivers)

    @property
    def _handed(self) -> int:
        """Messages that were handed over so far."""
        return self._received + sum(r.window.received for r in self.receivers)

    def resemble(self, other: "Subscription") -> bool:
        """The same as to what was asked of another, whose I/O thread has died."""
        if other.paused:
            self.pause(bool)
        self.resize(other.credit)
        return True

    def ask(self, done: Answered) -> None:
        """Have the bus say how much it has, see :attr:`backlog`."""
        self._all([receiver.ask for receiver in self.receivers], done)

    @staticmethod
    def _all(actions: list[Callable[[Answered], None]], done: Answered) -> None:
        """Do all, and tell once whether all have succeeded."""
        results: list[bool] = []

        def one(confirmed: bool) -> None:
            results.append(confirmed)
            if len(results) == len(actions):
                done(all(results))

        for action in actions:
            action(one)
        if not actions:
            done(True)

    def changed(self, receiver: Receiver, error: exceptions.AmqpError | None) -> None:
        if error is not None:
            self.last_error = error
            self.share()
        elif all(r.attached for r in self.receivers):
            self.last_error = None
            self._missing = ()
            self._on_ready()
        self._look_for_missing()

    def _look_for_missing(self) -> None:
        """Once the peer has answered for each link: name all that has to be made, once."""
        if not all(r.attached or r.problem is not None for r in self.receivers):
            return
        refused = [(r.node, r.problem) for r in self.receivers if r.problem is not None
                   and nothing_there(r.problem, entities(r.node.declare)) is not None]
        gone = tuple(entity for node, _ in refused for entity in entities(node.declare))
        if set(gone) <= set(self._missing):
            return
        self._missing = gone
        error = nothing_there(refused[0][1], gone)
        if error is not None:
            self.refused(error)

    def refused(self, error: BaseException) -> None:
        """The present bus can't provide this subscription."""
        self.last_error = error
        LOG.error("Can't listen on %s: %s", [d.routing_key for d in self.destinations], error)
        self._on_error(error)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What its links read."""
        return tuple(receiver.node for receiver in self.receivers)

    def leave(self) -> None:
        """It is going to be stopped: no link is attached again."""
        for receiver in self.receivers:
            receiver.leave()

    def stop(self, done: Answered) -> None:
        """No new messages, but those that are on their way; see :meth:`Receiver.stop`."""
        self.stopping = True
        self._all([receiver.stop for receiver in self.receivers], done)

    def close(self) -> None:
        self.stopping = True
        for receiver in self.receivers:
            receiver.detach()
        self._drop()

    def connection_lost(self) -> None:
        for receiver in self.receivers:
            receiver.connection_lost()
        self._drop()

    def _drop(self) -> None:
        self._stalls = self.stalls
        self._received += sum(r.window.received for r in self.receivers)
        self.receivers = []
