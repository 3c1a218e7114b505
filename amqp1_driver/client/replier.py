# SPDX-License-Identifier: Apache-2.0

"""The sender of replies and heartbeats to callers; no thread waits for their outcome.

Any thread unless stated otherwise.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.context import BusContext
from amqp1_driver.connection.operation import Kind, Payload, Reply
from amqp1_driver.eventloop import EventLoop, Future, LoopClosed, MailboxFull
from amqp1_driver.options import DeliverySettings
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.retry import Retry

LOG = exceptions.logger(__name__)

#: seconds for which replies to a dead address are dropped; each further failure doubles them. A
#: caller on RabbitMQ 4.0 comes back with the same address after its connection was lost.
DEAD_SECONDS = 2.0
DEAD_SECONDS_MAX = 60.0
#: most dead addresses in memory; the oldest one is dropped first
DEAD_LIMIT = 1000


class Replier:
    """The sender of one client's replies and heartbeats.

    :param send: sends an operation over the connection; runs on the I/O thread
    :param hosts: hosts of the transport URL, for log lines and errors
    :param retry: when to send a reply again that the bus did not accept
    """

    def __init__(
        self,
        loop: EventLoop,
        send: Callable[[Any], object],
        settings: DeliverySettings,
        hosts: str,
        retry: Retry,
    ) -> None:
        #: context of the client's present connection, set by the client; None: not connected
        self.context: BusContext | None = None
        # ObservedClient replaces these two
        self.send = send
        self.new_reply: Callable[..., Reply] = Reply
        self._loop = loop
        self._settings = settings
        self._hosts = hosts
        self._retry = retry
        self._compresses = settings.compression
        self._settled = Kind.REPLY.value in settings.pre_settled
        self._under_way: set[Reply] = set()
        #: dead address -> when it may be tried again, monotonic seconds, and the last pause
        self._dead: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def reply(self, address: str, correlation_id: bytes, message_id: str, body: bytes) -> None:
        """Send a reply; wait for its outcome if too many replies are under way.  Never raises."""
        now = time.monotonic()
        if self._dead and self._is_dead(address, now):
            LOG.error(
                "Reply to message %s dropped: its address %s on %s was found dead before",
                message_id,
                address,
                self._hosts,
            )
            return
        timeout = self._settings.default_reply_timeout
        gzip = False
        if self._compresses:
            body, gzip = codec.compress(body, self._settings.compression_threshold)
        op = self.new_reply(
            Payload(Kind.REPLY, message_id, body, self._settled, gzip),
            address,
            correlation_id,
            Deadline(now + timeout),
            self._retry,
            self._ended,
        )
        gate: Future[None] | None = None
        under_way = self._under_way
        alone = not under_way
        if not alone and len(under_way) >= self._settings.reply_backlog:
            gate = op.gate = Future()
        under_way.add(op)
        context = self.context
        if context is not None:
            op.bind(context, now)
        try:
            self._loop.put(self.send, op, timeout, alone)
            if gate is not None:
                gate.result(timeout)
        except (MailboxFull, LoopClosed, TimeoutError) as error:
            if op.on_end is not None and not isinstance(error, TimeoutError):
                op.fail(exceptions.Closed(str(error), host=self._hosts))

    def _ended(self, op: Reply, error: BaseException | None) -> None:
        self._under_way.discard(op)
        if op.gate is not None:
            op.gate.set_result(None)
        if error is None:
            if self._dead and op.address:
                self._dead.pop(op.address, None)
            return
        # an expired deadline says nothing about the address: the bus may be away or blocked
        if op.address and exceptions.nobody_there(error):
            self._mark_dead(op.address, time.monotonic())
        LOG.error(
            "Reply to message %s was not delivered to %s: %s", op.message_id, op.address, error
        )
        if isinstance(error, exceptions.MessageTooLarge):
            self._send_too_large_error(op, len(op.body))

    def _send_too_large_error(self, op: Reply, size: int) -> None:
        """Send the caller an error instead of a reply that is too large.

        Without the error the caller waits until its deadline.
        """
        problem = ValueError(f"the reply of {size} bytes is too large to be sent")
        body = codec.dump_reply(None, (ValueError, problem, None))
        now = time.monotonic()
        answer = self.new_reply(
            Payload(Kind.REPLY, op.message_id, body, settled=True),
            op.address,
            op.correlation_id,
            op.deadline,
            Retry.of(0),
        )
        context = self.context
        if context is not None:
            answer.bind(context, now)
        try:
            self._loop.post(self.send, answer)
        except LoopClosed as error:
            LOG.debug("Message %s: %s", op.message_id, error)

    def _mark_dead(self, address: str, now: float) -> None:
        """Remember a dead address; failures of replies sent together lengthen its pause once."""
        until, pause = self._dead.get(address, (0.0, 0.0))
        if now < until:
            return
        pause = min(2 * pause or DEAD_SECONDS, DEAD_SECONDS_MAX)
        self._dead[address] = now + pause, pause
        while len(self._dead) > DEAD_LIMIT:
            self._dead.popitem(last=False)

    def _is_dead(self, address: str, now: float) -> bool:
        return now < self._dead.get(address, (0.0, 0.0))[0]

    def heartbeat(
        self, address: str, correlation_id: bytes, message_id: str, timeout: float
    ) -> None:
        """Tell a caller that its call is in progress.  Never waits or raises.

        The heartbeat is pre-settled and is never sent again.

        :param timeout: seconds within which the heartbeat is of use
        """
        context = self.context
        now = time.monotonic()
        if context is None or self._is_dead(address, now):
            return
        op = self.new_reply(
            Payload(Kind.HEARTBEAT, message_id, b"", settled=True),
            address,
            correlation_id,
            Deadline.after(timeout, now),
            Retry.of(0),
        )
        op.bind(context, now)
        try:
            self._loop.post(self.send, op)
        except LoopClosed as error:
            LOG.debug("Heartbeat for message %s dropped: %s", message_id, error)
