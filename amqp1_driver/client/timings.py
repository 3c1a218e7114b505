# SPDX-License-Identifier: Apache-2.0

"""Operations that record the times of their progress, for telemetry.

With telemetry on, they replace the classes of ``operation``, which therefore need no checks for
telemetry.  Each operation holds a :class:`Timings`; :func:`message` makes the event from it when
the operation has ended.  An application thread creates an operation, which then lives on the I/O
thread.
"""

from collections.abc import Callable
from typing import Any

from amqp1_driver import exceptions
from amqp1_driver.connection.operation import Kind, Operation, Place, Reply, Request, Stage
from amqp1_driver.telemetry import events
from amqp1_driver.telemetry.observer import Observer, name_of

_SENT, _ACCEPTED, _DONE = Stage.SENT, Stage.ACCEPTED, Stage.DONE

_OPERATIONS = {
    Kind.CALL: events.CALL,
    Kind.CAST: events.CAST,
    Kind.NOTIFY: events.NOTIFICATION,
    Kind.REPLY: events.ANSWER,
    Kind.HEARTBEAT: events.HEARTBEAT,
}
_STAGES = {
    _SENT: events.ACKNOWLEDGEMENT,
    _ACCEPTED: events.AT_REPLY,
    Stage.RETURNED: events.AT_REPLY,
}
_PLACES = {
    Place.CONNECTION: events.AT_CONNECTION,
    Place.NODE: events.AT_LINK,
    Place.LINK: events.AT_LINK,
    Place.CREDIT: events.CREDIT,
    Place.RETRY: events.CREDIT,
}
#: errors for the outcomes that a peer may choose (3.4), and the names of those outcomes
PEER_OUTCOMES: tuple[tuple[type[exceptions.AmqpError], str], ...] = (
    (exceptions.DeliveryRejected, events.REJECTED),
    (exceptions.DeliveryReleased, events.RELEASED),
    (exceptions.DeliveryModified, events.MODIFIED),
)


class Timings:
    """The times of one operation, seconds of the loop's clock; None: not reached yet.

    :ivar made: the application handed it to the driver
    :ivar taken: the I/O thread received it
    :ivar went: the message was last put on the wire
    :ivar judged: the bus reported the outcome
    :ivar answered: the reply arrived
    :ivar at: its present stage (not a time)
    :ivar stood: where it was when it failed (not a time), see ``events.STAGES``; None: not failed
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


class _Timed(Operation):
    """A base class with the code that records times, for timed requests and timed replies.

    It must be their first base class, so that its methods override those of the other one.
    """

    timings: Timings

    @property
    def stage(self) -> Stage:
        return self.timings.at

    @stage.setter
    def stage(self, value: Stage) -> None:
        timings = self.timings
        timings.at = value
        if value is _SENT:
            timings.went = timings.now()

    def judged(self) -> None:
        """Record the time of the outcome; a message that was sent settled has none."""
        if not self.settled:
            self.timings.judged = self.timings.now()

    def fail(self, error: BaseException) -> None:
        timings = self.timings
        if timings.stood is None:
            if isinstance(error, tuple(kind for kind, _ in PEER_OUTCOMES)):
                timings.judged = timings.now()
            timings.stood = current_stage(self)
        super().fail(error)


class TimedRequest(_Timed, Request):
    """A request that the calling thread reports, since only that thread knows when it resumes."""

    def __init__(self, observer: Observer, *args: Any, **keywords: Any) -> None:
        self.timings = Timings(observer.now)
        super().__init__(*args, **keywords)

    def accepted(self) -> None:
        self.judged()
        super().accepted()

    def complete(self, value: Any = None) -> None:
        if self.kind is Kind.CALL and not self.finished:
            self.timings.answered = self.timings.now()
        super().complete(value)

    def fail(self, error: BaseException) -> None:
        super().fail(error)

    abort = fail


class TimedReply(_Timed, Reply):
    """A reply, for which no thread waits: it reports itself when it ends.

    :param host: returns host:port of the bus at present
    """

    def __init__(
        self, observer: Observer, host: Callable[[], str], *args: Any, **keywords: Any
    ) -> None:
        self.timings = Timings(observer.now)
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


Timed = TimedRequest | TimedReply


def current_stage(op: Operation) -> str | None:
    """Return where an operation is at present, see ``events.STAGES``; None: it is done."""
    stage, queue = op.stage, op.queue
    if stage is not Stage.QUEUED:
        return _STAGES.get(stage)
    if isinstance(op, (TimedRequest, TimedReply)) and op.timings.taken is None:
        return events.HANDOVER
    return events.AT_CONNECTION if queue is None else _PLACES[queue.place]


def message(
    op: Timed, observer: Observer, host: Callable[[], str], error: BaseException | None
) -> events.Message:
    """Return the event of an operation that has ended.

    :param host: returns host:port of the bus at present
    :param error: as the caller saw it; None: the operation succeeded
    """
    timings, now = op.timings, observer.now()
    stood = None
    if error is not None:
        # The I/O thread may fail the operation at this moment.  It sets ``stood`` before the stage
        # becomes DONE: read the stage first, so that one of the two is always known.
        stood = current_stage(op)
        stood = timings.stood or stood or events.AT_REPLY
    return events.Message(
        observer.origin,
        observer.wall_clock(),
        events.REPLY if isinstance(op, Reply) else events.SEND,
        _host(error) or host(),
        op.where,
        _operation(op),
        op.message_id,
        outcome(op, error),
        name_of(error),
        stood,
        _between(timings.made, timings.taken),
        _between(timings.taken, timings.went),
        _between(timings.went, timings.judged),
        _between(timings.went, timings.answered),
        now - timings.made,
        len(op.body),
    )


def _host(error: BaseException | None) -> str | None:
    """Return the host that the error names; None if it names none, or all hosts.

    An error names all hosts when there was no connection.
    """
    found = getattr(error, "host", None)
    return None if found is None or "," in found else str(found)


def _operation(op: Operation) -> str:
    if op.kind is Kind.CAST and isinstance(op, Request) and op.destination.fanout:
        return events.FANOUT
    return _OPERATIONS[op.kind]


def outcome(op: Timed, error: BaseException | None) -> str:
    """Return the outcome of a message, as ``events.Record`` defines it."""
    if error is None:
        return events.NONE if op.settled and op.kind is not Kind.CALL else events.ACCEPTED
    for kind, name in PEER_OUTCOMES:
        if isinstance(error, kind):
            return name
    if isinstance(error, exceptions.DeadlineExpired):
        return events.TIMEOUT
    in_doubt = isinstance(error, exceptions.InDoubt) or op.timings.went is not None
    return events.UNKNOWN if in_doubt else events.NONE


def _between(start: float | None, end: float | None) -> float | None:
    return end - start if start is not None and end is not None and end >= start else None
