# SPDX-License-Identifier: Apache-2.0

"""The credit window of a receiving link: when it grants credit, and how much. I/O thread only."""


class CreditWindow:
    """The credit of one receiving link. I/O thread only; no clock, no I/O.

    The window limits how many messages the bus may deliver before the driver settles some. Its
    *level* is the link credit that the sender still has plus the unsettled deliveries. The rules:

    1. At attach the window grants the whole limit. No delivery is unsettled then: deliveries of
       an earlier attachment belong to that one, and settling them later has no effect.
    2. A delivery takes one credit and is then unsettled; the level stays the same. If the delivery
       takes the last credit, the link is *stalled* until a delivery is settled. The window counts
       stalls.
    3. Settling lowers the level. Once the level is below half of the limit, the window grants all
       credit up to the limit in one Flow frame; before that it grants none. So the driver sends a
       frame for every limit/2 messages, and not for each one.

    Hence the level never exceeds the limit, and the window grants credit only for settled
    deliveries. The link never stays stalled once all deliveries are settled: the level is then 0,
    which is below half of any limit. A consumer that collects a batch before it settles must keep
    the batch within half of the limit: that much credit is always there.

    The window may take credit back while the link is attached (AMQP 1.0, 2.6.7: a Flow frame sets
    link-credit and does not add to it). :meth:`pause` takes back all credit, :meth:`resize` the
    excess. Deliveries that the sender sent before it got that Flow frame still arrive; the
    window then adds them to the unsettled ones even if no credit is left.

    Attributes: ``limit`` (messages, at least 1; 0 only by :meth:`on_settled_within`), ``credit``
    and ``unsettled`` (messages), ``received`` and ``stalls`` (counts since creation).

    :param limit: messages, at least 1.
    :raises ValueError: the limit is less than 1.
    """

    __slots__ = (
        "attached",
        "credit",
        "limit",
        "paused",
        "received",
        "stalls",
        "stopped",
        "unsettled",
    )

    def __init__(self, limit: int) -> None:
        self.limit = _checked(limit)
        self.credit = 0
        self.unsettled = 0
        self.received = 0
        self.stalls = 0
        self.attached = False
        self.paused = False
        self.stopped = False

    @property
    def level(self) -> int:
        """Return link credit plus unsettled deliveries."""
        return self.credit + self.unsettled

    def on_attached(self) -> int:
        """Note that the link is attached, for the first time or again.

        :returns: the credit to grant.
        """
        self.attached = True
        self.credit = self.unsettled = 0
        return self._replenish()

    def on_detached(self) -> None:
        """Drop credit and unsettled deliveries, because the link or its connection is lost."""
        self.attached = False
        self.credit = self.unsettled = 0

    def on_delivery(self) -> bool:
        """Count a delivery.

        :returns: True if it took the last credit: a stall.
        """
        self.received += 1
        self.unsettled += 1
        if self.credit == 0:  # a delivery beyond the credit is not a stall
            return False
        self.credit -= 1
        if self.credit:
            return False
        self.stalls += 1
        return True

    def on_settled(self, n: int = 1) -> int:
        """Count ``n`` settled deliveries of the present attachment.

        :returns: the credit to grant, usually 0.
        """
        left = self.unsettled - n
        self.unsettled = left if left > 0 else 0
        if (self.credit + self.unsettled) * 2 >= self.limit:
            return 0  # the test of _replenish(), in line, because every message comes here
        return self._grant()

    def on_settled_within(self, n: int, limit: int) -> int:
        """Set the limit and count ``n`` settled deliveries.

        :param limit: messages; 0: grant nothing more. The sender keeps granted credit even if it
            exceeds the limit.
        :returns: the credit to grant.
        """
        self.limit = limit
        return self.on_settled(n)

    def resize(self, limit: int, arrived: int = 0) -> int:
        """Change the limit.

        A larger window grants credit up to its limit at once. A smaller window takes back the
        credit that makes its level exceed the limit.

        :param limit: messages, at least 1.
        :param arrived: messages that have arrived, but that :meth:`on_delivery` has not counted
            yet: they have used their credit, and the link's credit cannot become negative.
        :returns: the change of credit, negative for credit to take back.
        :raises ValueError: the limit is less than 1.
        """
        grown = _checked(limit) > self.limit
        self.limit = limit
        if grown:
            return self._grant()
        return -self._take_back(self.level - limit, arrived) or self._replenish()

    def pause(self, drain: bool = False, arrived: int = 0) -> int:
        """Stop grants until :meth:`resume`.

        :param drain: take nothing back, because a drain makes the sender use its credit or give
            it up (:meth:`on_drained`).
        :param arrived: as for :meth:`resize`.
        :returns: the credit to take back; 0 with ``drain``.
        """
        self.paused = True
        return 0 if drain else self._take_back(self.credit, arrived)

    def resume(self) -> int:
        """Allow grants again.

        :returns: the credit to grant: all up to the limit.
        """
        self.paused = False
        return self._grant()

    def on_drained(self, n: int) -> None:
        """Take off ``n`` credits that the sender has given up, having no messages for them."""
        self._take_back(n)

    def stop(self) -> None:
        """Stop grants for ever; the sender may use its credit, and the driver settle deliveries."""
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
