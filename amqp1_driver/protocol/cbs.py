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


"""Claims-based security (AMQP CBS): a token for each node before links to it are opened.

Tokens are put into the node ``$cbs`` by requests, each for a *resource*, the URI of an entity or
of all that the host has.  A token is renewed while the old one still counts, so that traffic
goes on.  A refusal fails those who wait for it, and is kept for a while: who comes in the
meantime fails at once, who comes later has it tried again.  Any other failure is tried again as
long as somebody waits.  Sans-I/O; lives on the I/O thread.
"""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Declaration, Entity, Node
from amqp1_driver.policy import tokens
from amqp1_driver.policy.retry import Retry
from amqp1_driver.policy.tokens import Token
from amqp1_driver.protocol.engine import Engine
from amqp1_driver.protocol.engine_link import EngineSession
from amqp1_driver.protocol.link import Cancellable, Scheduler
from amqp1_driver.protocol.prepare import Done, nothing_there
from amqp1_driver.protocol.request import Requests, Response

LOG = logging.getLogger(__name__)

ADDRESS = "$cbs"
#: the token is no good for this, and will not get better by itself
_NOT_FOUND = "amqp:not-found"
_REFUSALS = {401: "unauthorized", 403: "forbidden", 404: "not found"}


class TokenSource(Protocol):
    """Where tokens come from, and the clock by which they expire."""

    def wall_clock(self) -> float:
        """Seconds since 1970."""
        ...

    def fetch(self, resource: str, done: Callable[[Token | Exception], None]) -> None:
        """Make a token; ``done`` is called on the I/O thread, in here or within a deadline."""
        ...


class Claim:
    """The token for one resource."""

    __slots__ = ("asked", "entity", "error", "expires", "resource", "retry", "retry_at", "timer")

    def __init__(self, resource: str, entity: Entity | None, retry: Retry) -> None:
        self.resource = resource
        #: None: all that there are
        self.entity = entity
        self.retry = retry
        #: end of the token that the peer has taken, seconds since 1970
        self.expires = 0.0
        #: a token is being made or put
        self.asked = False
        #: the last refusal, and when it may be tried again, on the loop's clock
        self.error: exceptions.AmqpError | None = None
        self.retry_at = 0.0
        self.timer: Cancellable | None = None

    @property
    def name(self) -> str:
        """For errors."""
        return str(self.entity) if self.entity is not None else "all entities"

    @property
    def absent(self) -> bool:
        """There is nothing to have a token for."""
        return self.error is not None and self.error.condition == _NOT_FOUND


