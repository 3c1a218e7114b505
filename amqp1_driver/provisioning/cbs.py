# SPDX-License-Identifier: Apache-2.0

"""Claims-based security (AMQP CBS): a token for each node before the driver opens links to it.

A request to the node ``$cbs`` puts a token for one *resource*: the URI of an entity, or of the
whole host.  The driver renews a token while the old one is still valid, so that traffic continues.
A refusal fails the callers that wait for the token.  The driver keeps the refusal for a while: a
caller in that time fails at once, a later caller starts another attempt.  After any other failure
the driver retries as long as a caller waits or the old token is still valid.
Sans-I/O; lives on the I/O thread.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Declaration, Entity, Node
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.session import EngineSession
from amqp1_driver.interfaces import Scheduler, Timer, TokenSource
from amqp1_driver.policy import tokens
from amqp1_driver.policy.retry import Retry
from amqp1_driver.policy.tokens import Token
from amqp1_driver.provisioning.base import (
    Done,
    Provisioner,
    Waiter,
    finish_all,
    missing_entities_error,
)
from amqp1_driver.provisioning.requests import Answer, RequestNode, Requests

LOG = exceptions.logger(__name__)

ADDRESS = "$cbs"
#: condition of the error for an entity that does not exist
_NOT_FOUND = "amqp:not-found"
#: statuses that refuse the token for its resource: a retry at once would not help
_REFUSALS = {401: "unauthorized", 403: "forbidden", 404: "not found"}


@dataclass(slots=True, eq=False)
class Claim:
    """The token for one resource.

    :param entity: None: the token is for all entities of the host
    :param expires: end of the token that the peer has accepted, seconds since 1970; 0.0: none yet
    :param asked: the source makes a token, or a request puts it
    :param error: the last refusal
    :param retry_at: end of the back-off after the last refusal, on the loop's clock
    :param postponed: in the back-off after an attempt that was neither accepted nor refused
    """

    resource: str
    entity: Entity | None
    retry: Retry
    expires: float = 0.0
    asked: bool = False
    error: exceptions.AmqpError | None = None
    retry_at: float = 0.0
    timer: Timer | None = None
    postponed: bool = False

    @property
    def name(self) -> str:
        """Return the name of the entity, for errors."""
        return str(self.entity) if self.entity is not None else "all entities"

    @property
    def absent(self) -> bool:
        """Return whether the last refusal said that the entity does not exist."""
        return self.error is not None and self.error.condition == _NOT_FOUND


class _Waiter(Waiter[Claim]):
    """A caller that waits for several claims.

    If entities are missing, ``done`` is called only after the answers for all claims, so that its
    error names every missing entity.  Any other refusal fails the caller at once.
    """

    __slots__ = ("_absent",)

    def __init__(self, missing: Iterable[Claim], done: Done) -> None:
        super().__init__(missing, done)
        self._absent: list[Claim] = []

    def answered(self, item: Claim) -> None:
        """Count a claim as answered: it has a token, or its entity does not exist."""
        if item.absent:
            self._absent.append(item)
        super().answered(item)

    def finish(self, error: BaseException | None) -> None:
        first = self._absent[0].error if self._absent else None
        if error is None and first is not None:
            found = tuple(c.entity for c in self._absent if c.entity is not None)
            error = missing_entities_error(first, found)
        super().finish(error)


class TokenProvisioner(Provisioner):
    """The tokens on one physical connection: put before links are opened, then renewed.

    :param hostname: of the bus, for the URIs of its resources
    :param whole: True: one token for all entities of the host; False: one for each entity
    :param retry: schedule of the waits after a failure
    :param timeout: for each request, seconds
    """

    def __init__(
        self,
        scheduler: Scheduler,
        host: str,
        hostname: str,
        whole: bool,
        source: TokenSource,
        retry: Retry,
        timeout: float,
    ) -> None:
        self._scheduler = scheduler
        self._host = host
        self._base = f"sb://{hostname}/"
        self._whole = whole
        self._source = source
        self._retry = retry
        self._requests = Requests(scheduler, host, RequestNode(ADDRESS), timeout, retry)
        self._claims: dict[str, Claim] = {}
        self._waiters: dict[Claim, list[_Waiter]] = {}
        self._lost_cause: BaseException | None = None

    def attach(self, engine: Engine, session: Callable[[], EngineSession]) -> None:
        self._requests.attach(engine, session)

    def ensure(self, declare: tuple[Declaration, ...], done: Done) -> None:
        if self._lost_cause is not None:
            done(self._lost_cause)
            return
        missing = dict.fromkeys(
            claim for claim in self._claims_for(declare) if not self._is_valid(claim)
        )
        if not missing:
            done(None)
            return
        waiter = _Waiter(missing, done)
        for claim in missing:
            if claim.error is None or self._scheduler.now() >= claim.retry_at:
                self._waiters.setdefault(claim, []).append(waiter)
                if not claim.postponed:
                    self._ask(claim)
            else:
                self._tell(waiter, claim)

    @staticmethod
    def _tell(waiter: _Waiter, claim: Claim) -> None:
        if claim.error is None or claim.absent:
            waiter.answered(claim)
        else:
            waiter.finish(claim.error)

    def known(self, node: Node) -> bool:
        return all(self._is_valid(claim) for claim in self._claims_for(node.declare))

    def forget(self, node: Node) -> None:
        """Do nothing: the token stays valid even if the node was deleted."""

    def connection_lost(self, cause: BaseException) -> None:
        self._lost_cause = cause
        for claim in self._claims.values():
            self._stop(claim)
        self._requests.lost(cause)
        waiters, self._waiters = self._waiters, {}
        finish_all(waiters, cause)

    # -- inner -----------------------------------------------------------------

    def _claims_for(self, declare: Iterable[Declaration]) -> list[Claim]:
        found = []
        for entity in declare:
            if isinstance(entity, Entity):
                path = "" if self._whole else entity.name
                claim = self._claims.get(path)
                if claim is None:
                    claim = self._claims[path] = Claim(
                        self._base + path, None if self._whole else entity, self._retry
                    )
                found.append(claim)
        return found

    def _is_valid(self, claim: Claim) -> bool:
        return claim.expires > 0.0 and self._source.wall_clock() < claim.expires

    def _ask(self, claim: Claim) -> None:
        """Make a token and put it, unless an attempt for this claim is under way."""
        if claim.asked or self._lost_cause is not None:
            return
        self._stop(claim)
        claim.asked = True
        claim.postponed = False
        self._source.fetch(claim.resource, partial(self._fetched, claim))

    def _fetched(self, claim: Claim, token: Token | Exception) -> None:
        if self._lost_cause is not None:
            return
        if isinstance(token, Exception):
            self._refused(claim, self._error(claim, f"no token can be had: {token}"))
            return
        properties = {
            "operation": "put-token",
            "type": token.type,
            "name": claim.resource,
            "expiration": codec.Timestamp(round(token.expires * 1000)),
        }
        encode = partial(
            codec.encode_message, token.text, to=ADDRESS, application_properties=properties
        )
        self._requests.ask(encode, partial(self._answered, claim, token))

    def _answered(self, claim: Claim, token: Token, answer: Answer) -> None:
        if self._lost_cause is not None:
            return
        if isinstance(answer, exceptions.AmqpError):
            self._failed(claim, answer)
        elif answer.good:
            self._accepted(claim, token)
        elif answer.status in _REFUSALS:
            reason = f"refused with status {answer.status} ({_REFUSALS[answer.status]})"
            absent = answer.status == 404 and claim.entity is not None
            self._refused(claim, self._error(claim, reason, answer.description, absent))
        else:
            reason = f"failed with status {answer.status}"
            self._failed(claim, self._error(claim, reason, answer.description))

    def _accepted(self, claim: Claim, token: Token) -> None:
        claim.asked = False
        claim.error = None
        claim.retry = self._retry
        claim.expires = token.expires
        now = self._source.wall_clock()
        if token.expires <= now:
            self._refused(claim, self._error(claim, "has expired already"))
            return
        LOG.debug(
            "Token for %s on %s is good for %.0f s", claim.name, self._host, token.expires - now
        )
        delay = tokens.renewal(token.expires, now, self._scheduler.rng)
        self._ask_after(delay, claim)
        for waiter in self._waiters.pop(claim, []):
            waiter.answered(claim)

    def _refused(self, claim: Claim, error: exceptions.AmqpError) -> None:
        """Give ``error`` to the callers that wait for the claim, and keep it until ``retry_at``.

        While the old token is still valid, a timer starts the next attempt.
        """
        claim.asked = False
        claim.error = error
        delay = self._delay(claim)
        claim.retry_at = self._scheduler.now() + delay
        LOG.error("%s", error)
        if self._is_valid(claim):
            self._ask_after(delay, claim)
        for waiter in self._waiters.pop(claim, []):
            self._tell(waiter, claim)

    def _failed(self, claim: Claim, error: exceptions.AmqpError) -> None:
        """Retry after the back-off, while a caller waits or the old token is still valid.

        The peer has not refused the token, so the callers keep waiting.
        """
        claim.asked = False
        if claim not in self._waiters and not self._is_valid(claim):
            return
        delay = self._delay(claim)
        LOG.warning(
            "No token could be put for %s on %s: %s; again in %.1f s",
            claim.name,
            self._host,
            error,
            delay,
        )
        claim.postponed = True
        self._ask_after(delay, claim)

    def _delay(self, claim: Claim) -> float:
        delay = claim.retry.delay(self._scheduler.rng)
        claim.retry = claim.retry.spent()
        if not self._is_valid(claim):
            return delay
        return tokens.after_failure(claim.expires, self._source.wall_clock(), delay)

    def _ask_after(self, delay: float, claim: Claim) -> None:
        claim.timer = self._scheduler.call_later(delay, partial(self._ask, claim))

    def _error(
        self, claim: Claim, reason: str, text: str = "", absent: bool = False
    ) -> exceptions.AmqpError:
        kind = exceptions.LinkFailed if absent else exceptions.AuthenticationFailed
        return kind(
            f"token for {claim.name}: {reason}",
            host=self._host,
            condition=_NOT_FOUND if absent else None,
            description=text or None,
        )

    @staticmethod
    def _stop(claim: Claim) -> None:
        if claim.timer is not None:
            claim.timer.cancel()
            claim.timer = None
