# SPDX-License-Identifier: Apache-2.0

"""Interface of the modes of the bus: a mode makes the decisions, the engine does the protocol."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from .counters import Counters
from .links import Consumer, Item, Outcome, Producer, Transfer
from .timers import Schedule

if TYPE_CHECKING:
    from .engine import Engine

#: Default maximum message size in bytes; RabbitMQ's default is a quarter of it.
LARGEST_MESSAGE = 67108864


class Behaviour(ABC):
    """Base class of the modes such as :class:`Router` and :class:`Broker`; lives on the bus thread.

    ``clock`` returns monotonic seconds. The server that runs the behaviour sets ``call_at``.
    """

    mode: str
    #: Product in the properties of the Open frame; None = neither properties nor capabilities.
    product: str | None
    max_frame: int
    #: Maximum message size in bytes, announced at both ends of links.
    max_message_size = LARGEST_MESSAGE
    #: Size limit in bytes: the bus detaches a producer as soon as a message exceeds the limit, even
    #: before the rest of that message has arrived.
    largest_message = LARGEST_MESSAGE
    #: SASL mechanisms without a user name, offered besides PLAIN.
    anonymous: tuple[str, ...] = ()
    call_at: Schedule

    def __init__(self, counters: Counters, clock: Callable[[], float] = time.monotonic) -> None:
        self.counters = counters
        self.clock = clock
        self._paused: set[str] = set()
        self._all_paused = False

    def later(self, when: float, function: Callable[[], None]) -> None:
        """Run a function when ``clock`` reaches ``when``.

        Constructors pass on this method, because ``call_at`` is set after them.
        """
        self.call_at(when, function)

    def window(self, producer: Producer) -> int:
        """Return the credit that the producer should have now."""
        if self._all_paused or producer.address in self._paused:
            return 0
        return self.allowance(producer)

    def pause(self, address: str | None) -> None:
        """Withhold and withdraw credit from the producers of an address; None = from all."""
        if address is None:
            self._all_paused = True
        else:
            self._paused.add(address)

    def resume(self, address: str | None) -> None:
        """Undo :meth:`pause` for an address; None = undo every pause."""
        if address is None:
            self._all_paused = False
            self._paused.clear()
        else:
            self._paused.discard(address)

    def opened(self, engine: Engine) -> None:
        """Accept a new connection; by default, do nothing."""
        return

    def refusal(self, item: Item) -> Outcome | None:
        """Return the error for a consumer whose outcome comes too late, None if it is in time.

        The engine calls this only if the consumer waits for the bus to settle first
        (rcv-settle-mode *second*, 2.8.3).
        """
        return None

    @abstractmethod
    def allowance(self, producer: Producer) -> int:
        """Return the credit that the producer should have now by the rules of the mode."""

    @abstractmethod
    def new_address(self, link_name: str) -> str:
        """Return the address of a dynamic node (3.5.3).

        :raises Refused: the mode refuses dynamic nodes
        """

    @abstractmethod
    def producer_attached(self, producer: Producer) -> None:
        """Register a new producer link.

        :raises Refused: the mode refuses the link
        """

    @abstractmethod
    def consumer_attached(self, consumer: Consumer, dynamic: bool) -> None:
        """Register a new consumer link.

        :param dynamic: the node is dynamic and belongs to this link
        :raises Refused: the mode refuses the link
        """

    @abstractmethod
    def transferred(self, transfer: Transfer) -> None:
        """Handle a message that has arrived."""

    @abstractmethod
    def flow(self, consumer: Consumer) -> None:
        """Handle credit from a consumer."""

    @abstractmethod
    def settled(self, consumer: Consumer, item: Item, outcome: Outcome) -> None:
        """Handle the outcome of a consumer for a message."""

    @abstractmethod
    def producer_detached(self, producer: Producer) -> None:
        """Remove a producer link, for whatever reason it ended."""

    @abstractmethod
    def consumer_detached(self, consumer: Consumer) -> None:
        """Remove a consumer link, whose unsettled deliveries are in ``consumer.unsettled``."""

    @abstractmethod
    def depth(self, address: str) -> int:
        """Return the number of messages held for an address.

        A held message waits, or is delivered and has no outcome.
        """
