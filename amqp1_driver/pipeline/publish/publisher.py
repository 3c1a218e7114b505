# SPDX-License-Identifier: Apache-2.0

"""A publisher: it bounds the messages under way, and loses none of them silently.

It runs on the thread of its caller, one thread at a time.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from types import TracebackType
from typing import Any, NamedTuple, Self

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Destination
from amqp1_driver.client.client import Client
from amqp1_driver.connection.operation import RawMessage
from amqp1_driver.eventloop import Future

LOG = logging.getLogger(__name__)

#: seconds by which the client's timeout is longer than the publisher's, so that the error comes
#: from the publisher and says what the message waited for; also how long the publisher waits for
#: the outcome of a message that it has cancelled
GRACE = 5.0


class _Sent(NamedTuple):
    """A message under way."""

    op: RawMessage
    future: Future[Any]
    #: deadline by the monotonic clock, seconds
    until: float


class Publisher:
    """A sender of complete messages, and a context manager. One thread at a time.

    The end of the context closes the publisher. It first waits for the messages under way, unless
    an exception ends the context: then it cancels them.

    If a message is in doubt because a connection was lost, the publisher sends it again with the
    same id: readers that check ids drop the copy.

    :param client: a client that is not started; the publisher starts and closes it
    :param max_in_flight: messages under way, at most
    :param timeout: seconds in which the bus must accept each message
    """

    def __init__(self, client: Client, max_in_flight: int = 1000, timeout: float = 60.0) -> None:
        self._client = client
        self._most = max_in_flight
        self._timeout = timeout
        self._under_way: deque[_Sent] = deque()
        #: the number of messages that the bus has accepted, and of those sent again
        self.accepted = self.resent = 0
        client.start()

    @property
    def unconfirmed(self) -> int:
        """Return how many messages the bus has neither accepted nor refused yet. Any thread."""
        return sum(not sent.future.done() for sent in self._under_way.copy())

    def send(
        self,
        destination: Destination,
        message_id: str,
        body: bytes,
        content_type: str | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        """Send a message; wait while too many are under way.

        :raises AmqpError: the bus has not accepted this message or an earlier one; the text names
            its host, address and message id
        """
        if len(self._under_way) >= self._most:
            # Wait for the message in the middle, then handle the older half at once: a thread that
            # wakes up for each message does little else.
            self._under_way[self._most // 2].future.wait(self._timeout)
            while self._under_way and (
                self._under_way[0].future.done() or len(self._under_way) >= self._most
            ):
                self._end(self._under_way.popleft())
        self._submit(
            destination,
            message_id,
            body,
            content_type,
            properties,
            time.monotonic() + self._timeout,
        )

    def flush(self) -> None:
        """Wait until the bus has accepted all messages.

        :raises AmqpError: see :meth:`send`
        """
        while self._under_way:
            self._end(self._under_way.popleft())

    def abort(self) -> None:
        """Cancel the messages under way; the bus may or may not have accepted them."""
        for sent in self._under_way:
            self._client.give_up(sent.op)
        self._under_way.clear()

    def close(self) -> None:
        """Cancel the messages under way, and close the connection."""
        self.abort()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def _submit(
        self,
        destination: Destination,
        message_id: str,
        body: bytes,
        content_type: str | None,
        properties: dict[str, Any] | None,
        until: float,
    ) -> None:
        future: Future[Any] = Future()
        left = until - time.monotonic()
        op = self._client.submit(
            destination,
            message_id,
            body,
            future,
            timeout=left + GRACE,
            content_type=content_type,
            properties=properties,
        )
        self._under_way.append(_Sent(op, future, until))

    def _end(self, sent: _Sent) -> None:
        op, future, until = sent
        if not future.wait(max(0.0, until - time.monotonic())):
            error = self._client.give_up(op)
            # The bus may have accepted the message at the last moment.
            if not future.wait(GRACE) or not _accepted(future):
                raise error
        try:
            future.result(0)
        except exceptions.InDoubt as error:
            if time.monotonic() >= until:
                raise
            LOG.info("Message %s is sent again: %s", op.message_id, error)
            self.resent += 1
            properties = op.properties
            self._submit(
                op.destination,
                op.message_id,
                op.body,
                properties.content_type,
                properties.application,
                until,
            )
        else:
            self.accepted += 1


def _accepted(future: Future[Any]) -> bool:
    try:
        future.result(0)
    except exceptions.AmqpError:
        return False
    return True
