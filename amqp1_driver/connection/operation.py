# SPDX-License-Identifier: Apache-2.0

"""Operations: outgoing messages, each with its deadline, its retries and its future.

An application thread makes an operation and hands it to the I/O thread, which owns it from then
on. Both threads use ``future``. The waiting application thread also reads ``stage`` and ``queue``,
for its error message.
"""

import enum
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Destination
from amqp1_driver.addressing.context import BusContext
from amqp1_driver.addressing.servicebus import split_reply
from amqp1_driver.policy.deadline import Deadline
from amqp1_driver.policy.retry import Retry

LOG = exceptions.logger(__name__)


class Stage(enum.Enum):
    """The event that a message waits for next; error messages quote the value."""

    QUEUED = "connection or credit"
    SENT = "acknowledgement"
    ACCEPTED = "reply"
    RETURNED = (
        "reply; the bus gave the message back: there is no queue of such a server, or it "
        "was deleted"
    )
    DONE = "nothing"


_DONE = Stage.DONE


class Kind(enum.Enum):
    """The kind of a message; the values are those of the option ``pre_settled``."""

    CALL = "rpc-call"
    CAST = "rpc-cast"
    REPLY = "rpc-reply"
    NOTIFY = "notify"
    HEARTBEAT = "heartbeat"


class Completion(Protocol):
    """The part of a future that the I/O thread uses."""

    def set_result(self, value: Any) -> bool:
        """Complete the future with a value; return whether it was open."""
        ...

    def set_exception(self, error: BaseException) -> bool:
        """Complete the future with an error; return whether it was open."""
        ...


class Link(Protocol):
    """The link on which an operation was sent."""

    def cancel(self, op: "Operation") -> None:
        """Forget a message that was sent: its caller has given up."""
        ...


class Place(enum.Enum):
    """The kind of event that the messages of a queue wait for, for telemetry."""

    #: a connection with a reply address
    CONNECTION = enum.auto()
    #: the declaration of a node, or a token for it
    NODE = enum.auto()
    #: the attach of a link
    LINK = enum.auto()
    #: credit of an attached link, or room in its session's window
    CREDIT = enum.auto()
    #: the end of the pause before the driver sends a message again that the peer did not accept
    RETRY = enum.auto()


class Queue:
    """Messages that wait for the same event, oldest first.

    :ivar place: kind of the event
    :ivar waits_for: the event in words, for errors; any thread may read it
    :ivar operations: the messages by ``id()``; change them only by the methods of :class:`Outbox`
    """

    __slots__ = ("operations", "place", "waits_for")

    def __init__(self, place: Place, waits_for: str) -> None:
        self.place = place
        self.waits_for = waits_for
        self.operations: OrderedDict[int, Operation] = OrderedDict()


class Payload(NamedTuple):
    """The part of a message that does not depend on where it goes.

    :ivar kind: the purpose of the message
    :ivar message_id: unique; named in errors
    :ivar body: payload, encoded
    :ivar settled: send the message settled, so that it has no outcome
    :ivar gzip: ``body`` is compressed
    """

    kind: Kind
    message_id: str
    body: bytes
    settled: bool = False
    gzip: bool = False


