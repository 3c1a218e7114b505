# SPDX-License-Identifier: Apache-2.0

"""The notification of a service, and its three envelopes on the wire. Pure, for any thread."""

from __future__ import annotations

import datetime
import json
from typing import Any, NamedTuple

FORMS = ("amqp", "rabbit", "bare")
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Notification(NamedTuple):
    """A notification of a service; ``time`` is UTC without a zone."""

    time: datetime.datetime
    event_type: str
    publisher_id: str
    payload: dict[str, Any]
    request_id: str | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    priority: str = "INFO"
    message_id: str = ""

    def message(self) -> dict[str, Any]:
        """Return the message as oslo.messaging's notifier makes it."""
        return {
            "message_id": self.message_id,
            "publisher_id": self.publisher_id,
            "event_type": self.event_type,
            "priority": self.priority,
            "payload": self.payload,
            "timestamp": str(self.time),
        }

    def context(self) -> dict[str, Any]:
        """Return the request's context without its secrets; empty if there is no request."""
        if self.request_id is None:
            return {}
        return {
            "request_id": self.request_id,
            "project_id": self.tenant_id,
            "user_id": self.user_id,
        }

    def body(self, form: str = "amqp") -> bytes:
        """Return the body of the message on the wire.

        :param form: the envelope: ``amqp`` is this driver's, ``rabbit`` that of oslo.messaging's
            rabbit driver; ``bare`` means without envelope and context
        :raises ValueError: ``form`` is none of these
        """
        message = self.message()
        if form == "amqp":
            inner = {"oslo.version": "2.0", "oslo.message": _encode(message)}
            return _encode({"request": inner, "context": self.context()}).encode()
        if form == "rabbit":
            message["_unique_id"] = self.message_id
            message.update((f"_context_{key}", value) for key, value in self.context().items())
            return _encode({"oslo.version": "2.0", "oslo.message": _encode(message)}).encode()
        if form == "bare":
            return _encode(message).encode()
        raise ValueError(f"form {form!r} is none of {', '.join(FORMS)}")
