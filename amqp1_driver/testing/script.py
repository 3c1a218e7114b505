# SPDX-License-Identifier: Apache-2.0
"""The script of a peer: steps in order, rules for single deviations, a log, and waits."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from amqp1_driver.testing import reactions
from amqp1_driver.testing.core import (
    DERIVED,
    Defaults,
    Disconnect,
    Event,
    Heartbeat,
    LogEntry,
    PeerCore,
    PeerFailure,
    ReceivedTransfer,
    SentTransfer,
    Session,
    must,
)
from amqp1_driver.wire import performatives as p
from amqp1_driver.wire.frames import Header

_OPTIONAL = (p.Flow, Heartbeat, Disconnect)  # never a failure, even if no step expects them
T = TypeVar("T")
OnCore = Callable[[PeerCore], object]


def always(core: PeerCore) -> bool:
    """Return True: an action can run on this connection."""
    return True


class Verbs:
    """Actions on a connection that a test asks of the peer, at a step of the script or at once."""

    def _act(self, what: str, run: OnCore, ready: OnCore = always) -> Self:
        """Run an action when its turn comes.

        :param what: name of the action in failures
        :param run: the action itself
        :param ready: an action of the peer waits until this is true
        """
        raise NotImplementedError

    def send(self, performative: Any, payload: bytes = b"", channel: int = 0) -> Self:
        """Send a frame unchanged."""
        return self._act("send", lambda core: core.send(performative, channel, payload))

    def raw(self, data: bytes) -> Self:
        """Send bytes unchanged."""
        return self._act("raw", lambda core: core.raw(data))

    def close(self, condition: str | None = None, description: str | None = None) -> Self:
        """Close the connection with an AMQP close."""
        frame = p.Close(error=reactions.error(condition, description))
        return self._act("close", lambda core: core.send(frame), lambda core: core.remote_open)

    def drop(self) -> Self:
        """Reset the TCP connection."""
        return self._act("drop", PeerCore.drop)

    def silence(self) -> Self:
        """Neither answer nor read on this connection from here on; TCP stays up."""
        return self._act("silence", lambda core: setattr(core, "silent", True))


@dataclass(frozen=True)
class Action:
    """A step that the peer takes itself once ``ready`` returns true; ``what`` names the step."""

    what: str
    ready: OnCore
    run: OnCore

    def __str__(self) -> str:
        return self.what


class Step(Verbs):
    """A step that waits for one frame and reacts to it.

    Each method such as :meth:`respond` or :meth:`drop` adds a reaction; the reactions run in the
    order of the calls. Without a reaction the peer sends no answer. A reaction that is added after
    the arrival of the frame runs at once. A reaction to a link, a session or a delivery fails the
    script if the frame has none.
    """

    def __init__(
        self, script: Script, kind: type, match: dict[str, Any], times: int | None = None
    ) -> None:
        known = set(kind.field_names()) if issubclass(kind, p.Composite) else {"protocol"}
        if unknown := set(match) - known - DERIVED:
            raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
        self.kind = kind
        self.match = match
        self.times = times  # number of uses left of a rule; None: no limit
        self._script = script
        self._reactions: list[Callable[[Event], object]] = []
        self._ran: list[Event] = []

    def mismatch(self, event: Event) -> str | None:
        """Return why an event of the right kind does not match; None if it matches."""
        for name, wanted in self.match.items():
            found = event.lookup(name)
            if name == "role" and isinstance(wanted, bool):
                wanted = "receiver" if wanted else "sender"
            if not (wanted(found) if callable(wanted) else wanted == found):
                return f"{self.kind.__name__}.{name} is {found!r}, expected {wanted!r}"
        return None

    def run(self, event: Event) -> None:
        """Run the reactions to an event."""
        self._ran.append(event)
        for reaction in self._reactions:
            reaction(event)

    def call(self, reaction: Callable[[Event], object]) -> Self:
        """Add a reaction: a function of the Event, whose exceptions fail the script."""
        with self._script.changed:
            self._reactions.append(reaction)
            for event in self._ran:  # frames that came before the reaction, so there is no race
                self._script.guard(reaction, event)
        self._script.wake()
        return self

    def _act(self, what: str, run: OnCore, ready: OnCore = always) -> Self:
        """Add a reaction to the connection of the frame."""
        return self.call(lambda event: run(event.core))

    def respond(self, **overrides: Any) -> Self:
        """Send the regular answer, with other values for fields of the answering frame.

        open: also product, version, properties; attach: also credit (granted and topped up) and
        address (the dynamic one); SASL header: mechanisms; sasl-init: outcome.
        """
        return self.call(lambda event: reactions.respond(event, **overrides))

    def finish(self) -> Self:
        """Close the TCP connection in order, without an AMQP close."""
        return self.call(lambda event: event.core.finish())

    def end_session(self, condition: str | None = None, description: str | None = None) -> Self:
        """End the session of the frame."""
        return self.call(lambda event: reactions.end(must(event.session), condition, description))

    def detach(
        self,
        condition: str | None = None,
        description: str | None = None,
        *,
        closed: bool = True,
    ) -> Self:
        """Detach the link of the frame."""
        return self.call(
            lambda event: reactions.detach(must(event.link), condition, description, closed=closed)
        )

    def refuse(self, condition: str, description: str | None = None) -> Self:
        """Refuse the link: attach with a null terminus, then detach with the error (2.6.3)."""
        return self.call(lambda event: reactions.refuse(event, condition, description))

    def grant(self, credit: int) -> Self:
        """Grant the client's sender exactly this credit, without topping it up."""
        return self.call(lambda event: reactions.grant(must(event.link), credit, window=0))

    def settle(self, state: Any, *, settled: bool = True) -> Self:
        """Send ``state`` as the outcome of the delivery."""
        return self.call(
            lambda event: reactions.settle(must(event.transfer), state, settled=settled)
        )

    def accept(self) -> Self:
        """Settle the delivery as ACCEPTED."""
        return self.settle(p.Accepted())

    def reject(self, condition: str | None = None, description: str | None = None) -> Self:
        """Settle the delivery as REJECTED."""
        return self.settle(p.Rejected(error=reactions.error(condition, description)))

    def release(self) -> Self:
        """Settle the delivery as RELEASED."""
        return self.settle(p.Released())

    def modify(self, failed: bool | None = None, undeliverable: bool | None = None) -> Self:
        """Settle the delivery as MODIFIED."""
        return self.settle(p.Modified(delivery_failed=failed, undeliverable_here=undeliverable))

    def hold(self) -> Self:
        """Send no outcome now; the test sends the outcome later with ``settle`` of the peer."""
        return self

    def __str__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.match.items())
        return f"{self.kind.__name__}({fields})"


