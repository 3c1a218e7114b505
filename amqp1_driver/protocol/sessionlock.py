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


"""The lock on a session of Azure Service Bus, which whoever reads it has for a time only.

It is renewed by a request to the queue's management node while the old time still runs; without
that the peer detaches the link, and another receiver could have the session.  Sans-I/O; lives on
the I/O thread.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol

from amqp1_driver import codec, exceptions
from amqp1_driver.policy import tokens
from amqp1_driver.policy.retry import Retry
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.engine_link import EngineSession
from amqp1_driver.protocol.link import Cancellable, Scheduler
from amqp1_driver.protocol.request import Requests, Response

LOG = logging.getLogger(__name__)

OPERATION = "com.microsoft:renew-session-lock"
LOCKED_UNTIL = "com.microsoft:locked-until-utc"
#: ticks of a tenth of a microsecond from the year 1 to 1970, and in a second
_EPOCH, _SECOND = 621_355_968_000_000_000, 10_000_000
#: how long a lock is taken to last that says nothing of it: it lasts a minute unless configured
_UNKNOWN = 30.0


class Clocks(Scheduler, Protocol):
    """Also tells the time of day."""

    def wall_clock(self) -> float:
        """Seconds since 1970."""
        ...


def locked_until(properties: Any) -> float | None:
    """End of the lock as the peer's Attach tells it, seconds since 1970."""
    ticks = properties.get(LOCKED_UNTIL) if isinstance(properties, dict) else None
    return (ticks - _EPOCH) / _SECOND if isinstance(ticks, int) else None


class SessionLock:
    """See the module.

    :param entity: the queue
    :param session_id: which of its sessions
    :param session: where to open links
    :param timeout: for each request, seconds
    :param retry: schedule of the waits after a failure
    """

    def __init__(self, clocks: Clocks, host: str, entity: str, session_id: str, engine: Engine,
                 session: Callable[[], EngineSession], timeout: float, retry: Retry) -> None:
        self._clocks = clocks
        self._host = host
        self._entity = entity
        self._session_id = session_id
        self._engine = engine
        self._session = session
        self._timeout = timeout
        self._retry = self._fresh = retry
        self._until = 0.0
        #: counts how often it was had: answers that come too late are for an earlier time
        self._times = 0
        self._timer: Cancellable | None = None
        self._requests: Requests | None = None

    def held(self, until: float | None) -> None:
        """The session is ours.

        :param until: end of the lock, seconds since 1970; None: unknown
        """
        self.lost()
        self._times += 1
        self._ours_until(until)

    def lost(self) -> None:
        """The link has gone, and the lock with it."""
        self._times += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def connection_lost(self, cause: BaseException) -> None:
        self.lost()
        requests, self._requests = self._requests, None
        if requests is not None:
            requests.lost(cause)

    # -- inner -----------------------------------------------------------------

    def _ours_until(self, until: float | None) -> None:
        now = self._clocks.wall_clock()
        # what is over by our clock is so because the clocks differ
        self._until = until if until is not None and until > now else now + _UNKNOWN
        self._later(tokens.renewal(self._until, now, self._clocks.rng))

    def _later(self, delay: float) -> None:
        self._timer = self._clocks.call_later(delay, self._renew)

    def _renew(self) -> None:
        self._timer = None
        if self._requests is None:
            # most processes do not live as long as a lock: the links are opened when needed
            self._requests = Requests(self._clocks, self._host, f"{self._entity}/$management",
                                      self._session, self._timeout, self._fresh)
            self._requests.attach(self._engine)
        times = self._times
        self._requests.ask({"operation": OPERATION}, {"session-id": self._session_id},
                           lambda answer: self._answered(times, answer))

    def _answered(self, times: int, answer: "Response | exceptions.AmqpError") -> None:
        if times != self._times:
            return
        now = self._clocks.wall_clock()
        if isinstance(answer, Response) and answer.good:
            self._retry = self._fresh
            given = answer.body.get("expiration") if isinstance(answer.body, dict) else None
            self._ours_until(given / 1000 if isinstance(given, codec.Timestamp) else None)
            return
        reason = (f"status {answer.status}: {answer.description}"
                  if isinstance(answer, Response) else answer)
        delay = tokens.after_failure(self._until, now, self._retry.delay(self._clocks.rng))
        self._retry = self._retry.spent()
        LOG.warning("The lock on session %s of %s at %s was not renewed: %s; again in %.1f s",
                    self._session_id, self._entity, self._host, reason, delay)
        self._later(delay)
