# SPDX-License-Identifier: Apache-2.0

"""The composite types of AMQP 1.0 (2.7, 2.8, 3.4, 3.5, 5.3.3), named as in the specification.

Each class lists its fields in wire order. A field without default is mandatory: decoding a frame
raises WireError if such a field is missing or any field has the wrong type.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, ClassVar, Self, dataclass_transform

from .types import (
    COMPOSITES,
    NAMES,
    Array,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    WireError,
    encode,
    encode_compound,
)

SENDER, RECEIVER = False, True  # role (2.8.1)

# name of a field's type -> Python types of a decoded value; "*" is any type, "symbols" a symbol
# with multiple="true" (1.4)
_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "ubyte": (UByte,),
    "ushort": (UShort,),
    "uint": (UInt,),
    "ulong": (ULong,),
    "string": (str,),
    "symbol": (Symbol,),
    "binary": (bytes,),
    "map": (dict,),
    "symbols": (Symbol, Array, list),
    "timestamp": (Timestamp,),
    "*": (object,),
}
#: Types of fields whose value may also be a plain int or str.
_WRAPPED = ("ubyte", "ushort", "uint", "ulong", "symbol", "timestamp")


@dataclass_transform(kw_only_default=True)
class Composite:
    """Base class: a described list, descriptor ulong ``code`` or symbol ``amqp:<name>:list``.

    Each subclass is a dataclass; ``types`` has the AMQP types of its fields.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    code: ClassVar[int]
    _types: ClassVar[list[str]]

    def __init_subclass__(cls, code: int, types: str = "") -> None:
        dataclasses.dataclass(kw_only=True, repr=False)(cls)
        cls.code = code
        cls._types = types.split()
        COMPOSITES[code] = cls
        name = re.sub("(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()
        NAMES[f"amqp:{name}:list"] = code

    def __repr__(self) -> str:
        """Return the fields that differ from the defaults, to keep failure messages short."""
        shown = (
            f"{item.name}={getattr(self, item.name)!r}"
            for item in dataclasses.fields(self)
            if getattr(self, item.name) != item.default
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    def field_names(cls) -> list[str]:
        """Return the field names in wire order."""
        return [item.name for item in dataclasses.fields(cls)]

    def encode_described(self) -> bytes:
        """Encode descriptor and list, without trailing null fields (1.4)."""
        values = [getattr(self, name) for name in self.field_names()]
        while values and values[-1] is None:
            values.pop()
        parts = list(map(_encode_field, self._types, values))
        body = encode_compound(0xC0, len(parts), b"".join(parts))
        return b"\x00" + encode(ULong(self.code)) + body

    @classmethod
    def from_fields(cls, values: Any) -> Self:
        """Create an object from the decoded list.

        :raises WireError: a field is missing, wrong or surplus
        """
        names = cls.field_names()
        if not isinstance(values, list) or len(values) > len(names):
            raise WireError(f"{cls.__name__} is not a list of at most {len(names)} fields")
        given: dict[str, Any] = {}
        for name, kind, value in zip(names, cls._types, values, strict=False):
            if value is None:
                continue  # null stands for the default (1.4)
            wrong = kind == "string" and isinstance(value, Symbol)
            if wrong or not isinstance(value, _KINDS[kind]):
                raise WireError(f"{cls.__name__}.{name} must be {kind}, not {value!r}")
            given[name] = _symbols(value) if kind == "symbols" else value
        try:
            return cls(**given)
        except TypeError as exc:
            raise WireError(f"mandatory field missing: {exc}") from exc


def _symbols(value: Any) -> list[Any]:
    if isinstance(value, Array):
        return list(value.items)
    return value if isinstance(value, list) else [value]


def _encode_field(kind: str, value: Any) -> bytes:
    if value is None or isinstance(value, Array):
        return encode(value)
    if kind == "symbols":
        items = [value] if isinstance(value, str) else list(value)
        return encode(Symbol(items[0]) if len(items) == 1 else Array(0xB3, items))
    return encode(_KINDS[kind][0](value) if kind in _WRAPPED else value)


class Open(
    Composite,
    code=0x10,
    types="string string uint ushort uint symbols symbols symbols symbols map",
):
    """The open performative (2.7.1)."""

    container_id: str
    hostname: str | None = None
    max_frame_size: int = 4294967295
    channel_max: int = 65535
    idle_time_out: int | None = None
    outgoing_locales: list[str] | None = None
    incoming_locales: list[str] | None = None
    offered_capabilities: list[str] | None = None
    desired_capabilities: list[str] | None = None
    properties: dict[Any, Any] | None = None


class Begin(Composite, code=0x11, types="ushort uint uint uint uint symbols symbols map"):
    """The begin performative (2.7.2)."""

    remote_channel: int | None = None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = 4294967295
    offered_capabilities: list[str] | None = None
    desired_capabilities: list[str] | None = None
    properties: dict[Any, Any] | None = None


class Attach(
    Composite,
    code=0x12,
    types="string uint bool ubyte ubyte * * map bool uint ulong symbols symbols map",
):
    """The attach performative (2.7.3).

    snd_settle_mode: 0 unsettled, 1 settled, 2 mixed; rcv_settle_mode: 0 first, 1 second.
    """

    name: str
    handle: int
    role: bool
    snd_settle_mode: int = 2
    rcv_settle_mode: int = 0
    source: Any = None
    target: Any = None
    unsettled: dict[Any, Any] | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: list[str] | None = None
    desired_capabilities: list[str] | None = None
    properties: dict[Any, Any] | None = None


class Flow(Composite, code=0x13, types="uint uint uint uint uint uint uint uint bool bool map"):
    """The flow performative (2.7.4)."""

    next_incoming_id: int | None = None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool = False
    echo: bool = False
    properties: dict[Any, Any] | None = None


class Transfer(
    Composite,
    code=0x14,
    types="uint uint binary uint bool bool ubyte * bool bool bool",
):
    """The transfer performative (2.7.5)."""

    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool = False
    rcv_settle_mode: int | None = None
    state: Any = None
    resume: bool = False
    aborted: bool = False
    batchable: bool = False


class Disposition(Composite, code=0x15, types="bool uint uint bool * bool"):
    """The disposition performative (2.7.6)."""

    role: bool
    first: int
    last: int | None = None
    settled: bool = False
    state: Any = None
    batchable: bool = False


class Detach(Composite, code=0x16, types="uint bool *"):
    """The detach performative (2.7.7)."""

    handle: int
    closed: bool = False
    error: Any = None


class End(Composite, code=0x17, types="*"):
    """The end performative (2.7.8)."""

    error: Any = None


class Close(Composite, code=0x18, types="*"):
    """The close performative (2.7.9)."""

    error: Any = None


class Error(Composite, code=0x1D, types="symbol string map"):
    """The error of a detach, end, close or outcome (2.8.14)."""

    condition: str
    description: str | None = None
    info: dict[Any, Any] | None = None


class Received(Composite, code=0x23, types="uint ulong"):
    """The received delivery state (3.4.1)."""

    section_number: int
    section_offset: int


class Accepted(Composite, code=0x24):
    """The accepted outcome (3.4.2)."""


class Rejected(Composite, code=0x25, types="*"):
    """The rejected outcome (3.4.3)."""

    error: Any = None


class Released(Composite, code=0x26):
    """The released outcome (3.4.4)."""


class Modified(Composite, code=0x27, types="bool bool map"):
    """The modified outcome (3.4.5)."""

    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: dict[Any, Any] | None = None


class Source(
    Composite,
    code=0x28,
    types="* uint symbol uint bool map symbol map * symbols symbols",
):
    """The source of a link (3.5.3)."""

    address: Any = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[Any, Any] | None = None
    distribution_mode: str | None = None
    filter: dict[Any, Any] | None = None
    default_outcome: Any = None
    outcomes: list[str] | None = None
    capabilities: list[str] | None = None


class Target(Composite, code=0x29, types="* uint symbol uint bool map symbols"):
    """The target of a link (3.5.4)."""

    address: Any = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[Any, Any] | None = None
    capabilities: list[str] | None = None


class Coordinator(Composite, code=0x30, types="symbols"):
    """The coordinator target of transactions (4.5.1)."""

    capabilities: list[str] | None = None


class SaslMechanisms(Composite, code=0x40, types="symbols"):
    """The sasl-mechanisms frame (5.3.3.1)."""

    sasl_server_mechanisms: list[str] | Array


class SaslInit(Composite, code=0x41, types="symbol binary string"):
    """The sasl-init frame (5.3.3.2)."""

    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


class SaslChallenge(Composite, code=0x42, types="binary"):
    """The sasl-challenge frame (5.3.3.3)."""

    challenge: bytes


class SaslResponse(Composite, code=0x43, types="binary"):
    """The sasl-response frame (5.3.3.4)."""

    response: bytes


class SaslOutcome(Composite, code=0x44, types="ubyte binary"):
    """The sasl-outcome frame (5.3.3.5).

    Its code: 0 ok, 1 auth, 2 sys, 3 sys-perm, 4 sys-temp (5.3.3.6).
    """

    outcome: int  # named ``code`` in the specification; here ``code`` is the descriptor
    additional_data: bytes | None = None
