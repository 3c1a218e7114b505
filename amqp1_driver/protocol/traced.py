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

"""Operations that note when what happened to them.

They stand in for those of ``operation`` where somebody observes, so that the others need not ask.
Each holds a :class:`Trace`; the message that is told of it is made when the operation has ended.
Lives where operations do: made by an application thread, then on the I/O thread.
"""

from collections.abc import Callable
from typing import Any

from amqp1_driver import exceptions
from amqp1_driver.protocol.operation import Kind, Operation, Reply, Request, Stage
from amqp1_driver.protocol.sender import Sender
from amqp1_driver.protocol.waiting import WaitingRoom
from amqp1_driver.telemetry import events
from amqp1_driver.telemetry.observer import Observer, name_of

_SENT, _ACCEPTED, _DONE = Stage.SENT, Stage.ACCEPTED, Stage.DONE

_OPERATIONS = {Kind.CALL: events.CALL, Kind.CAST: events.CAST, Kind.NOTIFY: events.NOTIFICATION,
               Kind.REPLY: events.ANSWER, Kind.HEARTBEAT: events.HEARTBEAT}
_STAGES = {_SENT: events.ACKNOWLEDGEMENT, _ACCEPTED: events.AT_REPLY}
#: outcomes that the peer gives (3.4)
_GIVEN: tuple[tuple[type[exceptions.AmqpError], str], ...] = (
    (exceptions.DeliveryRejected, events.REJECTED),
    (exceptions.DeliveryReleased, events.RELEASED),
    (exceptions.DeliveryModified, events.MODIFIED),
)


class Trace:
    """Times of one operation, seconds of the loop's clock; None: has not happened.

    :ivar made: handed to the driver
    :ivar taken: the I/O thread had it
    :ivar went: last put on the wire
    :ivar judged: the bus told the outcome
    :ivar answered: the reply had come
    :ivar at: where it is just now
    :ivar stood: where it stood when it failed, see ``events.STAGES``
    """

    __slots__ = ("answered", "at", "judged", "made", "now", "stood", "taken", "went")

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.made = now()
        self.at = Stage.QUEUED
        self.taken: float | None = None
        self.went: float | None = None
        self.judged: float | None = None
        self.answered: float | None = None
        self.stood: str | None = None


class _Traced(Operation):
    """What requests and replies note alike; to be inherited before those."""

    __slots__ = ()

    trace: Trace

    @property
    def stage(self) -> Stage:
        return self.trace.at

    @stage.setter
    def stage(self, value: Stage) -> None:
        trace = self.trace
        trace.at = value
        if value is _SENT:
            trace.went = trace.now()

    def judged(self) -> None:
        """The bus has taken it."""
        if not self.settled:
            self.trace.judged = self.trace.now()

    def fail(self, error: BaseException) -> None:
        trace = self.trace
        if trace.stood is None:
            if isinstance(error, tuple(kind for kind, _ in _GIVEN)):
                trace.judged = trace.now()
            trace.stood = standing(self)
        super().fail(error)


class TracedRequest(_Traced, Request):
    """A request whose caller tells of it: it knows when it goes on."""

    __slots__ = ("trace",)

    def __init__(self, observer: Observer, *args: Any, **keywords: Any) -> None:
        self.trace = Trace(observer.now)
        super().__init__(*args, **keywords)

    def accepted(self) -> None:
        self.judged()
        super().accepted()

    def complete(self, value: Any = None) -> None:
        if self.kind is Kind.CALL and not self.finished:
            self.trace.answered = self.trace.now()
        super().complete(value)

    def fail(self, error: BaseException) -> None:
        super().fail(error)

    abort = fail


class TracedReply(_Traced, Reply):
    """A reply, which nobody waits for: it tells of itself when it ends.

    :param host: host:port of the bus just then
    """

    __slots__ = ("_host", "_observer", "_told", "trace")

    def __init__(self, observer: Observer, host: Callable[[], str], *args: Any,
                 **keywords: Any) -> None:
        self.trace = Trace(observer.now)
        self._observer = observer
        self._host = host
        self._told = False
        super().__init__(*args, **keywords)

    def accepted(self, value: Any = None) -> None:
        self.judged()
        self.complete()

    def complete(self, value: Any = None) -> None:
        super().complete(value)
        self._report(None)

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self._report(error)

    abort = fail

    def _report(self, error: BaseException | None) -> None:
        if not self._told:
            self._told = True
            self._observer.tell(message, self, self._observer, self._host, error)


Traced = TracedRequest | TracedReply


def standing(op: Operation) -> str | None:
    """Where an operation is just now, see ``events.STAGES``; None: it is done."""
    stage, owner = op.stage, op.owner
    if stage is not Stage.QUEUED:
        return _STAGES.get(stage)
    if isinstance(op, (TracedRequest, TracedReply)) and op.trace.taken is None:
        return events.HANDOVER
    if owner is None or isinstance(owner, WaitingRoom):
        return events.AT_CONNECTION
    if isinstance(owner, Sender) and owner.attached:
        return events.CREDIT
    return events.AT_LINK


def message(op: Traced, observer: Observer, host: Callable[[], str],
            error: BaseException | None) -> events.Message:
    """The event of an operation that has ended.

    :param host: host:port of the bus just then
    :param error: as who waited for it saw it
    """
    trace, now = op.trace, observer.now()
    stood = None
    if error is not None:
        # the I/O thread may be at it just now: it notes where it stood before it says done
        stood = standing(op)
        stood = trace.stood or stood or events.AT_REPLY
    return events.Message(
        observer.origin, observer.wall_clock(),
        events.REPLY if isinstance(op, Reply) else events.SEND,
        _host(error) or host(), op.where, _operation(op), op.message_id,
        outcome(op, error), name_of(error), stood, _between(trace.made, trace.taken),
        _between(trace.taken, trace.went), _between(trace.went, trace.judged),
        _between(trace.went, trace.answered), now - trace.made, len(op.body))


def _host(error: BaseException | None) -> str | None:
    """Where it happened, if the error knows; one of no connection names all hosts."""
    found = getattr(error, "host", None)
    return None if found is None or "," in found else str(found)


def _operation(op: Operation) -> str:
    if op.kind is Kind.CAST and isinstance(op, Request) and op.destination.fanout:
        return events.FANOUT
    return _OPERATIONS[op.kind]


def outcome(op: Traced, error: BaseException | None) -> str:
    """See ``events.Record``."""
    if error is None:
        return events.NONE if op.settled and op.kind is not Kind.CALL else events.ACCEPTED
    for kind, name in _GIVEN:
        if isinstance(error, kind):
            return name
    if isinstance(error, exceptions.DeadlineExpired):
        return events.TIMEOUT
    in_doubt = isinstance(error, exceptions.InDoubt) or op.trace.went is not None
    return events.UNKNOWN if in_doubt else events.NONE


def _between(start: float | None, end: float | None) -> float | None:
    return end - start if start is not None and end is not None and end >= start else None