class Script:
    """The script of a peer, shared by all its connections.

    The first step handles an event if the event fits. Otherwise the newest rule that fits handles
    it. Otherwise the peer sends the regular answer (auto mode) or fails (scripted mode).

    Any thread may use the methods. ``changed`` is the only lock; every change notifies it.
    """

    def __init__(self, auto: bool, defaults: Defaults) -> None:
        self.auto = auto
        self.defaults = defaults
        self.changed = threading.Condition(threading.RLock())
        self.steps: deque[Step | Action] = deque()
        self.rules: list[Step] = []
        self.log: list[LogEntry] = []
        self.transfers: list[ReceivedTransfer] = []
        self.sent: list[SentTransfer] = []
        self.cores: list[PeerCore] = []
        self.failure: PeerFailure | None = None
        self.addresses = (f"{defaults.dynamic_prefix}{number}" for number in itertools.count(1))
        self.wake: Callable[[], object] = lambda: None  # wakes the I/O thread for output

    def connect(self) -> PeerCore:
        """Create a new connection."""
        with self.changed:
            core = PeerCore(self, len(self.cores))
            self.cores.append(core)
            self.pump()
            return core

    @property
    def core(self) -> PeerCore | None:
        """Return the newest connection that is up, even if it is silent; None without one."""
        return next((c for c in reversed(self.cores) if not (c.lost or c.ending)), None)

    def add(self, step: Step | Action) -> None:
        """Append a step or an action to the script; run an action at once if no step is before."""
        with self.changed:
            self.steps.append(step)
            self.pump()
        self.wake()

    def pump(self) -> None:
        """Run the actions that are due."""
        while self.steps and isinstance(action := self.steps[0], Action):
            core = self.core
            if core is None or self.failure or not action.ready(core):
                break
            self.steps.popleft()
            self.guard(action.run, core)
        self.changed.notify_all()

    def dispatch(self, event: Event) -> None:
        """Let the matching step, rule or regular answer handle an event.

        :raises PeerFailure: the event is unexpected
        """
        if event.transfer is not None:
            self.transfers.append(event.transfer)
        head = self.steps[0] if self.steps else None
        why: str | None = None
        if isinstance(head, Step) and head.kind is event.kind:
            why = head.mismatch(event)
            if why is None:
                self.steps.popleft()
                return head.run(event)
        for rule in self.rules:
            if rule.kind is event.kind and rule.times != 0 and rule.mismatch(event) is None:
                rule.times = None if rule.times is None else rule.times - 1
                return rule.run(event)
        if self.auto:
            if event.kind not in (Heartbeat, Disconnect):
                reactions.respond(event)
        elif event.kind not in _OPTIONAL:
            raise PeerFailure(why or f"unexpected {event}; expected {head or 'nothing more'}")
        return None

    def guard(self, run: Callable[[T], object], argument: T) -> None:
        """Call ``run(argument)``; an exception fails the script and resets all connections."""
        try:
            run(argument)
        except Exception as exc:
            self.fail(exc)

    def fail(self, exc: BaseException) -> None:
        """Record the first failure and reset all connections."""
        if self.failure is None:
            self.failure = self._failure(str(exc))
            self.failure.__cause__ = exc
        for core in self.cores:
            core.drop()
        self.changed.notify_all()

    def _failure(self, text: str) -> PeerFailure:
        tail = "\n  ".join(map(str, self.log[-12:]))
        return PeerFailure(f"{text}\nlast frames:\n  {tail}")

    def received(self, session: Session, delivery_id: int) -> ReceivedTransfer | None:
        """Return the client's newest delivery with this delivery-id, None without one."""
        for transfer in reversed(self.transfers):
            if transfer.delivery_id == delivery_id and transfer.link.session is session:
                return transfer
        return None

    def wait_for(
        self, ready: Callable[[], Any], timeout: float, what: str | Callable[[], str]
    ) -> Any:
        """Wait until ``ready()`` is true and return its value.

        :param timeout: seconds
        :param what: text of the failure
        :raises PeerFailure: the wait timed out, or the script has failed
        """
        with self.changed:
            self.changed.wait_for(lambda: self.failure or ready(), timeout)
            if self.failure is not None:
                raise self.failure
            value = ready()
            if not value:
                text = what if isinstance(what, str) else what()
                raise self._failure(f"{text} after {timeout} s")
            return value


