# SPDX-License-Identifier: Apache-2.0

"""Nodes of an embedded Service Bus that answer requests: ``$cbs`` and ``ENTITY/$management``.

A client attaches a pair of links to such a node. It sends requests on one link and receives replies
on the other (OASIS "AMQP Management" 1.0 working draft, section 3). ``$cbs`` accepts the tokens of
a connection (OASIS working draft "AMQP Claims-based Security", Azure's "AMQP 1.0 protocol guide").
``$management`` is about the locks of one entity (Azure's "AMQP 1.0 in Azure Service Bus:
request-response-based operations"). Bus thread only.
"""

from __future__ import annotations

import uuid
import weakref
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

from proton import Message, MessageException, int32, timestamp

from .engine import Engine
from .entities import LOST, SESSION_LOST, Lock, LockQueue, SessionQueue, tracked
from .links import ACCEPTED, DELIVERY_FAILED, Consumer, Outcome, Producer, Transfer, rejected
from .sas import BadToken, Grant, Resource, check, resource

if TYPE_CHECKING:
    from .servicebus import ServiceBus

#: Maximum number of replies that wait for the credit of one link; the node then refuses requests.
_WAITING = 1000
#: Types of tokens that the node accepts. Azure's guide names ``amqp:jwt`` and ``amqp:swt``;
#: Microsoft's SDK sends ``jwt``.
_TYPES = ("servicebus.windows.net:sastoken", "jwt", "amqp:jwt", "amqp:swt")
_VENDOR = "com.microsoft:"


class _Forgotten:
    """A reply in flight; its outcome has no effect."""

    def settle(self, outcome: Outcome) -> None:
        pass


class RequestNode(ABC):
    """A node that answers requests."""

    def __init__(self) -> None:
        #: Reply link -> replies that wait for its credit.
        self._waiting: dict[Consumer, deque[bytes]] = {}

    @abstractmethod
    def answer(self, engine: Engine, request: Message) -> Message:
        """Execute a request; return the reply without its correlation-id.

        :param engine: the connection of the client
        """

    def attach(self, consumer: Consumer) -> RequestNode:
        """Register a reply link of a client."""
        self._waiting[consumer] = deque()
        return self

    def detach(self, consumer: Consumer) -> None:
        """Remove a reply link."""
        self._waiting.pop(consumer, None)

    def flow(self, consumer: Consumer) -> None:
        """Send the replies that waited for this credit."""
        waiting = self._waiting[consumer]
        while waiting and consumer.credit > 0:
            consumer.send(waiting.popleft(), _Forgotten())

    def request(self, transfer: Transfer) -> None:
        """Execute a request and send the reply; without a reply link, discard the reply."""
        request = Message()
        try:
            request.decode(transfer.data)
        except MessageException as exc:
            transfer.settle(rejected("amqp:decode-error", str(exc)))
            return
        consumer = self._link_for(transfer.producer, request.reply_to)
        if consumer is not None and len(self._waiting[consumer]) >= _WAITING:
            what = f"{_WAITING} replies wait for credit"
            transfer.settle(rejected("amqp:resource-limit-exceeded", what))
            return
        reply = self.answer(transfer.producer.engine, request)
        transfer.settle(ACCEPTED)
        if consumer is not None and not consumer.closed:
            reply.address = request.reply_to
            reply.correlation_id = request.id
            self._waiting[consumer].append(bytes(reply.encode()))
            self.flow(consumer)

    def _link_for(self, producer: Producer, reply_to: str | None) -> Consumer | None:
        """Find the reply link for a producer.

        :returns: the reply link on the producer's connection whose target address is ``reply_to``;
            otherwise the first reply link on that connection, None without any
        """
        links = [c for c in self._waiting if c.engine is producer.engine]
        for consumer in links:
            if reply_to and consumer.link.remote_target.address == reply_to:
                return consumer
        return links[0] if links else None


class Claims:
    """The rights of one connection.

    :param always: rights by SASL, for all entities and without expiry
    """

    def __init__(self, always: frozenset[str] = frozenset()) -> None:
        self.always = always
        self.grants: dict[Resource, Grant] = {}
        #: True while the connection has no rights by SASL and has never put a valid token.
        self.nobody = not always

    def allow(self, path: str, right: str) -> bool:
        """Return whether SASL or a token gives ``right`` on the entity at ``path``."""
        if right in self.always:
            return True
        wanted = Resource("", path)
        return any(r.covers(wanted) and right in g.rights for r, g in self.grants.items())


