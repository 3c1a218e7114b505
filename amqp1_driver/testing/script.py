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
"""The script of a peer: steps in order, rules for single deviations, a log, and waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from amqp1_driver.testing import reactions
from amqp1_driver.testing.core import PeerCore
from amqp1_driver.testing.performatives import Flow
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

StepT = TypeVar("StepT", bound=Step)
_OPTIONAL = (Flow, Heartbeat, Disconnect)  # never a failure when nobody expects them


class Script:
    """Shared by all connections of a peer.

    An event goes to the first step if it fits, else to the newest rule that fits, else, in auto
    mode, to the regular answer; in scripted mode it is a failure. All threads; `changed` is the
    one lock, notified after every change.
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
        self.wake: Callable[[], None] = lambda: None  # tells the I/O thread that there is output
        self._addresses = 0

    def connect(self) -> PeerCore:
        """A new connection."""
        with self.changed:
            core = PeerCore(self, len(self.cores))
            self.cores.append(core)
            self.pump()
            return core

    @property
    def core(self) -> PeerCore | None:
        """The newest connection that is up, be it silent."""
        return next((c for c in reversed(self.cores) if not (c.lost or c.ending)), None)

    def add(self, step: StepT) -> StepT:
        """A step at the end of the script."""
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
        """An action at the end of the script; at once if nothing is before it."""
        with self.changed:
            self.steps.append(Action(what, ready, run))
            self.pump()
        self.wake()

    def rule(self, step: StepT) -> StepT:
        """A deviation, whatever the script is at."""
        with self.changed:
            step.script = self
            self.rules.insert(0, step)
        return step

    def late(self, run: Callable[[], object]) -> None:
        """Runs a change of a step that is in the script already."""
        with self.changed:
            self.guard(run)
        self.wake()

    def pump(self) -> None:
        """Takes the actions that are due."""
        while self.steps and isinstance(action := self.steps[0], Action):
            core = self.core
            if core is None or self.failure or not action.ready(core):
                break
            self.steps.popleft()
            self.guard(lambda action=action, core=core: action.run(core))  # type: ignore[misc]
        self.changed.notify_all()

    def dispatch(self, event: Event) -> None:
        """Finds out who reacts to the event, and reacts."""
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
        """Runs; whatever it raises is the failure of the script and resets all connections."""
        try:
            run()
        except Exception as exc:
            self.fail(exc)

    def fail(self, exc: Exception) -> None:
        """Records the first failure."""
        if self.failure is None:
            tail = "\n  ".join(str(entry) for entry in self.log[-12:])
            self.failure = PeerFailure(f"{exc}\nlast frames:\n  {tail}")
            self.failure.__cause__ = exc
        for core in self.cores:
            core.drop()
        self.changed.notify_all()

    def record(self, entry: LogEntry) -> None:
        """Adds to the log."""
        self.log.append(entry)

    def received(self, session: Session, delivery_id: int) -> ReceivedTransfer | None:
        """The newest delivery of the client with that id."""
        for transfer in reversed(self.transfers):
            if transfer.delivery_id == delivery_id and transfer.link.session is session:
                return transfer
        return None

    def next_address(self) -> str:
        """An address for a dynamic terminus."""
        self._addresses += 1
        return f"{self.defaults.dynamic_prefix}{self._addresses}"

    def wait_for(
        self, ready: Callable[[], Any], timeout: float, what: str | Callable[[], str]
    ) -> Any:
        """Waits (seconds) until `ready()` is true and returns it; PeerFailure otherwise."""
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
