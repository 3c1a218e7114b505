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

"""Messages on their way out.

An operation is made by an application thread and handed to the I/O thread,
which owns it from then on; only ``future`` is used by both.  Where it stands
is told by ``stage``, which the waiting application thread reads for its error
message.
"""

import enum
import logging
from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Destination
from amqp1_driver.addressing.peer import ReplyKind
from amqp1_driver.addressing.servicebus import split_reply
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.context import BusContext

LOG = logging.getLogger(__name__)


class Stage(enum.Enum):
    """How far a message has come; the value is used in error messages."""

    QUEUED = "connection or credit"
    SENT = "acknowledgement"
    ACCEPTED = "reply"
    DONE = "nothing"


_DONE = Stage.DONE


class Kind(enum.Enum):
    """The values are those of the option ``pre_settled``."""

    CALL = "rpc-call"
    CAST = "rpc-cast"
    REPLY = "rpc-reply"
    NOTIFY = "notify"
    HEARTBEAT = "heartbeat"


class Completion(Protocol):
    """The part of a future that the I/O thread uses."""

    def set_result(self, value: Any) -> bool: ...
    def set_exception(self, error: BaseException) -> bool: ...


class Owner(Protocol):
    """Whoever holds an operation that is not finished."""

    def cancel(self, op: "Operation") -> None: ...


class Operation:
    """One message with all that is needed to send it, again if need be.

    :param kind: what it is for
    :param message_id: unique; named in errors
    :param body: payload, encoded
    :param deadline: when the sender gives up
    :param retry: how often sending may be tried again
    :param future: completed exactly once
    """

    __slots__ = ("address", "attempts", "body", "data", "deadline", "future", "generation",
                 "gzip", "kind", "message_id", "owner", "retry", "settled", "stage")

    def __init__(self, kind: Kind, message_id: str, body: bytes, deadline: Deadline,
                 retry: Retry, future: Completion | None, *, settled: bool = False,
                 gzip: bool = False) -> None:
        self.kind = kind
        self.message_id = message_id
        self.body = body
        self.deadline = deadline
        self.retry = retry
        self.future = future
        self.settled = settled
        self.gzip = gzip
        self.stage = Stage.QUEUED
        self.owner: Owner | None = None
        self.address: str | None = None
        self.data: codec.Encoded = b""
        self.generation = -1
        #: how often it was put on the wire
        self.attempts = 0

    def bind(self, context: BusContext, now: float) -> None:
        """Resolve the address and encode for the connection as it is now."""
        raise NotImplementedError

    def complete(self, value: Any = None) -> None:
        self.stage = Stage.DONE
        self.owner = None
        if self.future is not None:
            self.future.set_result(value)

    def fail(self, error: BaseException) -> None:
        self.stage = Stage.DONE
        self.owner = None
        if self.future is not None:
            if isinstance(error, exceptions.AmqpError):
                error = error.about(self.where, self.message_id)
            self.future.set_exception(error)

    #: the mailbox calls this when the loop is gone
    abort = fail

    #: for all who are there, be it nobody; or for somebody who must be there
    for_whoever = False
    mandatory = False

    @property
    def where(self) -> str | None:
        """Where it goes, for errors."""
        return self.address

    @property
    def finished(self) -> bool:
        return self.stage is _DONE

    def accepted(self) -> None:
        """The peer has taken the message (3.4.2)."""
        self.complete()