class ClaimsNode(RequestNode):
    """The node ``$cbs``, which handles put-token."""

    def __init__(self, bus: ServiceBus) -> None:
        super().__init__()
        self._bus = bus

    def answer(self, engine: Engine, request: Message) -> Message:
        """Handle a put-token request; return the reply with the status."""
        try:
            self._put(engine, request)
        except BadToken as exc:
            return _reply(exc.status, tracked(str(exc)))
        return _reply(202, "Accepted")

    def _put(self, engine: Engine, request: Message) -> None:
        properties = request.properties or {}
        operation, kind = properties.get("operation"), properties.get("type")
        name = properties.get("name")
        if operation != "put-token":
            raise BadToken(400, f"BadRequest: unknown operation {operation!r}")
        if kind not in _TYPES:
            raise BadToken(400, f"BadRequest: unknown type of token {kind!r}")
        if not isinstance(name, str) or not name:
            raise BadToken(400, "BadRequest: the application property 'name' is missing")
        if not isinstance(request.body, str):
            raise BadToken(400, "BadRequest: the token must be an amqp-value string")
        audience, bus = resource(name), self._bus
        grant = check(request.body, bus.rules, bus.namespace.jwt_secret, bus.wall())
        if not grant.scope.covers(audience):
            raise BadToken(401, f"InvalidAudience: The token is not for {name}")
        if audience.path and not bus.known(audience.path):
            raise BadToken(404, f"The messaging entity '{name}' could not be found.")
        self._grant(engine, Resource("", audience.path), grant)

    def _grant(self, engine: Engine, audience: Resource, grant: Grant) -> None:
        claims: Claims = engine.context
        claims.nobody = False
        claims.grants[audience] = grant
        due = self._bus.clock() + grant.expires - self._bus.wall()
        # A token may be valid for hours while its connection is short: the weak reference keeps the
        # timer from holding the connection in memory.
        weak = weakref.ref(engine)
        self._bus.later(due, lambda: self._expire(weak(), audience, grant))

    def _expire(self, engine: Engine | None, audience: Resource, grant: Grant) -> None:
        """Remove the grant of an expired token, unless a newer token has replaced it."""
        if engine is None:
            return
        claims: Claims = engine.context
        if claims.grants.get(audience) is grant:
            del claims.grants[audience]
            self._bus.check_links(engine)


def _reply(status: int, description: str) -> Message:
    reply = Message()
    reply.properties = {"status-code": int32(status), "status-description": description}
    return reply


class _Failed(Exception):
    def __init__(self, status: int, condition: str, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.condition = condition


class ManagementNode(RequestNode):
    """The node ``$management`` of one queue or subscription.

    The bus implements only renew-lock, renew-session-lock and update-disposition.
    """

    def __init__(self, queue: LockQueue | SessionQueue) -> None:
        super().__init__()
        self._queue = queue
        self._operations = {
            _VENDOR + "renew-lock": self._renew,
            _VENDOR + "renew-session-lock": self._renew_session,
            _VENDOR + "update-disposition": self._settle,
        }

    def answer(self, engine: Engine, request: Message) -> Message:
        """Execute the operation in the application property ``operation``; return the reply."""
        operation = (request.properties or {}).get("operation")
        reply = Message(body={})
        try:
            work = self._operations.get(str(operation))
            if work is None:
                what = f"The operation {operation!r} is not implemented here."
                raise _Failed(501, "amqp:not-implemented", what)
            reply.body = work(request.body if isinstance(request.body, dict) else {})
            reply.properties = {"statusCode": int32(200), "statusDescription": "OK"}
        except _Failed as exc:
            reply.properties = {
                "statusCode": int32(exc.status),
                "statusDescription": tracked(str(exc)),
                "errorCondition": exc.condition,
            }
        return reply

    def _locks(self, body: dict[Any, Any]) -> list[Lock]:
        """Return the locks that a request names.

        :raises _Failed: one of them is not held, or the request names none
        """
        tokens = body.get("lock-tokens")
        values = list(getattr(tokens, "elements", tokens) or ())
        locks = [self._queue.find(t) if isinstance(t, uuid.UUID) else None for t in values]
        held = [lock for lock in locks if lock is not None]
        if not values or len(held) < len(values):
            raise _Failed(410, str(LOST.condition.name), str(LOST.condition.description))
        return held

    def _renew(self, body: dict[Any, Any]) -> dict[str, Any]:
        until = [lock.queue.renew(lock) for lock in self._locks(body)]
        return {"expirations": [timestamp(int(seconds * 1000)) for seconds in until]}

    def _renew_session(self, body: dict[Any, Any]) -> dict[str, Any]:
        until = None
        if isinstance(self._queue, SessionQueue):
            until = self._queue.renew_session(str(body.get("session-id")))
        if until is None:
            raise _Failed(410, _VENDOR + "session-lock-lost", SESSION_LOST)
        return {"expiration": timestamp(int(until * 1000))}

    def _settle(self, body: dict[Any, Any]) -> dict[str, Any]:
        outcome = _outcome(body)
        for lock in self._locks(body):
            lock.settle(outcome)
            lock.queue.dispatch()
        return {}


def _outcome(body: dict[Any, Any]) -> Outcome:
    status = body.get("disposition-status")
    if status == "completed":
        return ACCEPTED
    if status == "abandoned":
        return DELIVERY_FAILED
    if status == "suspended":
        outcome = rejected(_VENDOR + "dead-letter", str(body.get("deadletter-description") or ""))
        outcome.condition.info = {"DeadLetterReason": body.get("deadletter-reason")}
        return outcome
    raise _Failed(400, "amqp:not-allowed", f"The status {status!r} is not implemented here.")
