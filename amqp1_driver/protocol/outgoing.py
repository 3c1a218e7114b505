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

"""What is to be sent: to the generation that is ready, or it waits for one.

Lives on the I/O thread.
"""

import logging
from collections.abc import Callable

from amqp1_driver import exceptions
from amqp1_driver.protocol.generation import Generation
from amqp1_driver.protocol.link import Scheduler
from amqp1_driver.protocol.operation import Operation, Stage, expired
from amqp1_driver.protocol.upkeep import Kept, Upkeep
from amqp1_driver.protocol.waiting import WaitingRoom

LOG = logging.getLogger(__name__)

_DONE = Stage.DONE


class Outgoing:
    """Messages of one logical connection.

    :param host: ``hostname:port``, for errors
    :param kept: the links there are now, whether or not they are ready
    :param idle: seconds after which a link that was not used is detached
    """

    def __init__(self, scheduler: Scheduler, host: Callable[[], str],
                 kept: Callable[[], Kept | None], idle: float) -> None:
        self._now = scheduler.now
        self._host = host
        #: what can send just now
        self.ready: Generation | None = None
        self._closed = False
        self._waiting = WaitingRoom()
        self._upkeep = Upkeep(scheduler, self._waiting, kept, host, idle)

    def send(self, op: Operation) -> None:
        """Send as soon as possible; the operation is completed or fails, once."""
        try:
            ready = self.ready
            if ready is not None and op.stage is not _DONE and self._now() < op.deadline.at:
                ready.send(op)
                if not self._upkeep.watching:
                    self._upkeep.watch()
            else:
                self._send(op)
        except Exception as error:
            # one message that can't be sent must not cost the loop
            LOG.exception("Message %s to %s could not be sent", op.message_id, op.address)
            op.fail(exceptions.AmqpError(f"internal error: {error!r}", host=self._host(),
                                         address=op.address, message_id=op.message_id))

    def _send(self, op: Operation) -> None:
        if op.finished:
            return
        if op.deadline.expired(self._now()):
            # it was in the mailbox for too long, and its caller has gone
            op.fail(expired(op, self._host()))
            return
        if self._closed:
            op.fail(exceptions.Closed("the transport is closed", host=self._host(),
                                      address=op.address, message_id=op.message_id))
            return
        self.hold([op])

    def cancel(self, op: Operation) -> None:
        """Nobody waits for it any more."""
        if op.owner is not None:
            op.owner.cancel(op)
        if not op.finished:
            op.fail(expired(op, self._host()))

    def hold(self, operations: list[Operation]) -> None:
        """Keep what was not sent for the next generation."""
        self._waiting.add(operations)
        if operations and not self._upkeep.watching:
            self._upkeep.watch()

    def release(self) -> None:
        """There is a generation that is ready: send what has waited for it."""
        for op in self._waiting.take():
            self.send(op)

    def fail_once(self, error: BaseException) -> None:
        """Every host was tried in vain: that is one attempt for those who wait."""
        self._waiting.fail_once(error)

    def close(self, error: BaseException) -> None:
        """Nothing more is sent, and what waits fails."""
        self._closed = True
        self._waiting.fail_all(error)

    def end(self, error: BaseException) -> None:
        """There will be no links any more."""
        self._waiting.fail_all(error)
        self._upkeep.stop()

    def fail_all(self, error: BaseException) -> None:
        """The loop is dying."""
        self._waiting.fail_all(error)
