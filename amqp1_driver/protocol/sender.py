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

"""One outgoing link: messages wait for credit, then for their outcome.

A message stays with its caller until there is credit for it (AMQP 1.0, 2.6.7):
``pending`` holds operations, each of which has a thread waiting for it or is
counted by the bounded backlog of replies.  Lives on the I/O thread.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from amqp1_driver import exceptions
from amqp1_driver.addressing.base import Entity
from amqp1_driver.policy.outcome import Action, Disposition, Outcome, decide
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.engine_link import EngineSender, EngineSession
from amqp1_driver.protocol.link import Cancellable, Link, Scheduler
from amqp1_driver.protocol.operation import Kind, Operation, Stage, expired
from amqp1_driver.protocol.prepare import nothing_there
from amqp1_driver.protocol.states import LinkState

LOG = logging.getLogger(__name__)

_ATTACHED = LinkState.ATTACHED


class Sender(Link):
    """Sends to one address, or to any through the anonymous terminus.

    :param address: target; None is the anonymous terminus
    :param name: link name, unique on the connection
    :param session: where to open the link
    :param resend_released: see the option
    :param on_returned: told of operations that nobody took; True: they are sent again
    :param on_lost: told when the peer refuses or detaches the link, and takes what waits; without
        it the link is attached again for that
    :param prepare: makes sure that the node is there before the link is attached again, then
        calls on
    :param kind: capability that the target has to have
    :param outcomes: say which outcomes are understood
    :param premade: what ``address`` stands for, where nobody can declare it: if it is missing,
        that fails what waits
    :param on_waiting: told of each operation that has to wait for credit
    """

    def __init__(self, scheduler: Scheduler, host: str, retry: Retry, address: str | None,
                 name: str, session: Callable[[], EngineSession], *, resend_released: bool,
                 on_returned: Callable[[Operation], bool],
                 on_lost: Callable[["Sender"], None] | None = None,
                 prepare: Callable[[Callable[[], None]], None] | None = None,
                 kind: str = "", outcomes: bool = False,
                 premade: tuple[Entity, ...] = (),
                 on_waiting: Callable[["Sender", Operation], None] | None = None) -> None:
        super().__init__(scheduler, host, retry)
        self.address = address
        self._premade = premade
        self._name = name
        self._attempt = 0
        self._session = session
        self._resend_released = resend_released
        self._on_returned = on_returned
        self._on_lost = on_lost
        self._prepare = prepare
        self._kind = kind
        self._outcomes = outcomes
        self._on_waiting = on_waiting
        self.made_at = scheduler.now()
        self.link: EngineSender | None = None
        self.pending: OrderedDict[int, Operation] = OrderedDict()
        self.delayed: dict[int, tuple[Operation, Cancellable]] = {}
        self.unsettled: dict[Any, Operation] = {}
        self.last_used = scheduler.now()
        self.blocked_since: float | None = None
        self._warned_at = 0.0
        self._reason = ""
        self._awaited = "credit"

    # -- application ----------------------------------------------------------

    def submit(self, op: Operation) -> None:
        """Send now if there is credit, otherwise keep in order."""
        op.owner = self
        link = self.link
        if (not self.pending and link is not None and self.machine.state is _ATTACHED
                and link.path.may_send(link)):
            self.transmit(link, op)
        else:
            self.pending[id(op)] = op
            if self.attached and self.blocked_since is None:
                self._block()
            if self._on_waiting is not None:
                self._on_waiting(self, op)

    def withdraw(self, op: Operation) -> bool:
        """Take back what waits, unless messages under way show that somebody reads."""
        return not self.unsettled and self.pending.pop(id(op), None) is not None

    def cancel(self, op: Operation) -> None:
        """The caller has given up; it has its error already."""
        if self.pending.pop(id(op), None):
            return
        _, timer = self.delayed.pop(id(op), (None, None))
        if timer is not None:
            timer.cancel()
            return
        for key, other in self.unsettled.items():
            if other is op:
                del self.unsettled[key]
                if self.link is not None:
                    self.link.forget(key)
                return

    @property
    def idle(self) -> bool:
        return not self.pending and not self.unsettled and not self.delayed

    @property
    def exhausted(self) -> bool:
        """All credit is used up by messages that the peer has not taken yet."""
        return bool(self.unsettled) and self.link is not None and self.link.credit <= 0

    # -- told by the engine ---------------------------------------------------

    def link_credit(self) -> None:
        """The peer granted credit: send what waits, oldest first."""
        link, pending = self.link, self.pending
        if not pending and self.blocked_since is None:
            return
        if link is None or not self.attached:
            return
        sent = False
        while pending and link.may_send:
            _, op = pending.popitem(last=False)
            if not op.finished:
                sent = True
                self.transmit(link, op)
        if self.blocked_since is not None and not pending:
            self._nothing_waits(sent)

    def link_outcome(self, key: Any, disposition: Disposition) -> None:
        op = self.unsettled.pop(key, None)
        if op is None or op.stage is Stage.DONE:  # a reply may overtake the outcome of its call
            return
        if disposition.outcome is Outcome.ACCEPTED:
            op.accepted()
            return
        self._negative(op, disposition)

    # -- inner ---------------------------------------------------------------

    def transmit(self, link: EngineSender, op: Operation) -> None:
        """Send now; the caller has seen that the link may."""
        op.attempts += 1
        data = op.data
        # as EngineSender.transfer(), in line: it is done for every message
        window = link.window or link.outgoing_window()
        window.given += 1 + (len(data[1]) if type(data) is tuple else len(data)) // window.frame
        key = link.path.send(link, data, op.settled)
        if op.settled:
            op.stage = Stage.SENT
            op.accepted()
        else:
            op.stage = Stage.SENT
            self.unsettled[key] = op

    def _negative(self, op: Operation, disposition: Disposition) -> None:
        reply = op.kind is Kind.REPLY
        if (disposition.outcome is Outcome.RELEASED and not op.for_whoever
                and self._on_returned(op)):
            return
        now = self.scheduler.now()
        decision = decide(disposition, resend_released=self._resend_released, retry=op.retry,
                          expired=op.deadline.expired(now), for_whoever=op.for_whoever,
                          host=self.host, address=op.address, message_id=op.message_id)
        error = decision.error
        if error is None:
            op.accepted()
            return
        # a reply may outrun the news of its address in a mesh: one more try is safe
        again = decision.action is Action.RESEND or (reply and op.retry.may_retry(error))
        delay = op.retry.delay(self.scheduler.rng)
        if not again or op.deadline.remaining(now) <= delay:
            op.fail(error)
            return
        op.retry = op.retry.spent()
        op.stage = Stage.QUEUED
        op.owner = self
        LOG.debug("Message %s to %s on %s came back %s from attempt %d, again in %.2f s",
                  op.message_id, op.address, self.host, disposition.outcome.value, op.attempts,
                  delay)
        timer = self.scheduler.call_later(delay, lambda: self._resend(op))
        self.delayed[id(op)] = op, timer

    def _resend(self, op: Operation) -> None:
        del self.delayed[id(op)]
        if not op.finished:  # a reply may have come all the same
            self.submit(op)

    def _open(self, engine: Engine) -> EngineSender:
        self._attempt += 1
        # a name must not be used twice on a connection (2.6.1)
        return engine.sender(self._session(), f"{self._name}.{self._attempt}", self.place, self,
                             kind=self._kind, outcomes=self._outcomes)

    def _reattach(self) -> None:
        if self._prepare is None or not self._wanted():
            super()._reattach()
            return
        self._timer = None
        self._prepare(self._prepared)

    def _prepared(self) -> None:
        if self.state is LinkState.REATTACH_WAIT:
            super()._reattach()

    def _attached(self) -> None:
        self.link_credit()
        if self.pending and self.blocked_since is None:
            self._block()
        elif self.pending:
            self._stalled()

    def _detached(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        self._fail_unsettled(error)
        if self._on_lost is not None:
            self._on_lost(self)
            return
        missing = nothing_there(error, self._premade)
        if missing is not None:
            for op in self.take_pending():
                op.fail(missing)
            return
        self.fail_once(error)

    def _moved(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        self._fail_unsettled(error)  # what waits goes along

    def fail_once(self, error: BaseException) -> None:
        """An attempt to send what waits has failed: those without retries fail.

        So do those who want to be told that there is no such node.
        """
        missing = exceptions.nobody_there(error)
        for key, op in list(self.pending.items()):
            if not (missing and op.mandatory) and op.retry.may_retry(error, in_doubt=False):
                op.retry = op.retry.spent()
            else:
                del self.pending[key]
                op.fail(error)

    def _fail_unsettled(self, cause: BaseException) -> None:
        unsettled, self.unsettled = self.unsettled, {}
        for op in unsettled.values():
            op.fail(in_doubt(op, self.host, cause))

    def connection_lost(self) -> None:
        super().connection_lost()
        self.blocked_since = None

    def take_pending(self) -> list[Operation]:
        """What has not been sent, in order; it is the caller's from now on."""
        for _, timer in self.delayed.values():
            timer.cancel()
        waiting = [*(op for op, _ in self.delayed.values()), *self.pending.values()]
        self.delayed.clear()
        self.pending.clear()
        return waiting

    def lost(self, cause: BaseException) -> None:
        """The connection is gone: what was sent is in doubt."""
        self.connection_lost()
        self._fail_unsettled(cause)

    def _wanted(self) -> bool:
        return bool(self.pending or self.delayed)

    # -- credit ----------------------------------------------------------------

    @property
    def _why(self) -> str:
        """What keeps the peer from taking messages, in words."""
        if self.link is not None and self.link.credit > 0:
            self._reason = "the peer has closed its session's window, as RabbitMQ does in an alarm"
        else:
            self._reason = "the peer grants no credit"
        return self._reason

    @property
    def waits_for(self) -> str:
        """What keeps messages from being sent, for errors; any thread."""
        return "credit" if self.blocked_since is None else self._awaited

    def _block(self) -> None:
        self.blocked_since = self._warned_at = self.scheduler.now()
        if self.link is not None and self.link.credit > 0:
            self._awaited = "the session's window, which RabbitMQ closes in an alarm"
        else:
            self._awaited = "credit"
        self._stalled()

    def _nothing_waits(self, sent: bool = False) -> None:
        """Because messages have gone, or could go; or because all who waited have given up."""
        if sent or (self.link is not None and self.link.may_send):
            self._unblock()
        else:
            self.blocked_since = None
            self._resumed(ended=True)

    def _unblock(self) -> None:
        since, self.blocked_since = self.blocked_since, None
        self._resumed()
        if since is not None and self._warned_at > since:
            LOG.info("Sending to %s on %s goes on: blocked for %.1f s (%s)",
                     self.address or "any address", self.host, self.scheduler.now() - since,
                     self._reason)

    def sweep(self, now: float, warn_after: float) -> None:
        """Coarse timer: warn of missing credit, end what nobody waits for."""
        self.last_used = now
        if self.blocked_since is not None and not self.pending:
            self._nothing_waits()
        if self.blocked_since is not None and now - self._warned_at >= warn_after:
            self._warned_at = now
            LOG.warning("%d message(s) to %s on %s blocked since %.1f s: %s",
                        len(self.pending), self.address or "any address", self.host,
                        now - self.blocked_since, self._why)
        for op in [op for op in self.pending.values() if op.deadline.expired(now)]:
            self.pending.pop(id(op), None)
            op.fail(expired(op, self.host))
        for key, op in [(k, op) for k, op in self.unsettled.items()
                        if op.future is None and op.deadline.expired(now)]:
            del self.unsettled[key]
            if self.link is not None:
                self.link.forget(key)
            op.fail(expired(op, self.host))


def in_doubt(op: Operation, host: str, cause: BaseException) -> exceptions.InDoubt:
    """Sent, but the outcome will never be known: fails, is never resent."""
    error = exceptions.InDoubt(f"{exceptions.InDoubt.summary} ({cause})", host=host,
                               address=op.address, message_id=op.message_id)
    error.__cause__ = cause
    return error