class Operation:
    """A message with all that the driver needs to send it, several times if necessary.

    A subclass sets the fields of a :class:`Payload`, ``deadline``, ``retry`` and ``future``.
    """

    kind: Kind
    message_id: str
    body: bytes
    settled: bool
    gzip: bool
    #: when the sender gives up
    deadline: Deadline
    #: the retries that are left
    retry: Retry
    #: completed exactly once; None: no thread waits
    future: Completion | None = None
    stage: Stage = Stage.QUEUED
    #: the queue of the outbox in which the message waits, or waited last
    queue: Queue | None = None
    #: the link that has sent the message, while the message waits for its outcome
    sender: Link | None = None
    address: str | None = None
    data: codec.Encoded = b""
    #: number of the reply address for which the message is encoded; -1: not encoded yet
    generation = -1
    #: how often the driver has sent the message
    attempts = 0
    #: best_effort: having no receivers is not an error (fanout). mandatory: fail if there is none.
    best_effort = False
    mandatory = False

    def bind(self, context: BusContext, now: float) -> None:
        """Resolve the address and encode the message for a connection and its reply address.

        The router calls this again when there is another reply address.

        :param now: seconds of the loop's clock
        """
        raise NotImplementedError

    def complete(self, value: Any = None) -> None:
        """Complete the future with a value."""
        self.stage = Stage.DONE
        if self.future is not None:
            self.future.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Fail the future with an error, which names the address and the message."""
        self.stage = Stage.DONE
        if self.future is not None:
            if isinstance(error, exceptions.AmqpError):
                error = error.for_message(self.where, self.message_id)
            self.future.set_exception(error)

    #: the mailbox calls this if the loop ends before it runs the operation, or while it does so
    abort = fail

    @property
    def where(self) -> str | None:
        """Return the address or the target, for errors; None: unknown."""
        return self.address

    @property
    def finished(self) -> bool:
        """Return whether the operation has completed or failed."""
        return self.stage is _DONE

    def accepted(self) -> None:
        """Complete the operation: the peer has accepted the message (3.4.2)."""
        self.complete()


class Request(Operation):
    """A call, cast or notification, addressed by a target of oslo.messaging.

    :param deadline: when the caller gives up
    :param retry: the retries that are left
    :param future: completed exactly once
    :param ttl: whether the message expires at its deadline
    :param mandatory: fail at once if there is no receiver, where the bus can tell
    """

    #: time of the last heartbeat of the server, seconds of the loop's clock; None: none yet
    heartbeat: float | None = None
    #: called with the message-id when the call ends; removes the call from the waiting ones
    on_done: Callable[[str], None] | None = None

    def __init__(
        self,
        payload: Payload,
        destination: Destination,
        deadline: Deadline,
        retry: Retry,
        future: Completion,
        *,
        ttl: bool = False,
        mandatory: bool = False,
    ) -> None:
        self.kind, self.message_id, self.body, self.settled, self.gzip = payload
        self.destination = destination
        self.deadline = deadline
        self.retry = retry
        self.future = future
        self.ttl = ttl
        self.mandatory = mandatory

    def bind(self, context: BusContext, now: float) -> None:
        """Resolve the address and encode the message; see :meth:`Operation.bind`."""
        wants_reply = self.kind is Kind.CALL
        address, template, _ = context.template(self.destination, wants_reply)
        self.address = address
        self.generation = context.generation
        ttl_ms = self.deadline.ttl_ms(now) if self.ttl else 0
        self.data = template.request(self.message_id, self.body, ttl_ms, self.gzip)

    @property
    def best_effort(self) -> bool:  # type: ignore[override]  # a constant in other classes
        """Return whether having no receivers is not an error, as for a fanout cast."""
        return self.destination.fanout and self.kind is Kind.CAST and not self.mandatory

    @property
    def where(self) -> str | None:
        """Return the address or the routing key, for errors."""
        # there is no address before the first connection
        return self.address or self.destination.routing_key

    def accepted(self) -> None:
        """Let a call wait for its reply; complete any other request."""
        if self.kind is Kind.CALL:
            self.stage = Stage.ACCEPTED
            self.sender = None
        else:
            self.complete()

    def complete(self, value: Any = None) -> None:
        """End the correlation, and complete the future with a value."""
        if self.on_done is not None:
            self._end()
        self.stage = _DONE
        if self.future is not None:
            self.future.set_result(value)

    def fail(self, error: BaseException) -> None:
        """End the correlation, and fail the future with an error."""
        self._end()
        super().fail(error)

    abort = fail

    def _end(self) -> None:
        if self.on_done is not None:
            self.on_done(self.message_id)
            self.on_done = None


class Properties(NamedTuple):
    """The properties of a message with a given body (3.2.4, 3.2.5).

    :ivar content_type: of the body, or None
    :ivar application: application-properties, or None
    :ivar created_ms: creation-time, milliseconds since 1970; None: none
    """

    content_type: str | None = None
    application: dict[str, Any] | None = None
    created_ms: int | None = None


class RawMessage(Request):
    """A message with a given body, without the envelope of oslo.messaging."""

    def __init__(
        self,
        payload: Payload,
        destination: Destination,
        deadline: Deadline,
        retry: Retry,
        future: Completion,
        properties: Properties,
    ) -> None:
        super().__init__(payload, destination, deadline, retry, future)
        self.properties = properties

    def bind(self, context: BusContext, now: float) -> None:
        """Resolve the address and encode the message; see :meth:`Operation.bind`."""
        address = self.address = context.node(self.destination).address
        self.generation = context.generation
        self.data = codec.encode_data(
            self.body,
            message_id=self.message_id,
            to=address,
            content_type=self.properties.content_type,
            application_properties=self.properties.application,
            created_ms=self.properties.created_ms,
            durable=context.profile.durable and self.kind.value in context.durable,
        )


class Reply(Operation):
    """A reply or heartbeat to a caller, without a future: the replier logs errors.

    :param on_end: called once with this reply and the error, or None
    """

    #: completed at the end of the reply; set while a thread waits for that, because too many
    #: replies are under way
    gate: Completion | None = None

    def __init__(
        self,
        payload: Payload,
        address: str,
        correlation_id: bytes,
        deadline: Deadline,
        retry: Retry,
        on_end: Callable[["Reply", BaseException | None], None] | None = None,
    ) -> None:
        self.kind, self.message_id, self.body, self.settled, self.gzip = payload
        self.deadline = deadline
        self.retry = retry
        self.address = address
        self.correlation_id = correlation_id
        self.on_end = on_end

    def bind(self, context: BusContext, now: float) -> None:
        """Encode the reply for its address; see :meth:`Operation.bind`."""
        address = self.address or ""
        group: str | None = None
        if context.profile.reply.in_session:
            address, group = split_reply(address)
        if self.kind is Kind.HEARTBEAT:
            self.data = codec.encode_heartbeat(
                address, self.correlation_id, self.deadline.ttl_ms(now), group
            )
        else:
            self.data = codec.encode_reply(
                address, self.correlation_id, self.body, gzip=self.gzip, group=group
            )
        self.generation = context.generation

    def complete(self, value: Any = None) -> None:
        """Finish the reply without an error."""
        self.stage = _DONE
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(self, None)

    accepted = complete

    def fail(self, error: BaseException) -> None:
        """Finish the reply with an error."""
        super().fail(error)
        self._tell(error)

    abort = fail

    def _tell(self, error: BaseException | None) -> None:
        """Call ``on_end``, unless it was called before, and drop the reference to it."""
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(self, error)


def expired(op: Operation, host: str) -> exceptions.DeadlineExpired:
    """Return the error for an operation whose deadline has passed."""
    return exceptions.DeadlineExpired(
        stage=op.stage.value, host=host, address=op.address, message_id=op.message_id
    )
