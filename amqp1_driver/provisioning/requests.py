# SPDX-License-Identifier: Apache-2.0


"""A client that sends requests to one node and receives the responses, over a pair of links.

AMQP Management and AMQP CBS work that way: the request's ``reply-to`` names the link for the
response, and the response's ``correlation-id`` names the request.  Every request has a deadline.
The client attaches the pair again after the peer has detached it.  Lives on the I/O thread.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from amqp1_driver import codec, exceptions
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.link import EngineReceiver, EngineSender
from amqp1_driver.engine.session import EngineSession
from amqp1_driver.interfaces import Scheduler, Timer
from amqp1_driver.policy.outcome import Disposition, Outcome
from amqp1_driver.policy.retry import Retry

LOG = exceptions.logger(__name__)

_CREDIT = 100
#: names of application properties: as in CBS, and as in Service Bus's management
_STATUS = ("status-code", "statusCode")
_DESCRIPTION = ("status-description", "statusDescription")


class Response(NamedTuple):
    """The response of the node; ``status`` as in HTTP, 0 if the response has none."""

    status: int
    description: str
    body: Any

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300


Done = Callable[["Response | exceptions.AmqpError"], None]


class _Pending(NamedTuple):
    encode: Callable[..., bytes]
    done: Done
    timer: Timer


class _LinkHandler:
    """The handler of one of the two links: passes events to the pair until :meth:`let_go`."""

    def __init__(self, pair: "Requests", receiver: bool) -> None:
        self._pair: Requests | None = pair
        self._receiver = receiver

    @property
    def waits(self) -> bool:
        return self._pair is not None and self._pair.waits

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

    def disconnect(self) -> None:
        self._pair = None


class Requests:
    """A pair of links with one node, and the requests on it; see the module.

    :param address: of the node
    :param engine: the physical connection
    :param session: returns the session in which to open the links
    :param timeout: for each request, seconds
    :param retry: schedule of the waits before the links are attached again
    """

    def __init__(
        self,
        scheduler: Scheduler,
        host: str,
        address: str,
        engine: Engine,
        session: Callable[[], EngineSession],
        timeout: float,
        retry: Retry,
    ) -> None:
        self._scheduler = scheduler
        self._host = host
        self._address = address
        self._session = session
        self._timeout = timeout
        self._retry = self._fresh = retry
        self._connection = engine
        self._engine: Engine | None = None
        self._sender: EngineSender | None = None
        self._receiver: EngineReceiver | None = None
        self._ends: list[_LinkHandler] = []
        self._listening = False
        self._reply_to = ""
        self._ids = 0
        self._timer: Timer | None = None
        self._queue: OrderedDict[str, _Pending] = OrderedDict()
        self._in_flight: dict[str, _Pending] = {}
        self._keys: dict[Any, str] = {}

    def attach(self) -> None:
        """Open the two links.

        The address for responses is unique among all clients and hard to guess, so that no other
        client can direct a response here (Azure's "AMQP 1.0 protocol guide", request/response).
        """
        engine = self._engine = self._connection
        name = f"request.{self._address}.{secrets.token_hex(16)}"
        into, out = _LinkHandler(self, True), _LinkHandler(self, False)
        self._ends = [into, out]
        session = self._session()
        self._receiver = engine.receiver(session, f"{name}.in", self._address, into, target=name)
        self._sender = engine.sender(session, f"{name}.out", self._address, out, source=name)
        self._reply_to = name

    def ask(self, properties: dict[str, Any], body: Any, done: Done) -> None:
        """Send a request as soon as the links are attached and have credit.

        :param properties: application properties
        :param done: called once, with the response or the error
        """
        self._ids += 1
        request = f"request-{self._ids}"
        encode = partial(
            codec.encode_message,
            body,
            message_id=request,
            to=self._address,
            application_properties=properties,
        )
        timer = self._scheduler.call_later(self._timeout, partial(self._late, request))
        self._queue[request] = _Pending(encode, done, timer)
        self.flush()

    def lost(self, cause: BaseException) -> None:
        """Fail all requests: the connection is lost, and both links with it."""
        self._sender = self._receiver = self._engine = None
        self._stop()
        self._fail_all(
            exceptions.LinkFailed(
                f"the connection was lost ({cause})", host=self._host, address=self._address
            )
        )

    # -- called by the links ---------------------------------------------------

    def link_attached(self, receiver: bool) -> None:
        if receiver and self._receiver is not None:
            self._receiver.grant(_CREDIT)
            self._listening = True
        self.flush()

    @property
    def waits(self) -> bool:
        return bool(self._queue)

    def flush(self) -> None:
        sender = self._sender
        while (
            self._queue
            and self._listening
            and sender is not None
            and sender.active
            and sender.credit > 0
        ):
            request, asked = self._queue.popitem(last=False)
            self._in_flight[request] = asked
            data = asked.encode(reply_to=self._reply_to)
            self._keys[sender.transfer(data, len(data), False)] = request

    def link_outcome(self, key: Any, disposition: Disposition) -> None:
        request = self._keys.pop(key, None)
        if disposition.outcome is Outcome.ACCEPTED or request is None:
            return
        reason = disposition.description or disposition.condition or ""
        self._end(
            request,
            exceptions.LinkFailed(
                f"the request came back {disposition.outcome.value}: {reason}",
                host=self._host,
                address=self._address,
                condition=disposition.condition,
            ),
        )

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
        self._end(
            str(message.correlation_id),
            Response(status if isinstance(status, int) else 0, str(text), message.body),
        )

    def link_detached(self, name: str | None, description: str | None) -> None:
        error = exceptions.from_condition(
            name, description, default=exceptions.LinkFailed, host=self._host, address=self._address
        )
        delay = self._retry.delay(self._scheduler.rng)
        self._retry = self._retry.spent()
        LOG.warning(
            "Links to %s at %s were detached by the peer: %s; again in %.1f s",
            self._address,
            self._host,
            error,
            delay,
        )
        self._stop()
        self._fail_all(error)
        self._timer = self._scheduler.call_later(delay, self._again)

    # -- inner -----------------------------------------------------------------

    def _again(self) -> None:
        self._timer = None
        if self._engine is not None:
            self.attach()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for end in self._ends:
            end.disconnect()
        links, self._sender, self._receiver = (self._sender, self._receiver), None, None
        for link in links:
            if link is not None:
                link.release()
        self._listening = False
        self._keys.clear()

    def _late(self, request: str) -> None:
        self._end(
            request,
            exceptions.LinkFailed(
                f"no answer within {self._timeout:g} s", host=self._host, address=self._address
            ),
        )

    def _end(self, request: str, result: "Response | exceptions.AmqpError") -> None:
        asked = self._in_flight.pop(request, None) or self._queue.pop(request, None)
        if asked is not None:
            asked.timer.cancel()
            asked.done(result)

    def _fail_all(self, error: exceptions.AmqpError) -> None:
        for request in [*self._in_flight, *self._queue]:
            self._end(request, error)
