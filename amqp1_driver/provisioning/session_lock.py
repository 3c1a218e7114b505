# SPDX-License-Identifier: Apache-2.0

"""The lock on a session of Azure Service Bus, which the session's reader holds for a limited time.

The driver renews the lock, before it ends, by a request to the queue's management node.  Without
renewal the peer detaches the link, and another receiver may lock the session.  Sans-I/O; lives on
the I/O thread.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from amqp1_driver import codec, exceptions
from amqp1_driver.interfaces import Timer, WallClockScheduler
from amqp1_driver.policy import tokens
from amqp1_driver.policy.retry import Retry
from amqp1_driver.provisioning.requests import Answer, Requests, Response

LOG = exceptions.logger(__name__)

OPERATION = "com.microsoft:renew-session-lock"
LOCKED_UNTIL = "com.microsoft:locked-until-utc"
#: ticks (tenths of a microsecond) from the year 1 to 1970, and ticks in a second
_TICKS_TO_1970, _SECOND = 621_355_968_000_000_000, 10_000_000
#: seconds that a lock is assumed to last if the peer does not say; it lasts a minute unless the
#: queue is configured otherwise
ASSUMED_LOCK_SECONDS = 30.0


def locked_until(properties: Any) -> float | None:
    """Return the end of the lock from the properties of the peer's Attach.

    :returns: seconds since 1970; None if the properties do not say
    """
    ticks = properties.get(LOCKED_UNTIL) if isinstance(properties, dict) else None
    return (ticks - _TICKS_TO_1970) / _SECOND if isinstance(ticks, int) else None


def management_address(entity: str) -> str:
    """Return the address of a queue's management node."""
    return f"{entity}/$management"


class SessionLock:
    """The lock on one session, renewed as long as our link holds it; see the module.

    :param entity: the queue
    :param session_id: the session of that queue
    :param connect: opens the links for requests to the queue's management node; called at the first
        renewal, because most processes end before they need one
    :param retry: schedule of the waits after a failure
    """

    def __init__(
        self,
        clocks: WallClockScheduler,
        host: str,
        entity: str,
        session_id: str,
        connect: Callable[[], Requests],
        retry: Retry,
    ) -> None:
        self._clocks = clocks
        self._host = host
        self._entity = entity
        self._session_id = session_id
        self._connect = connect
        self._requests: Requests | None = None
        self._retry = self._fresh = retry
        self._until = 0.0
        #: number of acquisitions and losses of the lock so far; if it has changed since a request,
        #: the answer to that request is ignored
        self._epoch = 0
        self._timer: Timer | None = None

    def acquired(self, until: float | None) -> None:
        """Start renewing the lock: the link has just acquired it.

        :param until: end of the lock, seconds since 1970; None: unknown
        """
        self.released()
        self._epoch += 1
        self._ours_until(until)

    def released(self) -> None:
        """Stop renewing the lock: it is lost together with the link."""
        self._epoch += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def connection_lost(self, cause: BaseException) -> None:
        self.released()
        if self._requests is not None:
            self._requests.lost(cause)

    # -- inner -----------------------------------------------------------------

    def _ours_until(self, until: float | None) -> None:
        now = self._clocks.wall_clock()
        # the lock is valid now: if its end is in the past, our clock and the peer's differ
        self._until = until if until is not None and until > now else now + ASSUMED_LOCK_SECONDS
        self._later(tokens.renewal(self._until, now, self._clocks.rng))

    def _later(self, delay: float) -> None:
        self._timer = self._clocks.call_later(delay, self._renew)

    def _renew(self) -> None:
        self._timer = None
        if self._requests is None:
            self._requests = self._connect()
        encode = partial(
            codec.encode_message,
            {"session-id": self._session_id},
            to=management_address(self._entity),
            application_properties={"operation": OPERATION},
        )
        self._requests.ask(encode, partial(self._answered, self._epoch))

    def _answered(self, times: int, answer: Answer) -> None:
        if times != self._epoch:
            return
        now = self._clocks.wall_clock()
        if isinstance(answer, Response) and answer.good:
            self._retry = self._fresh
            given = answer.body.get("expiration") if isinstance(answer.body, dict) else None
            self._ours_until(given / 1000 if isinstance(given, codec.Timestamp) else None)
            return
        reason = (
            f"status {answer.status}: {answer.description}"
            if isinstance(answer, Response)
            else answer
        )
        delay = tokens.after_failure(self._until, now, self._retry.delay(self._clocks.rng))
        self._retry = self._retry.spent()
        LOG.warning(
            "The lock on session %s of %s at %s was not renewed: %s; again in %.1f s",
            self._session_id,
            self._entity,
            self._host,
            reason,
            delay,
        )
        self._later(delay)
