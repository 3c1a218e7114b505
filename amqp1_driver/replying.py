#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Replies to callers, which nobody waits for.

Any thread unless stated otherwise.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from amqp1_driver import codec, exceptions
from amqp1_driver.eventloop import EventLoop, Future, LoopClosed, MailboxFull
from amqp1_driver.options import Settings
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.context import BusContext
from amqp1_driver.protocol.operation import Kind, Reply

LOG = logging.getLogger(__name__)

#: reply addresses that were found dead are remembered so long, and so many
DEAD_SECONDS = 60.0
DEAD_LIMIT = 1000


class Replying:
    """Sends replies and signs of life of one client.

    :param send: of the connection; on the I/O thread
    :param hosts: for messages
    :param retry: of replies that are not taken
    """

    def __init__(self, loop: EventLoop, send: Callable[[Any], object], settings: Settings,
                 hosts: str, retry: Retry) -> None:
        #: the connection as it is now; set by the client
        self.context: BusContext | None = None
        # what an observed client does otherwise
        self.send = send
        self.new_reply: Callable[..., Reply] = Reply
        self._loop = loop
        self._settings = settings
        self._hosts = hosts
        self._retry = retry
        self._compresses = settings.compression
        self._settled = Kind.REPLY.value in settings.pre_settled
        self._under_way: set[Reply] = set()
        self._dead: OrderedDict[str, float] = OrderedDict()

    def reply(self, address: str, correlation_id: bytes, message_id: str, body: bytes) -> None:
        """Send a reply without waiting, unless too many are under way.  Never raises."""
        now = time.monotonic()
        if self._dead and self._is_dead(address, now):
            LOG.error("Reply to message %s dropped: its address %s on %s was found dead before",
                      message_id, address, self._hosts)
            return
        timeout = self._settings.default_reply_timeout
        gzip = False
        if self._compresses:
            body, gzip = codec.compress(body, self._settings.compression_threshold)
        op = self.new_reply(
            Kind.REPLY, address, correlation_id, message_id, body, Deadline(now + timeout),
            self._retry, gzip=gzip, settled=self._settled,
            on_end=self._ended)
        gate: Future[None] | None = None
        if len(self._under_way) >= self._settings.reply_backlog:
            gate = op.gate = Future()
        self._under_way.add(op)
        context = self.context
        if context is not None:
            op.bind(context, now)
        try:
            self._loop.put(self.send, op, timeout, len(self._under_way) == 1)
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
            return
        # a deadline tells nothing of the address: the bus may be away, or blocked as a whole
        if op.address and exceptions.nobody_there(error):
            self._dead[op.address] = time.monotonic() + DEAD_SECONDS
            while len(self._dead) > DEAD_LIMIT:
                self._dead.popitem(last=False)
        LOG.error("Reply to message %s was not delivered to %s: %s", op.message_id, op.address,
                  error)

    def _is_dead(self, address: str, now: float) -> bool:
        until = self._dead.get(address)
        if until is None:
            return False
        if now < until:
            return True
        self._dead.pop(address, None)
        return False

    def heartbeat(self, address: str, correlation_id: bytes, message_id: str,
                  timeout: float) -> None:
        """Tell a caller that its call is at work: worst effort, never waits or raises."""
        context = self.context
        now = time.monotonic()
        if context is None or self._is_dead(address, now):
            return
        op = self.new_reply(Kind.HEARTBEAT, address, correlation_id, message_id, b"",
                            Deadline.after(timeout, now), Retry.of(0), settled=True)
        op.bind(context, now)
        try:
            self._loop.post(self.send, op)
        except LoopClosed as error:
            LOG.debug("Heartbeat for message %s dropped: %s", message_id, error)
