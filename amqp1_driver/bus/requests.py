# SPDX-License-Identifier: Apache-2.0

"""Nodes that answer requests: ``$cbs`` and ``$management`` of an embedded Service Bus.

A client attaches a pair of links to such a node. It sends requests on one link and receives replies
on the other (OASIS "AMQP Management" 1.0 working draft, section 3). Bus thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from proton import Message, MessageException

from .engine import Engine
from .links import ACCEPTED, Consumer, Outcome, Producer, Transfer, rejected

#: Maximum number of replies that wait for the credit of one link; the node then refuses requests.
_WAITING = 1000


class _Forgotten:
    """A reply in flight; its outcome has no effect."""

    def settle(self, outcome: Outcome) -> None:
        pass


class RequestNode:
    """A node that answers requests.

    :param answer: returns the reply to a request; the node fills in the correlation-id
    """

    def __init__(self, name: str, answer: Callable[[Engine, Message], Message]) -> None:
        self.name = name
        self._answer = answer
        #: Reply link -> replies that wait for its credit.
        self._waiting: dict[Consumer, deque[bytes]] = {}

    def attach(self, consumer: Consumer) -> None:
        """Register a reply link of a client."""
        self._waiting[consumer] = deque()

    def detach(self, consumer: Consumer) -> None:
        """Remove a reply link."""
        self._waiting.pop(consumer, None)

    def flow(self, consumer: Consumer) -> None:
        """Send the replies that waited for this credit."""
        waiting = self._waiting[consumer]
        while waiting and consumer.credit > 0:
            consumer.send(waiting.popleft(), _Forgotten())

    def request(self, transfer: Transfer) -> None:
        """Execute a request and send the reply; without a reply link, discard the reply."""
        request = Message()
        try:
            request.decode(transfer.data)
        except MessageException as exc:
            transfer.settle(rejected("amqp:decode-error", str(exc)))
            return
        engine = transfer.producer.engine
        consumer = self._link_for(transfer.producer, request.reply_to)
        if consumer is not None and len(self._waiting[consumer]) >= _WAITING:
            what = f"{_WAITING} replies wait for credit"
            transfer.settle(rejected("amqp:resource-limit-exceeded", what))
            return
        reply = self._answer(engine, request)
        transfer.settle(ACCEPTED)
        if consumer is not None and not consumer.closed:
            reply.address = request.reply_to
            reply.correlation_id = request.id
            self._waiting[consumer].append(bytes(reply.encode()))
            self.flow(consumer)

    def _link_for(self, producer: Producer, reply_to: str | None) -> Consumer | None:
        """Find the reply link for a producer.

        :returns: the reply link on the producer's connection whose target address is ``reply_to``;
            otherwise the first reply link on that connection, None without any
        """
        links = [c for c in self._waiting if c.engine is producer.engine]
        for consumer in links:
            if reply_to and consumer.link.remote_target.address == reply_to:
                return consumer
        return links[0] if links else None
