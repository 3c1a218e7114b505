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
from functools import partial

from amqp1_driver import codec, exceptions
from amqp1_driver.addressing.base import Declaration, Entity, Node
from amqp1_driver.engine.connection import Engine
from amqp1_driver.engine.session import EngineSession
from amqp1_driver.interfaces import Scheduler, Timer, TokenSource
from amqp1_driver.policy import tokens
from amqp1_driver.policy.retry import Retry
from amqp1_driver.policy.tokens import Token
from amqp1_driver.provisioning.base import Done, missing_entities_error
from amqp1_driver.provisioning.requests import RequestNode, Requests, Response

LOG = exceptions.logger(__name__)

ADDRESS = "$cbs"
#: condition of the error for an entity that does not exist
_NOT_FOUND = "amqp:not-found"
#: statuses that refuse the token for its resource: a retry at once would not help
_REFUSALS = {401: "unauthorized", 403: "forbidden", 404: "not found"}


class Claim:
    """The token for one resource."""

    __slots__ = (
        "asked",
        "entity",
        "error",
        "expires",
        "postponed",
        "resource",
        "retry",
        "retry_at",
        "timer",
    )

    def __init__(self, resource: str, entity: Entity | None, retry: Retry) -> None:
        self.resource = resource
        #: None: the token is for all entities of the host
        self.entity = entity
        self.retry = retry
        #: end of the token that the peer has accepted, seconds since 1970; 0.0: none yet
        self.expires = 0.0
        #: True while the source makes a token, or a request puts it
        self.asked = False
        #: the last refusal; ``retry_at`` is the end of its back-off, on the loop's clock
        self.error: exceptions.AmqpError | None = None
        self.retry_at = 0.0
        self.timer: Timer | None = None
        #: True in the back-off after an attempt that was neither accepted nor refused
        self.postponed = False

    @property
    def name(self) -> str:
        """Return the name of the entity, for errors."""
        return str(self.entity) if self.entity is not None else "all entities"

    @property
    def absent(self) -> bool:
        """Return whether the last refusal said that the entity does not exist."""
        return self.error is not None and self.error.condition == _NOT_FOUND


class _Waiter:
    """A caller of :meth:`TokenProvisioner.ensure` that waits for several claims; ``done`` is called
    once.

    If entities are missing, ``done`` is called only after the answers for all claims, so that its
    error names every missing entity.  Any other refusal fails the caller at once.
    """

    __slots__ = ("_absent", "_done", "_missing")

    def __init__(self, missing: Iterable[Claim], done: Done) -> None:
        self._missing = set(missing)
        self._absent: list[Claim] = []
        self._done: Done | None = done

    def claim_answered(self, claim: Claim) -> None:
        """Count a claim as answered: it has a token, or its entity does not exist."""
        if claim.absent:
            self._absent.append(claim)
        self._missing.discard(claim)
        if not self._missing:
            self.finish(self._nothing_there())

    def _nothing_there(self) -> exceptions.AmqpError | None:
        error = self._absent[0].error if self._absent else None
        found = tuple(c.entity for c in self._absent if c.entity is not None)
        return missing_entities_error(error, found) if error is not None else None

    def finish(self, error: BaseException | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(error)


class TokenProvisioner:
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

    # -- the interface Provisioner --------------------------------------------------

    def delete_unused(
        self, nodes: tuple[Node, ...], readers: int, done: Callable[[bool], object]
    ) -> None:
        """Delete nothing, and call ``done`` at once: the entities do not belong to the driver."""
        done(True)

    #: always False, see :attr:`Provisioner.blocked`
    blocked = False

    def ensure(self, declare: tuple[Declaration, ...], done: Done) -> None:
        """Call ``done`` with None once the peer has accepted all tokens, or with the error."""
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
            waiter.claim_answered(claim)
        else:
            waiter.finish(claim.error)

    def known(self, node: Node) -> bool:
        return all(self._is_valid(claim) for claim in self._claims_for(node.declare))

    def on_forgotten(self, forgotten: Callable[[], object]) -> bool:
        """Return False: tokens expire by the clock, and nothing reports that."""
        return False

    def forget(self, node: Node) -> None:
        """Do nothing: the token stays valid even if the node was deleted."""

    def connection_lost(self, cause: BaseException) -> None:
        self._lost_cause = cause
        for claim in self._claims.values():
            self._stop(claim)
        self._requests.lost(cause)
        waiters, self._waiters = self._waiters, {}
        for waiter in [waiter for some in waiters.values() for waiter in some]:
            waiter.finish(cause)

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

    def _answered(
        self, claim: Claim, token: Token, answer: "Response | exceptions.AmqpError"
    ) -> None:
        if self._lost_cause is not None:
            return
        if isinstance(answer, exceptions.AmqpError):
            self._failed(claim, answer)
        elif answer.good:
            self._accepted(claim, token)
        elif answer.status in _REFUSALS:
            gone = answer.status == 404 and claim.entity is not None
            self._refused(
                claim,
                self._error(
                    claim,
                    f"refused with status {answer.status} ({_REFUSALS[answer.status]})",
                    answer.description,
                    exceptions.LinkFailed if gone else None,
                ),
            )
        else:
            self._failed(
                claim, self._error(claim, f"failed with status {answer.status}", answer.description)
            )

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
        claim.timer = self._scheduler.call_later(delay, partial(self._retry_now, claim))
        for waiter in self._waiters.pop(claim, []):
            waiter.claim_answered(claim)

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
            claim.timer = self._scheduler.call_later(delay, partial(self._retry_now, claim))
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
        claim.timer = self._scheduler.call_later(delay, partial(self._retry_now, claim))

    def _delay(self, claim: Claim) -> float:
        delay = claim.retry.delay(self._scheduler.rng)
        claim.retry = claim.retry.spent()
        if not self._is_valid(claim):
            return delay
        return tokens.after_failure(claim.expires, self._source.wall_clock(), delay)

    def _retry_now(self, claim: Claim) -> None:
        claim.timer = None
        self._ask(claim)

    def _error(
        self,
        claim: Claim,
        reason: str,
        text: str = "",
        absent: type[exceptions.AmqpError] | None = None,
    ) -> exceptions.AmqpError:
        kind = absent or exceptions.AuthenticationFailed
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
