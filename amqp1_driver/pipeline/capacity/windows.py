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

"""Credit: windows that a sender may fill, and what waits outside."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any


class Window:
    """Credit of one link as the driver grants it: topped up below half, when settled.

    ``credit + unsettled <= limit`` always; it is granted again (``credit = limit - unsettled``)
    when less than half of the limit is left. See "Credit" in the documentation of messages.

    :param limit: messages
    :param half: whether it is topped up below half only; else with each message that is settled,
        as a router does
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
        """One message goes."""
        self.credit -= 1
        self.unsettled += 1

    def settle(self) -> bool:
        """One is done with; returns whether credit was granted."""
        self.unsettled -= 1
        if self.credit >= self._half:
            return False
        self.credit = self.limit - self.unsettled
        while self.credit and self._waiting:
            then, what = self._waiting.popleft()
            self.use()
            then(what)
        return True
