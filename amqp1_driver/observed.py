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

"""The client that tells what it does, in place of the one that does not.

Which of the two it is, is chosen once, when the connection is made: so telemetry costs nothing
where it is off.
"""

import time
from functools import partial
from typing import Any

from amqp1_driver import codec
from amqp1_driver.client import CLOSE_TIMEOUT, Client
from amqp1_driver.protocol.operation import Request
from amqp1_driver.protocol.traced import Traced, TracedReply, TracedRequest, message
from amqp1_driver.telemetry.events import Origin
from amqp1_driver.telemetry.observer import Observer
from amqp1_driver.telemetry.shared import Telemetry


class ObservedClient(Client):
    """As :class:`Client`.  Events of requests are told by the thread that called, those of
    replies, links and the connection by the I/O thread.

    :param telemetry: where events go; let go of when the client is closed
    :param pid: of this process
    :param args: see :class:`Client`
    """

    def __init__(self, telemetry: Telemetry, pid: int, *args: Any) -> None:
        super().__init__(*args)
        self._telemetry = telemetry
        self._held = True
        self._observer = Observer(telemetry, Origin(self.container, pid), time.monotonic,
                                  time.time)
        self._port.observer = self._observer
        self._send = self._take
        self._new_request = partial(TracedRequest, self._observer)
        self._replying.send = self._take
        self._replying.new_reply = partial(TracedReply, self._observer, self._host_now)

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Close the connection, then tell what is left to tell."""
        super().close(timeout)
        self._let_go()

    def _died(self, cause: BaseException) -> None:
        super()._died(cause)
        self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, False
        if held:
            self._telemetry.release()

    def _host_now(self) -> str:
        context = self._context
        return context.host if context is not None else self._connection.host

    def _take(self, op: Traced) -> None:
        """The I/O thread has it."""
        op.trace.taken = op.trace.now()
        self._connection.send(op)

    def _put(self, fn: Any, op: Any, timeout: float, alone: bool, future: Any = None) -> None:
        try:
            super()._put(fn, op, timeout, alone, future)
        except BaseException as error:
            self._tell(op, error)
            raise

    def _wait(self, op: Request, monitor: float | None) -> codec.Message | None:
        try:
            reply: codec.Message | None = super()._wait(op, monitor)
        except BaseException as error:
            self._tell(op, error)
            raise
        self._tell(op, None)
        return reply

    def _tell(self, op: Any, error: BaseException | None) -> None:
        if not isinstance(op, TracedRequest):
            return  # a body that was ready, not in the words of oslo.messaging
        self._observer.tell(message, op, self._observer, self._host_now, error)
