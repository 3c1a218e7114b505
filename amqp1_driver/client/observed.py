# SPDX-License-Identifier: Apache-2.0

"""The client that reports telemetry events; it takes the place of :class:`Client`.

The driver chooses between the two when it makes a client, so telemetry costs nothing where it is
off. Any thread unless stated otherwise.
"""

import time
from functools import partial
from typing import Any

from amqp1_driver import codec
from amqp1_driver.client.client import CLOSE_TIMEOUT, Client
from amqp1_driver.client.timings import Timed, TimedReply, TimedRequest, message
from amqp1_driver.connection.operation import Request
from amqp1_driver.telemetry.events import Origin
from amqp1_driver.telemetry.observer import Observer
from amqp1_driver.telemetry.shared import Telemetry


class ObservedClient(Client):
    """A :class:`Client` that reports events.

    The calling thread reports events of requests; the I/O thread reports events of replies, links
    and the connection.

    :param telemetry: its hub is the sink of events; the client releases it at close() or when the
        loop dies
    :param pid: id of this process
    :param args: see :class:`Client`
    """

    def __init__(self, telemetry: Telemetry, pid: int, *args: Any) -> None:
        super().__init__(*args)
        self._telemetry = telemetry
        self._owns_telemetry = True
        origin = Origin(self.container, pid)
        self._observer = Observer(telemetry.hub, origin, time.monotonic, time.time)
        self._port.observer = self._observer
        self._new_request = partial(TimedRequest, self._observer)
        self._send = self.replier.send = self._take
        self.replier.new_reply = partial(TimedReply, self._observer, self._host_now)

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Close the connection and release the telemetry; its last user writes the events left."""
        super().close(timeout)
        self._release_telemetry()

    def _died(self, cause: BaseException) -> None:
        super()._died(cause)
        self._release_telemetry()

    def _release_telemetry(self) -> None:
        held, self._owns_telemetry = self._owns_telemetry, False
        if held:
            self._telemetry.release()

    def _host_now(self) -> str:
        context = self._context
        return context.host if context is not None else self._connection.host

    def _take(self, op: Timed) -> None:
        """Note when the I/O thread took the operation, and send it.  I/O thread."""
        if isinstance(op, Timed):  # others did not come through oslo.messaging
            op.timings.taken = op.timings.now()
        self._connection.send(op)

    def _exchange(self, op: Request, timeout: float, monitor: float | None) -> codec.Message | None:
        try:
            reply = super()._exchange(op, timeout, monitor)
        except BaseException as error:
            self._observer.tell(message, op, self._observer, self._host_now, error)
            raise
        self._observer.tell(message, op, self._observer, self._host_now, None)
        return reply
