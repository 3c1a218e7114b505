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

"""A notification before it is on the wire, and the three envelopes."""

from __future__ import annotations

import datetime
import json
from typing import Any, NamedTuple

FORMS = ("amqp", "rabbit", "bare")
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Notification(NamedTuple):
    """What a service tells; ``time`` is UTC without a zone."""

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
        """As oslo.messaging's notifier makes it."""
        return {"message_id": self.message_id, "publisher_id": self.publisher_id,
                "event_type": self.event_type, "priority": self.priority,
                "payload": self.payload, "timestamp": str(self.time)}

    def context(self) -> dict[str, Any]:
        """What is left of a request's context when its secrets are gone."""
        if self.request_id is None:
            return {}
        return {"request_id": self.request_id, "project_id": self.tenant_id,
                "user_id": self.user_id}

    def body(self, form: str = "amqp") -> bytes:
        """The body on the wire.

        :param form: ``amqp`` this driver's, ``rabbit`` that of oslo.messaging's rabbit driver,
            ``bare`` without envelope and context
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
