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

"""Messages that nobody took, on a bus that says for sure that they are in no queue.

The queue may have been deleted since it was declared, so it is declared again and
the message sent again.  Lives on the I/O thread.
"""

import logging
from collections.abc import Callable

from amqp1_driver.addressing.base import Node
from amqp1_driver.protocol.link import Cancellable, Scheduler
from amqp1_driver.protocol.operation import Operation, Request, Stage

LOG = logging.getLogger(__name__)

#: pauses before the queue of a message that came back is declared again, seconds
REDECLARE_AFTER = (0.0, 0.1, 0.5)


class Returned:
    """Those that came back on one physical connection, and pause.

    :param host: ``hostname:port``, for logs
    :param forget: has the node of a message declared before the next one; returns it
    :param send: takes a message when its pause is over
    """

    def __init__(self, scheduler: Scheduler, host: str,
                 forget: Callable[[Operation], Node | None],
                 send: Callable[[Operation], object]) -> None:
        self._scheduler = scheduler
        self._host = host
        self._forget = forget
        self._send = send
        self._paused: dict[int, tuple[Operation, Cancellable]] = {}

    def again(self, op: Operation) -> bool:
        """Declare anew, and send again; False: that has been tried, or would not help.

        If it comes back once more, a pause is made: a queue that is just being deleted can
        still be declared, for nothing.
        """
        node = self._forget(op)
        if (node is None or not node.declare or not isinstance(op, Request)
                or op.redeclared == len(REDECLARE_AFTER)):
            return False
        LOG.info("Message %s to %s on %s was not routed: its queue is declared again",
                 op.message_id, op.address, self._host)
        pause = REDECLARE_AFTER[op.redeclared]
        op.redeclared += 1
        op.stage = Stage.QUEUED
        op.owner = self
        self._paused[id(op)] = op, self._scheduler.call_later(pause, lambda: self._go_on(op))
        return True

    def _go_on(self, op: Operation) -> None:
        del self._paused[id(op)]
        if not op.finished:
            self._send(op)

    def cancel(self, op: Operation) -> None:
        """Nobody waits any more for one that pauses."""
        _, timer = self._paused.pop(id(op), (None, None))
        if timer is not None:
            timer.cancel()

    def take(self) -> list[Operation]:
        """All that pause; they are the caller's from now on."""
        waiting = []
        for op, timer in self._paused.values():
            timer.cancel()
            waiting.append(op)
        self._paused.clear()
        return waiting