class Request(Operation):
    """A call, cast or notification: addressed by what oslo.messaging names."""

    __slots__ = ("destination", "durable", "heartbeat", "mandatory", "on_done", "redeclared", "ttl")

    def __init__(self, kind: Kind, destination: Destination, message_id: str, body: bytes,
                 deadline: Deadline, retry: Retry, future: Completion, *, settled: bool = False,
                 gzip: bool = False, ttl: bool = False, mandatory: bool = False) -> None:
        # as Operation's, in line: one is made for every message
        self.kind = kind
        self.message_id = message_id
        self.body = body
        self.deadline = deadline
        self.retry = retry
        self.future = future
        self.settled = settled
        self.gzip = gzip
        self.stage = Stage.QUEUED
        self.owner = None
        self.address = None
        self.data = b""
        self.generation = -1
        self.attempts = 0
        self.destination = destination
        self.ttl = ttl
        #: the sender wants to know at once when nobody is there to take it
        self.mandatory = mandatory
        #: sent again because its queue had gone
        self.redeclared = 0
        #: when the server last said that it is still at work, seconds of the loop's clock
        self.heartbeat: float | None = None
        #: called with the message-id when the call ends; removes the correlation
        self.on_done: Callable[[str], None] | None = None

    def bind(self, context: BusContext, now: float) -> None:
        wants_reply = self.kind is Kind.CALL
        address, template, _ = context.template(self.destination, wants_reply)
        self.address = address
        self.generation = context.generation
        ttl_ms = self.deadline.ttl_ms(now) if self.ttl else 0
        self.data = template.request(self.message_id, self.body, ttl_ms, self.gzip)

    @property
    def for_whoever(self) -> bool:  # type: ignore[override]  # a constant for the others
        return self.destination.fanout and self.kind is Kind.CAST and not self.mandatory

    @property
    def where(self) -> str | None:
        # without a connection there is no address as yet
        return self.address or self.destination.routing_key

    def accepted(self) -> None:
        if self.kind is Kind.CALL:
            self.stage = Stage.ACCEPTED
            self.owner = None
        else:
            self.complete()

    def complete(self, value: Any = None) -> None:
        if self.on_done is not None:
            self._end()
        self.stage = _DONE
        self.owner = None
        if self.future is not None:
            self.future.set_result(value)

    def fail(self, error: BaseException) -> None:
        self._end()
        super().fail(error)

    abort = fail

    def _end(self) -> None:
        if self.on_done is not None:
            self.on_done(self.message_id)
            self.on_done = None


class Parcel(Request):
    """A body that is ready, with what goes along; not in the words of oslo.messaging.

    :param content_type: of the body, or None
    :param properties: the application's (3.2.5)
    :param created_ms: when it was made, milliseconds since 1970
    """

    __slots__ = ("content_type", "created_ms", "properties")

    def __init__(self, destination: Destination, message_id: str, body: bytes,
                 deadline: Deadline, retry: Retry, future: Completion, *,
                 content_type: str | None, properties: dict[str, Any] | None,
                 created_ms: int | None = None) -> None:
        super().__init__(Kind.NOTIFY, destination, message_id, body, deadline, retry, future)
        self.content_type = content_type
        self.properties = properties
        self.created_ms = created_ms

    def bind(self, context: BusContext, now: float) -> None:
        address = self.address = context.node(self.destination).address
        self.generation = context.generation
        self.data = codec.encode_data(
            self.body, message_id=self.message_id, to=address, content_type=self.content_type,
            application_properties=self.properties, created_ms=self.created_ms,
            durable=context.profile.durable and self.kind.value in context.durable)


class Reply(Operation):
    """A reply or heartbeat to a caller: nobody waits for it, errors are logged.

    :param on_end: called once with the error or None
    """

    __slots__ = ("correlation_id", "gate", "on_end")

    def __init__(self, kind: Kind, address: str, correlation_id: bytes, message_id: str,
                 body: bytes, deadline: Deadline, retry: Retry, *, settled: bool = False,
                 gzip: bool = False,
                 on_end: Callable[["Reply", BaseException | None], None] | None = None) -> None:
        super().__init__(kind, message_id, body, deadline, retry, None, settled=settled,
                         gzip=gzip)
        self.address = address
        self.correlation_id = correlation_id
        self.on_end = on_end
        #: set when the replier waits because too many replies are under way
        self.gate: Completion | None = None

    def bind(self, context: BusContext, now: float) -> None:
        address = self.address or ""
        group: str | None = None
        if context.profile.reply is ReplyKind.SESSION:
            address, group = split_reply(address)
        if self.kind is Kind.HEARTBEAT:
            self.data = codec.encode_heartbeat(address, self.correlation_id,
                                               self.deadline.ttl_ms(now), group)
        else:
            self.data = codec.encode_reply(address, self.correlation_id, self.body,
                                           gzip=self.gzip, group=group)
        self.generation = context.generation

    def complete(self, value: Any = None) -> None:
        self.stage = _DONE
        self.owner = None
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(self, None)

    accepted = complete

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self._tell(error)

    abort = fail

    def _tell(self, error: BaseException | None) -> None:
        """Exactly once, and then the reference to the client is dropped."""
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(self, error)


def expired(op: Operation, host: str) -> exceptions.DeadlineExpired:
    """The error for an operation whose deadline has passed."""
    return exceptions.DeadlineExpired(stage=op.stage.value, host=host, address=op.address,
                                      message_id=op.message_id)
