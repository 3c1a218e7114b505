# SPDX-License-Identifier: Apache-2.0

"""Codec of messages (3.2): sections to bytes and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import types
from .performatives import Composite
from .types import Described, Symbol, ULong, WireError, encode


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


# sections that are not composites: numeric descriptor -> symbolic descriptor, and either the kind
# of body or the attribute of Message that holds the map
_SECTIONS = {
    0x71: ("amqp:delivery-annotations:map", "delivery_annotations"),
    0x72: ("amqp:message-annotations:map", "message_annotations"),
    0x74: ("amqp:application-properties:map", "application_properties"),
    0x75: ("amqp:data:binary", "data"),
    0x76: ("amqp:amqp-sequence:list", "sequence"),
    0x77: ("amqp:amqp-value:*", "value"),
    0x78: ("amqp:footer:map", "footer"),
}
_NAMES = {symbol: code for code, (symbol, _) in _SECTIONS.items()}
_BODIES = {kind: code for code, (_, kind) in _SECTIONS.items() if 0x75 <= code <= 0x77}


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
        parts: list[Any] = [self.header if self.header != Header() else None]
        parts.append(_section(0x71, self.delivery_annotations))
        parts.append(_section(0x72, self.message_annotations))
        parts.append(self.properties if self.properties != Properties() else None)
        parts.append(_section(0x74, self.application_properties))
        if self.kind is not None:
            parts.append(Described(ULong(_BODIES[self.kind]), self.body))
        parts.append(_section(0x78, self.footer))
        return b"".join(encode(part) for part in parts if part is not None)


def _section(code: int, value: dict[Any, Any]) -> Described | None:
    return Described(ULong(code), value) if value else None


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
    code = section.descriptor if isinstance(section, Described) else None
    if isinstance(code, Symbol):
        code = _NAMES.get(code)
    if not isinstance(code, int) or code not in _SECTIONS:
        raise WireError(f"not a message section: {section!r}")
    return int(code)


def _add(message: Message, code: int, section: Any) -> None:
    if isinstance(section, Header):
        message.header = section
    elif isinstance(section, Properties):
        message.properties = section
    elif (name := _SECTIONS[code][1]) not in _BODIES:
        setattr(message, name, section.value)
    else:
        body = section.value
        if name != "value":
            body = (message.body if message.body is not None else type(body)()) + body
        message.kind, message.body = name, body
