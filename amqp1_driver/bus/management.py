# SPDX-License-Identifier: Apache-2.0

"""The node ``ENTITY/$management`` of an embedded Service Bus: message locks; bus thread only.

The source is Azure's "AMQP 1.0 in Azure Service Bus: request-response-based operations". The bus
implements only renew-lock, renew-session-lock and update-disposition.
"""

from __future__ import annotations

import uuid
from typing import Any

from proton import Message, int32, timestamp

from .engine import Engine
from .links import ACCEPTED, DELIVERY_FAILED, Outcome, rejected
from .locks import LOST, Lock, LockQueue
from .sessions import SessionQueue
from .tracking import tracked

_VENDOR = "com.microsoft:"


class _Failed(Exception):
    def __init__(self, status: int, condition: str, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.condition = condition


class ManagementNode:
    """The node that answers requests about one queue or subscription."""

    def __init__(self, queue: LockQueue | SessionQueue) -> None:
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
            what = "The session lock has expired on the session. Accept a new session."
            raise _Failed(410, _VENDOR + "session-lock-lost", what)
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
