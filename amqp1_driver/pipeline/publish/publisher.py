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

"""A publisher: a bounded number of messages under way, and none of them lost silently."""

from __future__ import annotations

import logging
import time
from collections import deque
from types import TracebackType
from typing import Any, NamedTuple, Self

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination
from amqp1_driver.client import Client
from amqp1_driver.eventloop import Future
from amqp1_driver.protocol.operation import Parcel

LOG = logging.getLogger(__name__)

#: the client gives a message up so much later, seconds: what it has waited for is said here
GRACE = 5.0


class _Sent(NamedTuple):
    """One message under way."""

    op: Parcel
    future: Future[Any]
    #: of the clock that is monotonic, seconds
    until: float


class Publisher:
    """Sends messages that are ready. One thread at a time; a context manager that closes it.

    What was in doubt when a connection broke is sent again with the same id: readers that know
    ids drop the double.

    :param client: not started; closed with the publisher
    :param max_in_flight: messages under way at most
    :param timeout: seconds that each has
    """

    def __init__(self, client: Client, max_in_flight: int = 1000, timeout: float = 60.0) -> None:
        self._client = client
        self._most = max_in_flight
        self._timeout = timeout
        self._under_way: deque[_Sent] = deque()
        #: so many the bus has accepted, and so many were sent again
        self.accepted = self.resent = 0
        client.start()

    @property
    def unconfirmed(self) -> int:
        """Messages that the bus has neither accepted nor refused yet. Any thread."""
        return sum(not sent.future.done() for sent in self._under_way.copy())

    def send(self, destination: Destination, message_id: str, body: bytes,
             content_type: str | None = None, properties: dict[str, Any] | None = None) -> None:
        """Send; waits while too many are under way.

        :raises AmqpError: the bus has not taken this or an earlier one; host, address and
            message id of which are in the text
        """
        if len(self._under_way) >= self._most:
            # half of them at once: a thread that is woken for each does little else
            self._under_way[self._most // 2].future.wait(self._timeout)
            while self._under_way and (self._under_way[0].future.done()
                                       or len(self._under_way) >= self._most):
                self._end(self._under_way.popleft())
        self._submit(destination, message_id, body, content_type, properties,
                     time.monotonic() + self._timeout)

    def flush(self) -> None:
        """Wait until the bus has accepted all.

        :raises AmqpError: see :meth:`send`
        """
        while self._under_way:
            self._end(self._under_way.popleft())

    def abort(self) -> None:
        """Give up what is under way: the bus may have taken it or not."""
        for sent in self._under_way:
            self._client.give_up(sent.op)
        self._under_way.clear()

    def close(self) -> None:
        """Give up what is under way, and close the connection."""
        self.abort()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def _submit(self, destination: Destination, message_id: str, body: bytes,
                content_type: str | None, properties: dict[str, Any] | None,
                until: float) -> None:
        future: Future[Any] = Future()
        left = until - time.monotonic()
        op = self._client.submit(destination, message_id, body, future, timeout=left + GRACE,
                                 content_type=content_type, properties=properties)
        self._under_way.append(_Sent(op, future, until))

    def _end(self, sent: _Sent) -> None:
        op, future, until = sent
        if not future.wait(max(0.0, until - time.monotonic())):
            error = self._client.give_up(op)
            # in that moment it may have been accepted
            if not future.wait(GRACE) or not _accepted(future):
                raise error
        try:
            future.result(0)
        except exceptions.InDoubt as error:
            if time.monotonic() >= until:
                raise
            LOG.info("Message %s is sent again: %s", op.message_id, error)
            self.resent += 1
            self._submit(op.destination, op.message_id, op.body, op.content_type, op.properties,
                         until)
        else:
            self.accepted += 1


def _accepted(future: Future[Any]) -> bool:
    try:
        future.result(0)
    except exceptions.AmqpError:
        return False
    return True
