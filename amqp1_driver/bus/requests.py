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

"""Nodes that answer requests: ``$cbs`` and ``$management`` of an embedded Service Bus.

A client attaches a pair of links to such a node, sends requests on the one and gets the replies on
the other (OASIS "AMQP Management" 1.0 working draft, section 3). Bus thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from proton import Message, MessageException

from .endpoints import Endpoints
from .links import ACCEPTED, Consumer, Outcome, Producer, Transfer, rejected


class _Forgotten:
    """A reply on its way: its outcome changes nothing."""

    def settle(self, outcome: Outcome) -> None:
        pass


class RequestNode:
    """``answer(endpoints, request)`` returns the reply; its correlation-id is filled in here."""

    def __init__(self, name: str, answer: Callable[[Endpoints, Message], Message]) -> None:
        self.name = name
        self._answer = answer
        #: Link for replies -> replies that wait for its credit.
        self._waiting: dict[Consumer, deque[bytes]] = {}

    def attach(self, consumer: Consumer) -> None:
        """A client wants its replies here."""
        self._waiting[consumer] = deque()

    def detach(self, consumer: Consumer) -> None:
        """The link for replies has gone."""
        self._waiting.pop(consumer, None)

    def flow(self, consumer: Consumer) -> None:
        """Send what waited for this credit."""
        waiting = self._waiting[consumer]
        while waiting and consumer.credit > 0:
            consumer.send(waiting.popleft(), _Forgotten())

    def request(self, transfer: Transfer) -> None:
        """Answer a request; without a link for the reply it is done all the same."""
        request = Message()
        try:
            request.decode(transfer.data)
        except MessageException as exc:
            transfer.settle(rejected("amqp:decode-error", str(exc)))
            return
        endpoints = transfer.producer.endpoints
        reply = self._answer(endpoints, request)
        transfer.settle(ACCEPTED)
        consumer = self._link_for(transfer.producer, request.reply_to)
        if consumer is not None:
            reply.address = request.reply_to
            reply.correlation_id = request.id
            self._waiting[consumer].append(bytes(reply.encode()))
            self.flow(consumer)

    def _link_for(self, producer: Producer, reply_to: str | None) -> Consumer | None:
        """The link of the same connection whose target is the reply-to address, else any."""
        links = [c for c in self._waiting if c.endpoints is producer.endpoints]
        for consumer in links:
            if reply_to and consumer.link.remote_target.address == reply_to:
                return consumer
        return links[0] if links else None
