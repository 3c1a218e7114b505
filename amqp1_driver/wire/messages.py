# SPDX-License-Identifier: Apache-2.0

"""Codec of messages (3.2): sections to bytes and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import types
from .performatives import Composite
from .types import Described, Symbol, ULong, WireError


class Header(Composite, code=0x70, types="bool ubyte uint bool uint"):
    """The header section (3.2.1)."""

    durable: bool | None = None
    priority: int | None = None
    ttl: int | None = None
    first_acquirer: bool | None = None
    delivery_count: int | None = None


class Properties(
    Composite,
    code=0x73,
    types="* binary * string * * symbol symbol timestamp timestamp string uint string",
):
    """The properties section (3.2.4)."""

    message_id: Any = None
    user_id: bytes | None = None
    to: Any = None
    subject: str | None = None
    reply_to: Any = None
    correlation_id: Any = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


# sections that are not composites: descriptor -> attribute of Message
_MAPS = {
    0x71: "delivery_annotations",
    0x72: "message_annotations",
    0x74: "application_properties",
    0x78: "footer",
}
_SECTION_NAMES = {
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": 0x72,
    "amqp:application-properties:map": 0x74,
    "amqp:data:binary": 0x75,
    "amqp:amqp-sequence:list": 0x76,
    "amqp:amqp-value:*": 0x77,
    "amqp:footer:map": 0x78,
}


@dataclass
class Message:
    """The sections of a message; ``kind`` names the body section, None if there is none.

    kind: "value" (body: any), "data" (body: bytes, joined) or "sequence" (body: list).
    """

    body: Any = None
    kind: str | None = "value"
    header: Header = field(default_factory=Header)
    properties: Properties = field(default_factory=Properties)
    application_properties: dict[Any, Any] = field(default_factory=dict)
    delivery_annotations: dict[Any, Any] = field(default_factory=dict)
    message_annotations: dict[Any, Any] = field(default_factory=dict)
    footer: dict[Any, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Encode the sections in their order, without the empty ones."""
        parts = [types.encode(self.header) if self.header != Header() else b""]
        parts.append(_section(0x71, self.delivery_annotations))
        parts.append(_section(0x72, self.message_annotations))
        parts.append(types.encode(self.properties) if self.properties != Properties() else b"")
        parts.append(_section(0x74, self.application_properties))
        if self.kind is not None:
            code = {"data": 0x75, "sequence": 0x76, "value": 0x77}[self.kind]
            parts.append(types.encode(Described(ULong(code), self.body)))
        parts.append(_section(0x78, self.footer))
        return b"".join(parts)


def _section(code: int, value: dict[Any, Any]) -> bytes:
    return types.encode(Described(ULong(code), value)) if value else b""


def decode(data: bytes) -> Message:
    """Decode the message in ``data``.

    :raises WireError: the message is malformed or has sections out of order
    """
    message, offset, last = Message(kind=None), 0, 0
    while offset < len(data):
        section, offset = types.decode(data, offset)
        code = _code(section)
        if code < last or (code == last and code not in (0x75, 0x76)):
            raise WireError(f"section 0x{code:02x} after section 0x{last:02x}")
        last = code
        _add(message, code, section)
    return message


def _code(section: Any) -> int:
    if isinstance(section, (Header, Properties)):
        return section.code
    descriptor = section.descriptor if isinstance(section, Described) else None
    if isinstance(descriptor, Symbol):
        descriptor = _SECTION_NAMES.get(descriptor)
    if not isinstance(descriptor, int) or descriptor not in _SECTION_NAMES.values():
        raise WireError(f"not a message section: {section!r}")
    return int(descriptor)


def _add(message: Message, code: int, section: Any) -> None:
    if code == Header.code:
        message.header = section
    elif code == Properties.code:
        message.properties = section
    elif code in _MAPS:
        setattr(message, _MAPS[code], section.value)
    else:
        body = section.value
        if code == 0x75 or code == 0x76:
            body = (message.body if message.body is not None else type(body)()) + body
        message.kind = {0x75: "data", 0x76: "sequence", 0x77: "value"}[code]
        message.body = body
