# SPDX-License-Identifier: Apache-2.0

"""A client that sends requests to one node and receives the responses, over a pair of links.

AMQP Management and AMQP CBS work that way: the request's ``reply-to`` names the link for the
response, and the response's ``correlation-id`` names the request.  Every request has a deadline.
Given a schedule, the client attaches the links again after the peer has detached one.  Lives on the
I/O thread.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
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
#: name of both links of a pair, and the address of its responses
_PAIR, _PAIR_REPLY_TO = "management-link-pair", "$me"
#: names of application properties: as in CBS, and as in other management
_STATUS = ("status-code", "statusCode")
_DESCRIPTION = ("status-description", "statusDescription")

#: encodes a request, given its ``message_id`` and ``reply_to``
Encode = Callable[..., bytes]


class DeclarationRequest(NamedTuple):
    """The request for a declaration; ``path`` and ``method`` name it in errors."""

    path: str
    method: str
    encode: Encode


class Response(NamedTuple):
    """The response of the node; ``status`` as in HTTP, 0 if the response has none."""

    status: int
    description: str
    body: Any

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300

    @classmethod
    def from_properties(cls, message: codec.Message) -> "Response":
        """Return the response in a message whose application properties name the status."""
        given = message.application_properties
        status = next((given[name] for name in _STATUS if name in given), 0)
        text = next((given[name] for name in _DESCRIPTION if given.get(name)), "")
        return cls(status if isinstance(status, int) else 0, str(text), message.body)


@dataclass(frozen=True, slots=True)
class RequestNode:
    """A node that takes requests, and the links to it.

    :param pair: the links have one name, the bus sends responses to ``$me``, and both directions
        are settled; otherwise name and address are new for each attempt
    :param paired: the links carry the property ``paired``
    :param parse: returns the response in a message
    """

    address: str
    pair: bool = False
    paired: bool = False
    parse: Callable[[codec.Message], Response] = Response.from_properties


Answer = Response | exceptions.AmqpError
Done = Callable[[Answer], None]


class _Pending(NamedTuple):
    encode: Encode
    done: Done
    timer: Timer


class Requests:
    """A pair of links with one node, and the requests on it; see the module.

    :param timeout: for each request, seconds
    :param retry: schedule of the waits before the links are attached again; None: they never are
    :param on_room: called when there may be room for another request
    :param on_detached: called, if there is no ``retry``, when the peer has detached a link
    """

    def __init__(
        self,
        scheduler: Scheduler,
        host: str,
        node: RequestNode,
        timeout: float,
        retry: Retry | None = None,
        on_room: Callable[[], object] = bool,
        on_detached: Callable[[exceptions.AmqpError], object] = bool,
    ) -> None:
        self._scheduler = scheduler
        self._host = host
        self._node = node
        self._timeout = timeout
        self._retry = self._fresh = retry
        self._on_room = on_room
        self._on_detached = on_detached
        #: opens the links; None before the first attach, and after the loss of the connection
        self._open: Callable[[], None] | None = None
        self._sender: EngineSender | None = None
        self._receiver: EngineReceiver | None = None
        self._listening = False
        self._reply_to = ""
        self._ids = 0
        self._timer: Timer | None = None
        self._queue: OrderedDict[str, _Pending] = OrderedDict()
        self._in_flight: dict[str, _Pending] = {}
        self._keys: dict[Any, str] = {}

    def attach(self, engine: Engine, session: Callable[[], EngineSession]) -> None:
        """Open the two links on a physical connection.

        :param session: returns the session in which to open them
        """
        self._open = partial(self._open_links, engine, session)
        self._open()

    def ask(self, encode: Encode, done: Done) -> None:
        """Send a request as soon as the links are attached and there is room for it.

        :param encode: encodes the request
        :param done: called once, with the response or the error
        """
        self._ids += 1
        request = f"request-{self._ids}"
        timer = self._scheduler.call_later(self._timeout, partial(self._late, request))
        self._queue[request] = _Pending(encode, done, timer)
        self._send()

    @property
    def attached(self) -> bool:
        """Return whether both links are attached."""
        return self._listening and self._sender is not None and bool(self._sender.active)

    @property
    def may_send(self) -> bool:
        """Return whether a request can go out at once."""
        return self.attached and self._sender is not None and self._sender.may_send

    @property
    def window_closed(self) -> bool:
        """See :attr:`EngineSender.window_closed`."""
        return self._sender is not None and self._sender.window_closed

    def lost(self, cause: BaseException) -> None:
        """Fail all requests: the connection is lost, and both links with it."""
        self._sender = self._receiver = self._open = None
        self._stop()
        self._fail_all(self._error(f"the connection was lost ({cause})"))

    # -- called by the links ---------------------------------------------------

    def link_attached(self) -> None:
        receiver = self._receiver
        if receiver is not None and receiver.active and not self._listening:
            receiver.grant(_CREDIT)
            self._listening = True
        self.link_credit()

    @property
    def waits(self) -> bool:
        return bool(self._queue)

    def link_credit(self) -> None:
        self._send()
        self._on_room()

    def link_outcome(self, key: Any, disposition: Disposition) -> None:
        request = self._keys.pop(key, None)
        if disposition.outcome is Outcome.ACCEPTED or request is None:
            return
        reason = disposition.description or disposition.condition or ""
        text = f"the request came back {disposition.outcome.value}: {reason}"
        self._end(request, self._error(text, disposition.condition))

    def link_delivery(self, key: int, data: bytes, settled: bool) -> None:
        if self._receiver is not None:
            self._receiver.settle(key, Outcome.ACCEPTED)
            self._receiver.grant(1)
        self._retry = self._fresh
        try:
            message = codec.decode_message(data)
        except exceptions.DecodeError as error:
            if self._node.pair:
                LOG.error("Undecodable management response from %s: %s", self._host, error)
            else:
                LOG.error(
                    "Undecodable response of %s at %s: %s", self._node.address, self._host, error
                )
            return
        self._end(str(message.correlation_id), self._node.parse(message))

    def link_detached(self, name: str | None, description: str | None) -> None:
        error = exceptions.from_condition(
            name,
            description,
            default=exceptions.LinkFailed,
            host=self._host,
            address=self._node.address,
        )
        self._stop()
        if self._retry is None:
            self._on_detached(error)
            return
        delay = self._retry.delay(self._scheduler.rng)
        self._retry = self._retry.spent()
        LOG.warning(
            "Links to %s at %s were detached by the peer: %s; again in %.1f s",
            self._node.address,
            self._host,
            error,
            delay,
        )
        self._fail_all(error)
        self._timer = self._scheduler.call_later(delay, self._again)

    # -- inner -----------------------------------------------------------------

    def _open_links(self, engine: Engine, session: Callable[[], EngineSession]) -> None:
        """Attach both links, under a name that is unique unless the node wants another.

        The address for responses is unique among all clients and hard to guess, so that no other
        client can direct a response here (Azure's "AMQP 1.0 protocol guide", request/response).
        """
        node, on = self._node, session()
        unique = f"request.{node.address}.{secrets.token_hex(16)}"
        into, out = (_PAIR, _PAIR) if node.pair else (f"{unique}.in", f"{unique}.out")
        self._reply_to = back = _PAIR_REPLY_TO if node.pair else unique
        self._receiver = engine.receiver(
            on, into, node.address, self, settled=node.pair, target=back, paired=node.paired
        )
        self._sender = engine.sender(
            on, out, node.address, self, settled=node.pair, source=back, paired=node.paired
        )

    def _send(self) -> None:
        while self._queue and self.may_send:
            assert self._sender is not None
            request, asked = self._queue.popitem(last=False)
            self._in_flight[request] = asked
            data = asked.encode(message_id=request, reply_to=self._reply_to)
            key = self._sender.transfer(data, len(data), self._node.pair)
            if not self._node.pair:
                self._keys[key] = request

    def _again(self) -> None:
        self._timer = None
        if self._open is not None:
            self._open()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        links, self._sender, self._receiver = (self._sender, self._receiver), None, None
        for link in links:
            if link is not None:
                link.release()
        self._listening = False
        self._keys.clear()

    def _late(self, request: str) -> None:
        self._end(request, self._error(f"no answer within {self._timeout:g} s"))

    def _error(self, text: str, condition: str | None = None) -> exceptions.LinkFailed:
        return exceptions.LinkFailed(
            text, host=self._host, address=self._node.address, condition=condition
        )

    def _end(self, request: str, result: Answer) -> None:
        asked = self._in_flight.pop(request, None) or self._queue.pop(request, None)
        if asked is not None:
            asked.timer.cancel()
            asked.done(result)

    def _fail_all(self, error: exceptions.AmqpError) -> None:
        for request in [*self._in_flight, *self._queue]:
            self._end(request, error)
