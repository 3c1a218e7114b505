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

"""What senders and receivers have in common: one link and its state table.

Lives on the I/O thread.
"""

import logging
import random
from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver import exceptions
from amqp1_driver.policy.redirect import LINK as LINK_REDIRECT
from amqp1_driver.policy.redirect import SAME_PLACE, Redirect, Trail
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.states import LINK, LinkEvent, LinkState, Machine
from amqp1_driver.telemetry.observer import Observer

LOG = logging.getLogger(__name__)


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The clock and timers of the loop that runs us, and a source of jitter.

    ``linger`` has the connection's ``process`` called once more within a few milliseconds.
    ``observer`` wants to know what becomes of links; it is set before there are any.
    """

    rng: random.Random
    observer: Observer | None

    def now(self) -> float: ...
    def call_later(self, delay: float, fn: Callable[[], None]) -> Cancellable: ...
    def linger(self) -> None: ...


class Link:
    """A link that is attached again after a refusal, until it is detached by us.

    :param scheduler: clock and timers
    :param host: ``hostname:port``, for logs and errors
    :param retry: schedule of the waits between attempts to attach
    """

    def __init__(self, scheduler: Scheduler, host: str, retry: Retry) -> None:
        self.scheduler = scheduler
        self.host = host
        self.address: str | None = None
        self.link: Any = None
        self.machine = Machine(LINK, LinkState.DETACHED)
        self._retry = self._fresh = retry
        self._timer: Cancellable | None = None
        self._engine: Engine | None = None
        self._trail = Trail()
        self._place: str | None = None
        self._observer = scheduler.observer
        self._stall: tuple[float, int | None] | None = None

    @property
    def state(self) -> LinkState:
        return self.machine.state

    @property
    def attached(self) -> bool:
        return self.machine.state is LinkState.ATTACHED

    def attach(self, engine: Engine) -> None:
        """Open the link on this physical connection."""
        self._engine = engine
        self._fire(LinkEvent.ATTACH)
        self.link = self._open(engine)

    def detach(self) -> None:
        """Close the link for good."""
        self._stop_timer()
        self._fire(LinkEvent.DETACH)
        if self.link is not None:
            self._release()
            self._fire(LinkEvent.REMOTE_DETACHED)

    def connection_lost(self) -> None:
        """The physical connection is gone and all that was on it."""
        self._stop_timer()
        self._fire(LinkEvent.CONNECTION_LOST)
        self.link = None
        self._engine = None

    def _fire(self, event: LinkEvent, error: BaseException | None = None) -> None:
        before = self.machine.state
        state = self.machine.fire(event)
        if self._observer is not None and state is not before:
            self._resumed(ended=True)
            self._observer.link(self.host, self.address, state.value, error)

    # -- credit, for the observer ------------------------------------------

    def _stalled(self, credit: int | None = None) -> None:
        """No credit is left.

        :param credit: all that a subscription gives; None: it is we who want to send
        """
        if self._observer is not None and self._stall is None:
            self._stall = self.scheduler.now(), credit
            self._observer.stalled(self.host, self.address, credit)

    def _resumed(self, ended: bool = False) -> None:
        """There is credit again, or (``ended``) nobody waits for it any more."""
        stall, self._stall = self._stall, None
        if self._observer is not None and stall is not None:
            since, credit = stall
            self._observer.resumed(self.host, self.address, self.scheduler.now() - since, credit,
                                   ended)

    # -- told by the engine -----------------------------------------------

    def link_attached(self) -> None:
        self._fire(LinkEvent.REMOTE_ATTACHED)
        self._retry = self._fresh
        self._attached()

    def link_detached(self, name: str | None, description: str | None) -> None:
        was_attached = self.attached
        redirect = self.link.redirect if name == LINK_REDIRECT and self.link is not None else None
        error = exceptions.from_condition(
            name, description, default=exceptions.LinkFailed, host=self.host,
            address=self.address)
        self._fire(LinkEvent.REMOTE_DETACHED, error)
        self._release()
        before, self._place = self.place, None
        if redirect is not None and self.state is LinkState.REATTACH_WAIT:
            reason = self._follow(redirect, before)
            if reason is None:
                self._moved(error, was_attached)
                return
            error = exceptions.not_followed(error, reason)
        delay = self._retry.delay(self.scheduler.rng)
        self._retry = self._retry.spent()
        # a queue that goes with its last reader takes along the idle links of its senders
        LOG.log(logging.WARNING if self._wanted() and not self._ending else logging.DEBUG,
                "Link to %s on %s was %s by the peer: %s; again in %.1f s",
                self.address or "any address", self.host,
                "detached" if was_attached else "refused", error, delay)
        self._detached(error, was_attached)
        if self.state is LinkState.REATTACH_WAIT:
            self._timer = self.scheduler.call_later(delay, self._reattach)

    def _follow(self, redirect: Redirect, before: str | None) -> str | None:
        """Go where the peer says that the node is (2.8.18).

        :param before: where it was looked for last
        :returns: why not, None if so
        """
        assert self._engine is not None
        reason = self._engine.follow(redirect)
        if reason is not SAME_PLACE or redirect.address is None or before is None:
            return reason
        reason = self._trail.step(before, redirect.address, self.scheduler.now())
        if reason is None:
            LOG.info("%s says that %s is at %s", self.host, self.address, redirect.address)
            self._place = redirect.address
            self._timer = self.scheduler.call_later(0.0, self._reattach)
        return reason

    @property
    def place(self) -> str | None:
        """The address to attach to: usually that of the link."""
        return self._place or self.address

    def _reattach(self) -> None:
        self._timer = None
        if self._engine is None or not self._wanted():
            self._fire(LinkEvent.DETACH)
            return
        self._fire(LinkEvent.RETRY)
        self.link = self._open(self._engine)

    def _release(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.release()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- for the subclasses -------------------------------------------------

    def _open(self, engine: Engine) -> Any:
        raise NotImplementedError

    def _attached(self) -> None:
        raise NotImplementedError

    def _detached(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        raise NotImplementedError

    #: the node may be deleted now
    _ending = False

    def _moved(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        """The peer has sent us elsewhere, and we go there at once."""
        self._detached(error, was_attached)

    def _wanted(self) -> bool:
        """Whether the link is worth attaching again."""
        return True
