# SPDX-License-Identifier: Apache-2.0

"""The base of senders and receivers: one link and its state table; lives on the I/O thread."""

import logging
from typing import Any

from amqp1_driver import exceptions
from amqp1_driver.connection.context import LinkContext
from amqp1_driver.connection.states import LINK, LinkEvent, LinkState, Machine
from amqp1_driver.engine.connection import Engine
from amqp1_driver.interfaces import Timer
from amqp1_driver.policy.outcome import MESSAGE_SIZE_EXCEEDED
from amqp1_driver.policy.redirect import LINK as LINK_REDIRECT
from amqp1_driver.policy.redirect import SAME_PLACE, Redirect, Trail

LOG = exceptions.logger(__name__)


#: seconds after a message was too large, during which an attach does not reset the schedule of
#: pauses
TOO_LARGE_SECONDS = 300.0


class Link:
    """A link that attaches again after the peer refuses or detaches it, until :meth:`detach`."""

    def __init__(self, links: LinkContext) -> None:
        self._links = links
        self.scheduler = links.shared.network
        self.host = links.host
        self.address: str | None = None
        self.link: Any = None
        self.machine = Machine(LINK, LinkState.DETACHED)
        self._retry = self._fresh = links.shared.retry
        self._timer: Timer | None = None
        self._engine: Engine | None = None
        self._trail = Trail()
        self._no_reset_before = 0.0
        self._place: str | None = None
        self._observer = self.scheduler.observer
        self._stall: tuple[float, int | None] | None = None

    @property
    def state(self) -> LinkState:
        """Return the state of the link."""
        return self.machine.state

    @property
    def attached(self) -> bool:
        """Return whether both ends have attached the link."""
        return self.machine.state is LinkState.ATTACHED

    def attach(self) -> None:
        """Open the link."""
        self._engine = engine = self._links.engine
        self._fire(LinkEvent.ATTACH)
        self.link = self._open(engine)

    def detach(self) -> None:
        """Detach the link for good."""
        self._stop_timer()
        self._fire(LinkEvent.DETACH)
        if self.link is not None:
            self._release()
            self._fire(LinkEvent.REMOTE_DETACHED)

    def connection_lost(self) -> None:
        """Forget the link, because the physical connection is lost."""
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
        """Report a stall to the observer: no credit is left.

        :param credit: limit of a receiving link's window, messages; None: a sending link
        """
        if self._observer is not None and self._stall is None:
            self._stall = self.scheduler.now(), credit
            self._observer.stalled(self.host, self.address, credit)

    def _resumed(self, ended: bool = False) -> None:
        """Report the end of a stall to the observer.

        :param ended: False: there is credit again; True: no message waits for credit any more
        """
        stall, self._stall = self._stall, None
        if self._observer is not None and stall is not None:
            since, credit = stall
            self._observer.resumed(
                self.host, self.address, self.scheduler.now() - since, credit, ended
            )

    # -- called by the engine ---------------------------------------------

    def link_attached(self) -> None:
        """Note that the peer has attached the link."""
        self._fire(LinkEvent.REMOTE_ATTACHED)
        self._begin_anew()
        self._attached()

    def _begin_anew(self) -> None:
        """Reset the schedule of pauses, which begins with the shortest again.

        Within :data:`TOO_LARGE_SECONDS` seconds after a message was too large, do nothing: the
        message may come again as soon as there is credit.
        """
        if self.scheduler.now() >= self._no_reset_before:
            self._retry = self._fresh

    def link_detached(self, name: str | None, description: str | None) -> None:
        """Handle the end of the link: follow a redirect, or attach again after a pause.

        :param name: name of the error condition (2.8.14); None: there is none
        :param description: description of the condition
        """
        was_attached = self.attached
        ours = self.link is not None and self.link.discards
        redirect = self.link.redirect if name == LINK_REDIRECT and self.link is not None else None
        error = exceptions.from_condition(
            name, description, default=exceptions.LinkFailed, host=self.host, address=self.address
        )
        self._fire(LinkEvent.REMOTE_DETACHED, error)
        self._release()
        before, self._place = self.place, None
        if redirect is not None and self.state is LinkState.REATTACH_WAIT:
            reason = self._follow(redirect, before)
            if reason is None:
                self._moved(error, was_attached)
                return
            error = exceptions.redirect_refused(error, reason)
        if was_attached:
            self._begin_anew()
        delay = self._retry.delay(self.scheduler.rng)
        self._retry = self._retry.spent()
        if name == MESSAGE_SIZE_EXCEEDED:
            self._no_reset_before = self.scheduler.now() + delay + TOO_LARGE_SECONDS
        # a bus that deletes a queue with its last reader also ends idle links that send to it
        foreseen = not self._wanted() or self._expects_end(error)
        LOG.log(
            logging.DEBUG if foreseen else logging.WARNING,
            "Link to %s on %s was %s: %s; again in %.1f s",
            self.address or "any address",
            self.host,
            "ended" if ours else "detached by the peer" if was_attached else "refused by the peer",
            error,
            delay,
        )
        self._detached(error, was_attached)
        if self.state is LinkState.REATTACH_WAIT:
            self._timer = self.scheduler.call_later(delay, self._reattach)

    def _follow(self, redirect: Redirect, before: str | None) -> str | None:
        """Follow a redirect (2.8.18) to another address, or with the whole connection.

        :param before: the address of the last attempt
        :returns: why the link does not follow; None if it does
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
        """Return the address to attach to: that of a redirect, or else that of the link."""
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

    #: whether the driver expects the end of the link, because its node may be deleted
    _end_expected = False

    def _expects_end(self, error: exceptions.AmqpError) -> bool:
        """Return whether the driver expects this end of the link; then it logs no warning."""
        return self._end_expected

    def _moved(self, error: exceptions.AmqpError, was_attached: bool) -> None:
        """Handle a redirect, which the driver follows at once."""
        self._detached(error, was_attached)

    def _wanted(self) -> bool:
        """Return whether the link is still needed, so that it should attach again."""
        return True