class _Waiter:
    """Waits for several claims; told once.

    Of entities that are missing it is told when all have been asked for.
    """

    __slots__ = ("_absent", "_done", "_missing")

    def __init__(self, missing: Iterable[Claim], done: Done) -> None:
        self._missing = set(missing)
        self._absent: list[Claim] = []
        self._done: Done | None = done

    def met(self, claim: Claim) -> None:
        """There is a token, or there never will be."""
        if claim.absent:
            self._absent.append(claim)
        self._missing.discard(claim)
        if not self._missing:
            self.tell(self._nothing_there())

    def _nothing_there(self) -> exceptions.AmqpError | None:
        error = self._absent[0].error if self._absent else None
        found = tuple(c.entity for c in self._absent if c.entity is not None)
        return nothing_there(error, found) if error is not None else None

    def tell(self, error: BaseException | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(error)


class Claims:
    """Has tokens put for entities and tells when they are there, see the module.

    :param hostname: of the bus, for the URIs of its resources
    :param whole: one token for all that the host has
    :param retry: schedule of the waits after a failure
    :param timeout: for each request, seconds
    """

    def __init__(self, scheduler: Scheduler, host: str, hostname: str, whole: bool,
                 source: TokenSource, retry: Retry, timeout: float) -> None:
        self._scheduler = scheduler
        self._host = host
        self._base = f"sb://{hostname}/"
        self._whole = whole
        self._source = source
        self._retry = retry
        self._timeout = timeout
        self._requests: Requests | None = None
        self._claims: dict[str, Claim] = {}
        self._waiters: dict[Claim, list[_Waiter]] = {}
        self._gone: BaseException | None = None

    def attach(self, engine: Engine, session: Callable[[], EngineSession]) -> None:
        self._requests = Requests(self._scheduler, self._host, ADDRESS, session, self._timeout,
                                  self._retry)
        self._requests.attach(engine)

    # -- as the provisioner of nodes has it --------------------------------------

    def leave(self, nodes: tuple[Node, ...], readers: int,
              done: Callable[[bool], object]) -> None:
        """Entities are not ours."""
        done(True)

    def ensure(self, declare: tuple[Declaration, ...], done: Done) -> None:
        """Call ``done`` with None once there are tokens for all, or with the error."""
        if self._gone is not None:
            done(self._gone)
            return
        missing = dict.fromkeys(claim for claim in self._of(declare) if not self._good(claim))
        if not missing:
            done(None)
            return
        waiter = _Waiter(missing, done)
        for claim in missing:
            if claim.error is None or self._scheduler.now() >= claim.retry_at:
                self._waiters.setdefault(claim, []).append(waiter)
                self._ask(claim)
            else:
                self._tell(waiter, claim)

    @staticmethod
    def _tell(waiter: _Waiter, claim: Claim) -> None:
        if claim.error is None or claim.absent:
            waiter.met(claim)
        else:
            waiter.tell(claim.error)

    def known(self, node: Node) -> bool:
        return all(self._good(claim) for claim in self._of(node.declare))

    def tells(self, forgotten: Callable[[], object]) -> bool:
        """Tokens expire by the clock."""
        return False

    def forget(self, node: Node) -> None:
        """A node may have gone, the right to use it stays."""

    def connection_lost(self, cause: BaseException) -> None:
        self._gone = cause
        for claim in self._claims.values():
            self._stop(claim)
        if self._requests is not None:
            self._requests.lost(cause)
        waiters, self._waiters = self._waiters, {}
        for waiter in [waiter for some in waiters.values() for waiter in some]:
            waiter.tell(cause)

    # -- inner -----------------------------------------------------------------

    def _of(self, declare: Iterable[Declaration]) -> list[Claim]:
        found = []
        for entity in declare:
            if isinstance(entity, Entity):
                path = "" if self._whole else entity.name
                claim = self._claims.get(path)
                if claim is None:
                    claim = self._claims[path] = Claim(
                        self._base + path, None if self._whole else entity, self._retry)
                found.append(claim)
        return found

    def _good(self, claim: Claim) -> bool:
        return claim.expires > 0.0 and self._source.wall_clock() < claim.expires

    def _ask(self, claim: Claim) -> None:
        """Make a token and put it, unless that is under way."""
        if claim.asked or self._gone is not None:
            return
        self._stop(claim)
        claim.asked = True
        self._source.fetch(claim.resource, partial(self._fetched, claim))

    def _fetched(self, claim: Claim, token: Token | Exception) -> None:
        if self._gone is not None:
            return
        if isinstance(token, Exception) or self._requests is None:
            self._refused(claim, self._error(claim, f"no token can be had: {token}"))
            return
        properties = {"operation": "put-token", "type": token.type, "name": claim.resource,
                      "expiration": codec.Timestamp(round(token.expires * 1000))}
        self._requests.ask(properties, token.text, partial(self._answered, claim, token))

    def _answered(self, claim: Claim, token: Token,
                  answer: "Response | exceptions.AmqpError") -> None:
        if self._gone is not None:
            return
        if isinstance(answer, exceptions.AmqpError):
            self._failed(claim, answer)
        elif answer.good:
            self._accepted(claim, token)
        elif answer.status in _REFUSALS:
            gone = answer.status == 404 and claim.entity is not None
            self._refused(claim, self._error(
                claim, f"refused with status {answer.status} ({_REFUSALS[answer.status]})",
                answer.description, exceptions.LinkFailed if gone else None))
        else:
            self._failed(claim, self._error(claim, f"failed with status {answer.status}",
                                            answer.description))

    def _accepted(self, claim: Claim, token: Token) -> None:
        claim.asked = False
        claim.error = None
        claim.retry = self._retry
        claim.expires = token.expires
        now = self._source.wall_clock()
        if token.expires <= now:
            self._refused(claim, self._error(claim, "has expired already"))
            return
        LOG.debug("Token for %s on %s is good for %.0f s", claim.name, self._host,
                  token.expires - now)
        delay = tokens.renewal(token.expires, now, self._scheduler.rng)
        claim.timer = self._scheduler.call_later(delay, partial(self._again, claim))
        for waiter in self._waiters.pop(claim, []):
            waiter.met(claim)

    def _refused(self, claim: Claim, error: exceptions.AmqpError) -> None:
        """Those who wait have their answer; who comes soon has it too."""
        claim.asked = False
        claim.error = error
        delay = self._delay(claim)
        claim.retry_at = self._scheduler.now() + delay
        LOG.error("%s", error)
        if self._good(claim):
            claim.timer = self._scheduler.call_later(delay, partial(self._again, claim))
        for waiter in self._waiters.pop(claim, []):
            self._tell(waiter, claim)

    def _failed(self, claim: Claim, error: exceptions.AmqpError) -> None:
        """Nobody said no: try again as long as it is needed."""
        claim.asked = False
        if claim not in self._waiters and not self._good(claim):
            return
        delay = self._delay(claim)
        LOG.warning("No token could be put for %s on %s: %s; again in %.1f s", claim.name,
                    self._host, error, delay)
        claim.timer = self._scheduler.call_later(delay, partial(self._again, claim))

    def _delay(self, claim: Claim) -> float:
        delay = claim.retry.delay(self._scheduler.rng)
        claim.retry = claim.retry.spent()
        if not self._good(claim):
            return delay
        return tokens.after_failure(claim.expires, self._source.wall_clock(), delay)

    def _again(self, claim: Claim) -> None:
        claim.timer = None
        self._ask(claim)

    def _error(self, claim: Claim, reason: str, text: str = "",
               absent: type[exceptions.AmqpError] | None = None) -> exceptions.AmqpError:
        kind = absent or exceptions.AuthenticationFailed
        return kind(f"token for {claim.name}: {reason}", host=self._host,
                    condition=_NOT_FOUND if absent else None, description=text or None)

    @staticmethod
    def _stop(claim: Claim) -> None:
        if claim.timer is not None:
            claim.timer.cancel()
            claim.timer = None
