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

"""What a mode of the bus (router, broker) decides; the engine does the protocol."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .counters import Counters
from .links import Consumer, Item, Outcome, Producer, Transfer

if TYPE_CHECKING:
    from .endpoints import Endpoints

Schedule = Callable[[float, Callable[[], None]], Any]


def _no_timers(when: float, function: Callable[[], None]) -> None:
    raise RuntimeError("this behaviour was started without timers")


class Behaviour(ABC):
    """Base of :class:`Router` and :class:`Broker`; lives on the bus thread.

    ``clock`` gives seconds, monotonic; ``call_at`` is set by the server that runs the behaviour.
    """

    mode: str
    #: In the properties of the Open frame; None = no properties and no capabilities at all.
    product: str | None
    max_frame: int
    #: Of messages, told to both ends of links; 0 = no limit.
    max_message_size = 0
    #: SASL mechanisms without a name, offered besides PLAIN.
    anonymous: tuple[str, ...] = ()

    def __init__(self, counters: Counters, clock: Callable[[], float] = time.monotonic) -> None:
        self.counters = counters
        self.clock = clock
        self.call_at: Schedule = _no_timers
        self._paused: set[str] = set()
        self._all_paused = False

    def window(self, producer: Producer) -> int:
        """Credit that the producer should have now."""
        if self._all_paused or producer.address in self._paused:
            return 0
        return self.allowance(producer)

    def pause(self, address: str | None) -> None:
        """Withhold (and withdraw) credit from the producers of an address; None = from all."""
        if address is None:
            self._all_paused = True
        else:
            self._paused.add(address)

    def resume(self, address: str | None) -> None:
        """End of :meth:`pause`; None = of every pause."""
        if address is None:
            self._all_paused = False
            self._paused.clear()
        else:
            self._paused.discard(address)

    def opened(self, endpoints: Endpoints) -> None:
        """A connection is open; nothing has to be done."""
        return

    def refusal(self, item: Item) -> Outcome | None:
        """What a consumer is told whose outcome comes too late, None = it is in time. Asked only
        of consumers that leave the last word to the bus (2.6.12)."""
        return None

    @abstractmethod
    def allowance(self, producer: Producer) -> int:
        """Credit that the producer should have now by the rules of the mode."""

    @abstractmethod
    def new_address(self, link_name: str) -> str:
        """Address of a dynamic node (3.5.3); may raise :class:`Refused`."""

    @abstractmethod
    def producer_attached(self, producer: Producer) -> None:
        """May raise :class:`Refused`."""

    @abstractmethod
    def consumer_attached(self, consumer: Consumer, dynamic: bool) -> None:
        """May raise :class:`Refused`."""

    @abstractmethod
    def transferred(self, transfer: Transfer) -> None:
        """A message has arrived."""

    @abstractmethod
    def flow(self, consumer: Consumer) -> None:
        """The consumer has given credit."""

    @abstractmethod
    def settled(self, consumer: Consumer, item: Item, outcome: Outcome) -> None:
        """The consumer has given an outcome for a message."""

    @abstractmethod
    def producer_detached(self, producer: Producer) -> None:
        """The link has gone, whoever ended it and however."""

    @abstractmethod
    def consumer_detached(self, consumer: Consumer) -> None:
        """The link has gone; what it held unsettled is still in ``consumer.unsettled``."""

    @abstractmethod
    def depth(self, address: str) -> int:
        """Messages held for an address: waiting, or delivered without an outcome."""
