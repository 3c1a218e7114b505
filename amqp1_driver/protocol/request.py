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


"""Requests and their responses over a pair of links with one node.

As AMQP Management and AMQP CBS have it: a request says by ``reply-to`` to which of our links
the response goes, the response by ``correlation-id`` to which request.  Every request has a
deadline; a pair that the peer detaches is attached again.  Lives on the I/O thread.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from amqp1_driver import codec, exceptions
from amqp1_driver.policy.outcome import Disposition, Outcome
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.engine_link import EngineReceiver, EngineSender, EngineSession
from amqp1_driver.protocol.link import Cancellable, Scheduler

LOG = logging.getLogger(__name__)

_CREDIT = 100
#: as CBS and as Service Bus's management name them
_STATUS = ("status-code", "statusCode")
_DESCRIPTION = ("status-description", "statusDescription")


class Response(NamedTuple):
    """What the node said; ``status`` as in HTTP, 0 where it gave none."""

    status: int
    description: str
    body: Any

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300


Done = Callable[["Response | exceptions.AmqpError"], None]


class _Asked(NamedTuple):
    encode: Callable[..., bytes]
    done: Done
    timer: Cancellable


class _End:
    """Tells the pair what happens to one of its two links."""

    def __init__(self, pair: "Requests", receiver: bool) -> None:
        self._pair: Requests | None = pair
        self._receiver = receiver

    def link_attached(self) -> None:
        if self._pair is not None:
            self._pair.link_attached(self._receiver)

    def link_credit(self) -> None:
        if self._pair is not None:
            self._pair.flush()

    def link_outcome(self, key: Any, disposition: Disposition) -> None:
        if self._pair is not None:
            self._pair.link_outcome(key, disposition)

    def link_delivery(self, key: int, data: bytes, settled: bool) -> None:
        if self._pair is not None:
            self._pair.link_delivery(key, data)

    def link_detached(self, name: str | None, description: str | None) -> None:
        pair, self._pair = self._pair, None
        if pair is not None:
            pair.link_detached(name, description)

    def let_go(self) -> None:
        self._pair = None


class Requests:
    """See the module.

    :param address: of the node
    :param session: where to open the links
    :param timeout: for each request, seconds
    :param retry: schedule of the waits before the links are attached again
    """

    def __init__(self, scheduler: Scheduler, host: str, address: str,
                 session: Callable[[], EngineSession], timeout: float, retry: Retry) -> None:
        self._scheduler = scheduler
        self._host = host
        self._address = address
        self._session = session
        self._timeout = timeout
        self._retry = self._fresh = retry
        self._engine: Engine | None = None
        self._sender: EngineSender | None = None
        self._receiver: EngineReceiver | None = None
        self._ends: list[_End] = []
        self._listening = False
        self._reply_to = ""
        self._attempt = 0
        self._ids = 0
        self._timer: Cancellable | None = None
        self._queue: OrderedDict[str, _Asked] = OrderedDict()
        self._outside: dict[str, _Asked] = {}
        self._keys: dict[Any, str] = {}

    def attach(self, engine: Engine) -> None:
        """Open the two links."""
        self._engine = engine
        self._attempt += 1
        name = f"request.{self._address}.{self._attempt}"
        into, out = _End(self, True), _End(self, False)
        self._ends = [into, out]
        session = self._session()
        self._receiver = engine.receiver(session, f"{name}.in", self._address, into, target=name)
        self._sender = engine.sender(session, f"{name}.out", self._address, out, source=name)
        self._reply_to = name

    def ask(self, properties: dict[str, Any], body: Any, done: Done) -> None:
        """Send a request as soon as possible; ``done`` is told the response or the error.

        :param properties: application properties
        """
        self._ids += 1
        request = f"request-{self._ids}"
        encode = partial(codec.encode_message, body, message_id=request, to=self._address,
                         application_properties=properties)
        timer = self._scheduler.call_later(self._timeout, partial(self._late, request))
        self._queue[request] = _Asked(encode, done, timer)
        self.flush()

    def lost(self, cause: BaseException) -> None:
        """The connection is gone, and both links with it."""
        self._sender = self._receiver = self._engine = None
        self._stop()
        self._fail_all(exceptions.LinkFailed(f"the connection was lost ({cause})",
                                             host=self._host, address=self._address))

    # -- told by the links -----------------------------------------------------

    def link_attached(self, receiver: bool) -> None:
        if receiver and self._receiver is not None:
            self._receiver.grant(_CREDIT)
            self._listening = True
        self.flush()

    def flush(self) -> None:
        sender = self._sender
        while (self._queue and self._listening and sender is not None and sender.active
               and sender.credit > 0):
            request, asked = self._queue.popitem(last=False)
            self._outside[request] = asked
            data = asked.encode(reply_to=self._reply_to)
            self._keys[sender.transfer(data, False)] = request

    def link_outcome(self, key: Any, disposition: Disposition) -> None:
        request = self._keys.pop(key, None)
        if disposition.outcome is Outcome.ACCEPTED or request is None:
            return
        reason = disposition.description or disposition.condition or ""
        self._end(request, exceptions.LinkFailed(
            f"the request came back {disposition.outcome.value}: {reason}", host=self._host,
            address=self._address, condition=disposition.condition))

    def link_delivery(self, key: int, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.settle(key, Outcome.ACCEPTED)
            self._receiver.grant(1)
        self._retry = self._fresh
        try:
            message = codec.decode_message(data)
            given = message.application_properties
        except exceptions.DecodeError as error:
            LOG.error("Undecodable response of %s at %s: %s", self._address, self._host, error)
            return
        status = next((given[name] for name in _STATUS if name in given), 0)
        text = next((given[name] for name in _DESCRIPTION if given.get(name)), "")
        self._end(str(message.correlation_id), Response(
            status if isinstance(status, int) else 0, str(text), message.body))

    def link_detached(self, name: str | None, description: str | None) -> None:
        error = exceptions.from_condition(name, description, default=exceptions.LinkFailed,
                                          host=self._host, address=self._address)
        delay = self._retry.delay(self._scheduler.rng)
        self._retry = self._retry.spent()
        LOG.warning("Links to %s at %s were detached by the peer: %s; again in %.1f s",
                    self._address, self._host, error, delay)
        self._stop()
        self._fail_all(error)
        self._timer = self._scheduler.call_later(delay, self._again)

    # -- inner -----------------------------------------------------------------

    def _again(self) -> None:
        self._timer = None
        if self._engine is not None:
            self.attach(self._engine)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for end in self._ends:
            end.let_go()
        links, self._sender, self._receiver = (self._sender, self._receiver), None, None
        for link in links:
            if link is not None:
                link.release()
        self._listening = False
        self._keys.clear()

    def _late(self, request: str) -> None:
        self._end(request, exceptions.LinkFailed(
            f"no answer within {self._timeout:g} s", host=self._host, address=self._address))

    def _end(self, request: str, result: "Response | exceptions.AmqpError") -> None:
        asked = self._outside.pop(request, None) or self._queue.pop(request, None)
        if asked is not None:
            asked.timer.cancel()
            asked.done(result)

    def _fail_all(self, error: exceptions.AmqpError) -> None:
        for request in [*self._outside, *self._queue]:
            self._end(request, error)
