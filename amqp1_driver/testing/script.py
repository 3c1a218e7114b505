# SPDX-License-Identifier: Apache-2.0
"""The script of a peer: steps in order, rules for single deviations, a log, and waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from amqp1_driver.testing import reactions
from amqp1_driver.testing.core import PeerCore
from amqp1_driver.testing.state import (
    Defaults,
    Disconnect,
    Event,
    Heartbeat,
    LogEntry,
    PeerFailure,
    ReceivedTransfer,
    SentTransfer,
    Session,
)
from amqp1_driver.testing.steps import Action, Step
from amqp1_driver.wire.performatives import Flow

StepT = TypeVar("StepT", bound=Step)
_OPTIONAL = (Flow, Heartbeat, Disconnect)  # never a failure, even if no step expects them


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
        self.wake: Callable[[], object] = lambda: None  # wakes the I/O thread for output
        self._addresses = 0

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

    def add(self, step: StepT) -> StepT:
        """Append a step to the script."""
        with self.changed:
            step.script = self
            self.steps.append(step)
            self.pump()
        return step

    def act(
        self,
        what: str,
        run: Callable[[PeerCore], object],
        ready: Callable[[PeerCore], object] = lambda core: True,
    ) -> None:
        """Append an action to the script; run it at once if no step is before it.

        :param what: name of the action in failures
        :param run: the action itself
        :param ready: the action waits until this is true
        """
        with self.changed:
            self.steps.append(Action(what, ready, run))
            self.pump()
        self.wake()

    def rule(self, step: StepT) -> StepT:
        """Add a rule, which applies at every position of the script."""
        with self.changed:
            step.script = self
            self.rules.insert(0, step)
        return step

    def late(self, run: Callable[[], object]) -> None:
        """Run a function that changes a step already in the script."""
        with self.changed:
            self.guard(run)
        self.wake()

    def pump(self) -> None:
        """Run the actions that are due."""
        while self.steps and isinstance(action := self.steps[0], Action):
            core = self.core
            if core is None or self.failure or not action.ready(core):
                break
            self.steps.popleft()
            self.guard(lambda action=action, core=core: action.run(core))  # type: ignore[misc]
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
        if (rule := self._rule(event)) is not None:
            return rule.run(event)
        if self.auto:
            if event.kind not in (Heartbeat, Disconnect):
                reactions.respond(event)
        elif event.kind not in _OPTIONAL:
            raise PeerFailure(why or f"unexpected {event}; expected {head or 'nothing more'}")
        return None

    def _rule(self, event: Event) -> Step | None:
        for rule in self.rules:
            if rule.kind is event.kind and rule.times != 0 and rule.mismatch(event) is None:
                rule.times = None if rule.times is None else rule.times - 1
                return rule
        return None

    def guard(self, run: Callable[[], object]) -> None:
        """Run a function; an exception fails the script and resets all connections."""
        try:
            run()
        except Exception as exc:
            self.fail(exc)

    def fail(self, exc: BaseException) -> None:
        """Record the first failure and reset all connections."""
        if self.failure is None:
            tail = "\n  ".join(str(entry) for entry in self.log[-12:])
            self.failure = PeerFailure(f"{exc}\nlast frames:\n  {tail}")
            self.failure.__cause__ = exc
        for core in self.cores:
            core.drop()
        self.changed.notify_all()

    def record(self, entry: LogEntry) -> None:
        """Add an entry to the log."""
        self.log.append(entry)

    def received(self, session: Session, delivery_id: int) -> ReceivedTransfer | None:
        """Return the client's newest delivery with this delivery-id, None without one."""
        for transfer in reversed(self.transfers):
            if transfer.delivery_id == delivery_id and transfer.link.session is session:
                return transfer
        return None

    def next_address(self) -> str:
        """Return a new address for a dynamic terminus."""
        self._addresses += 1
        return f"{self.defaults.dynamic_prefix}{self._addresses}"

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
                tail = "\n  ".join(str(entry) for entry in self.log[-12:])
                text = what if isinstance(what, str) else what()
                raise PeerFailure(f"{text} after {timeout} s\nlast frames:\n  {tail}")
            return value
