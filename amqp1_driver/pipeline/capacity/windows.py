# SPDX-License-Identifier: Apache-2.0

"""Simulated credit: windows that a sender may fill, and the messages that wait for credit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any


class Window:
    """The credit of one link.

    ``credit + unsettled <= limit`` always; this sum is the level. When a message is settled and the
    level is below half of the limit, the window grants credit up to the limit
    (``credit = limit - unsettled``). The driver's own window has the same rule:
    :class:`~amqp1_driver.policy.credit.CreditWindow`.

    :param limit: messages
    :param half: True: grant below half only; False: grant with each settled message, as a router
        does
    """

    __slots__ = ("_half", "_waiting", "credit", "limit", "stalls", "unsettled")

    def __init__(self, limit: int, half: bool = True) -> None:
        self.limit, self.credit, self.unsettled, self.stalls = limit, limit, 0, 0
        self._half = limit / 2 if half else limit
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()

    def enter(self, then: Callable[[Any], None], what: Any) -> None:
        """Call ``then(what)`` as soon as there is credit for it."""
        if self.credit and not self._waiting:
            self.use()
            then(what)
        else:
            self.stalls += 1
            self._waiting.append((then, what))

    def use(self) -> None:
        """Take the credit for one message."""
        self.credit -= 1
        self.unsettled += 1

    def settle(self) -> bool:
        """Settle one message. If credit is due, grant it, and let waiting messages use it.

        :returns: whether the window granted credit
        """
        self.unsettled -= 1
        if self.credit + self.unsettled >= self._half:
            return False
        self.credit = self.limit - self.unsettled
        while self.credit and self._waiting:
            then, what = self._waiting.popleft()
            self.use()
            then(what)
        return True