class Expectations:
    """The expectations of a script: one method per frame that a client sends.

    The arguments are fields of the frame by their names in the specification. Each is a value,
    compared for equality, or a predicate on the value. ``source`` and ``target`` are compared by
    their address. ``role`` is the client's, "sender" or "receiver". Derived fields: ``address`` (of
    the link; of the message on an anonymous link), ``link`` (name), ``body``, ``message``,
    ``dynamic``, ``condition``.
    """

    def __init__(self, script: Script) -> None:
        self.script = script

    def _expect(self, kind: type, match: dict[str, Any]) -> Step:
        step = Step(self.script, kind, match)
        self.script.add(step)
        return step

    def expect_header(self, protocol: int | None = None) -> Step:
        """Expect a protocol header: 0 AMQP, 3 SASL."""
        match = {} if protocol is None else {"protocol": protocol}
        return self._expect(Header, match)

    def expect_sasl_init(self, **match: Any) -> Step:
        """Expect a sasl-init, e.g. by mechanism, initial_response, hostname."""
        return self._expect(p.SaslInit, match)

    def expect_open(self, **match: Any) -> Step:
        """Expect an open, e.g. by container_id, hostname, idle_time_out."""
        return self._expect(p.Open, match)

    def expect_begin(self, **match: Any) -> Step:
        """Expect a begin, e.g. by remote_channel, incoming_window."""
        return self._expect(p.Begin, match)

    def expect_attach(self, **match: Any) -> Step:
        """Expect an attach, by name, role, source, target, address, dynamic, snd_settle_mode ..."""
        return self._expect(p.Attach, match)

    def expect_flow(self, **match: Any) -> Step:
        """Expect a flow, e.g. by link_credit, drain, address; skip a flow that does not fit."""
        return self._expect(p.Flow, match)

    def expect_transfer(self, **match: Any) -> Step:
        """Expect a whole delivery, e.g. by address, body, settled, delivery_tag."""
        return self._expect(p.Transfer, match)

    def expect_disposition(self, **match: Any) -> Step:
        """Expect a disposition by role, first, last, settled, state."""
        return self._expect(p.Disposition, match)

    def expect_detach(self, **match: Any) -> Step:
        """Expect a detach by link, address, closed, condition; also an answer to our own detach."""
        return self._expect(p.Detach, match)

    def expect_end(self, **match: Any) -> Step:
        """Expect an end, e.g. by condition."""
        return self._expect(p.End, match)

    def expect_close(self, **match: Any) -> Step:
        """Expect a close, e.g. by condition."""
        return self._expect(p.Close, match)

    def expect_heartbeat(self) -> Step:
        """Expect an empty frame (2.4.5)."""
        return self._expect(Heartbeat, {})

    def expect_disconnect(self) -> Step:
        """Expect the client to close or reset the TCP connection."""
        return self._expect(Disconnect, {})


class Rules(Expectations):
    """Deviations from the regular answers: see ``Peer.override``."""

    def __init__(self, script: Script, times: int | None) -> None:
        super().__init__(script)
        self._times = times

    def _expect(self, kind: type, match: dict[str, Any]) -> Step:
        step = Step(self.script, kind, match, self._times)
        with self.script.changed:
            self.script.rules.insert(0, step)
        return step
