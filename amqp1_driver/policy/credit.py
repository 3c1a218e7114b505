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

"""When a receiver grants link credit, and how much."""


class CreditWindow:
    """Credit of one receiving link. I/O thread only; no clock, no I/O.

    The window bounds what the bus may have handed over without it being settled. Its
    *level* is the link credit still with the sender plus the deliveries that have come
    and are not settled. The rules:

    1. At attach, the whole limit is granted. Nothing is unsettled then: what an earlier
       attachment delivered belongs to that one, and settling it later counts for nothing.
    2. A delivery moves one from credit to unsettled; the level stays. If that takes the
       last credit, the link is *stalled* until something is settled; stalls are counted.
    3. Settling lowers the level. Once it is below half of the limit, everything up to the
       limit is granted in one flow frame; above that nothing is, so that a frame is sent
       for every limit/2 messages and not for each of them.

    Hence the level never exceeds the limit, credit is only ever granted for work that was
    settled, and since a window without unsettled deliveries and without credit has level
    0, which is below half of any limit, the link always gets going again. A consumer which
    collects a batch before it settles must keep the batch within half of the limit:
    that much credit is always there for it.

    Credit may be taken back while the window is open (AMQP 1.0, 2.6.7: link-credit is set,
    not added): all of it by :meth:`pause`, what is too much by :meth:`resize`. What the
    sender had sent before it heard of that still comes; such a delivery finds no credit here.

    limit: messages, at least 1. credit, unsettled: messages. received, stalls: counted
    since creation.
    generation: number of attachments so far; 0 before the first.
    """

    __slots__ = ("attached", "credit", "generation", "limit", "paused", "received", "stalls",
                 "stopped", "unsettled")

    def __init__(self, limit: int) -> None:
        self.limit = _checked(limit)
        self.credit = 0
        self.unsettled = 0
        self.received = 0
        self.stalls = 0
        self.generation = 0
        self.attached = False
        self.paused = False
        self.stopped = False

    @property
    def level(self) -> int:
        """Link credit plus unsettled deliveries."""
        return self.credit + self.unsettled

    def on_attached(self) -> int:
        """The link is attached, for the first time or again. Returns the credit to grant."""
        self.attached = True
        self.generation += 1
        self.credit = self.unsettled = 0
        return self._replenish()

    def on_detached(self) -> None:
        """The link or its connection went: credit and unsettled deliveries went with it."""
        self.attached = False
        self.credit = self.unsettled = 0

    def on_delivery(self) -> bool:
        """A delivery came. Returns True when it took the last credit: a stall."""
        self.received += 1
        self.unsettled += 1
        if self.credit == 0:  # a sender that ignores credit is not our stall
            return False
        self.credit -= 1
        if self.credit:
            return False
        self.stalls += 1
        return True

    def on_settled(self, n: int = 1, generation: int | None = None) -> int:
        """``n`` deliveries were settled. Returns the credit to grant, usually 0.

        generation: that of the attachment which delivered them; None means the present
        one. Those of an earlier one change nothing.
        """
        if generation is not None and generation != self.generation:
            return 0
        left = self.unsettled - n
        self.unsettled = left if left > 0 else 0
        if (self.credit + self.unsettled) * 2 >= self.limit:
            return 0  # as _replenish(), in line: it is asked for every message
        return self._grant()

    def on_settled_within(self, n: int, limit: int) -> int:
        """``n`` deliveries were settled, and the level may rise to ``limit`` from now on.

        limit: messages; 0: nothing more. Credit that was granted is left even if it is more.
        Returns the credit to grant.
        """
        self.limit = limit
        return self.on_settled(n)

    def resize(self, limit: int, arrived: int = 0) -> int:
        """Change the limit. Returns the change of credit: a larger window is filled at once;
        of a smaller one the credit above its level is taken back, which is negative.

        arrived: messages that have come, but were not told by :meth:`on_delivery` as yet: they
        have used their credit, and less than none can't be left on the link.
        """
        grown = _checked(limit) > self.limit
        self.limit = limit
        if grown:
            return self._grant()
        return -self._take_back(self.level - limit, arrived) or self._replenish()

    def pause(self, drain: bool = False, arrived: int = 0) -> int:
        """No more grants until :meth:`resume`. Returns the credit to take back.

        drain: that is 0, for the sender shall use it up or give it up (:meth:`on_drained`).
        arrived: as for :meth:`resize`.
        """
        self.paused = True
        return 0 if drain else self._take_back(self.credit, arrived)

    def resume(self) -> int:
        """Grants again. Returns the credit to grant: all up to the limit."""
        self.paused = False
        return self._grant()

    def on_drained(self, n: int) -> None:
        """The sender has given up ``n`` credits that it had no messages for."""
        self._take_back(n)

    def stop(self) -> None:
        """No more grants, for good; what is there may still be delivered and settled."""
        self.stopped = True

    def _replenish(self) -> int:
        return self._grant() if self.level * 2 < self.limit else 0

    def _take_back(self, n: int, arrived: int = 0) -> int:
        n = max(0, min(n, self.credit - arrived))
        self.credit -= n
        return n

    def _grant(self) -> int:
        if self.stopped or self.paused or not self.attached:
            return 0
        grant = max(0, self.limit - self.level)
        self.credit += grant
        return grant


def _checked(limit: int) -> int:
    if limit < 1:
        raise ValueError(f"a credit limit of {limit} would never let anything through")
    return limit
