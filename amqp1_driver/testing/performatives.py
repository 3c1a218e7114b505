# SPDX-License-Identifier: Apache-2.0
"""The composite types of AMQP 1.0 (2.7, 2.8, 3.4, 3.5, 5.3.3), named as in the specification.

Each class lists its fields in wire order. A field without default is mandatory: decoding a frame
raises WireError if such a field is missing or any field has the wrong type.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from amqp1_driver.testing import wire
from amqp1_driver.testing.wire import Symbol, UByte, UInt, ULong, UShort, WireError

SENDER, RECEIVER = False, True  # role (2.8.1)

# type name -> types of a decoded value; "*" is anything, "symbols" is multiple=true (1.4)
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
    "symbols": (Symbol, wire.Array, list),
    "timestamp": (wire.Timestamp,),
    "*": (object,),
}
_WRAP: dict[str, Any] = {
    "ubyte": UByte,
    "ushort": UShort,
    "uint": UInt,
    "ulong": ULong,
    "symbol": Symbol,
    "timestamp": wire.Timestamp,
}


@dataclass(kw_only=True, repr=False)
class Composite:
    """Base class: a described list, descriptor ulong ``code`` or symbol ``amqp:<name>:list``."""

    code: ClassVar[int] = -1
    name_: ClassVar[str] = ""
    types: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        wire.COMPOSITES[cls.code] = cls
        wire.NAMES[f"amqp:{cls.name_}:list"] = cls.code

    def __repr__(self) -> str:
        """Return only the fields that differ from the defaults: failure messages contain frames."""
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
        parts = [
            _encode_field(kind, value)
            for kind, value in zip(self.types.split(), values, strict=False)
        ]
        descriptor = b"\x00" + wire.encode(ULong(self.code))
        return descriptor + wire.encode_compound(0xC0, len(parts), b"".join(parts))

    @classmethod
    def from_fields(cls, values: Any) -> Self:
        """Create an object from the decoded list.

        :raises WireError: a field is missing, wrong or surplus
        """
        names, kinds = cls.field_names(), cls.types.split()
        if not isinstance(values, list) or len(values) > len(names):
            raise WireError(f"{cls.__name__} is not a list of at most {len(names)} fields")
        given: dict[str, Any] = {}
        for name, kind, value in zip(names, kinds, values, strict=False):
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
    if isinstance(value, wire.Array):
        return list(value.items)
    return value if isinstance(value, list) else [value]


def _encode_field(kind: str, value: Any) -> bytes:
    if value is None:
        return b"\x40"
    if kind == "symbols":
        items = [value] if isinstance(value, str) else list(value)
        if len(items) == 1:
            return wire.encode(Symbol(items[0]))
        return wire.encode(wire.Array(0xB3, items))
    wrap = _WRAP.get(kind)
    return wire.encode(wrap(value) if wrap else value)


@dataclass(kw_only=True, repr=False)
class Open(Composite):
    """The open performative (2.7.1)."""

    code, name_ = 0x10, "open"
    types = "string string uint ushort uint symbols symbols symbols symbols map"
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


@dataclass(kw_only=True, repr=False)
class Begin(Composite):
    """The begin performative (2.7.2)."""

    code, name_ = 0x11, "begin"
    types = "ushort uint uint uint uint symbols symbols map"
    remote_channel: int | None = None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = 4294967295
    offered_capabilities: list[str] | None = None
    desired_capabilities: list[str] | None = None
    properties: dict[Any, Any] | None = None


@dataclass(kw_only=True, repr=False)
class Attach(Composite):
    """The attach performative (2.7.3).

    snd_settle_mode: 0 unsettled, 1 settled, 2 mixed; rcv_settle_mode: 0 first, 1 second.
    """

    code, name_ = 0x12, "attach"
    types = "string uint bool ubyte ubyte * * map bool uint ulong symbols symbols map"
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


@dataclass(kw_only=True, repr=False)
class Flow(Composite):
    """The flow performative (2.7.4)."""

    code, name_ = 0x13, "flow"
    types = "uint uint uint uint uint uint uint uint bool bool map"
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


@dataclass(kw_only=True, repr=False)
class Transfer(Composite):
    """The transfer performative (2.7.5)."""

    code, name_ = 0x14, "transfer"
    types = "uint uint binary uint bool bool ubyte * bool bool bool"
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


@dataclass(kw_only=True, repr=False)
class Disposition(Composite):
    """The disposition performative (2.7.6)."""

    code, name_ = 0x15, "disposition"
    types = "bool uint uint bool * bool"
    role: bool
    first: int
    last: int | None = None
    settled: bool = False
    state: Any = None
    batchable: bool = False


@dataclass(kw_only=True, repr=False)
class Detach(Composite):
    """The detach performative (2.7.7)."""

    code, name_, types = 0x16, "detach", "uint bool *"
    handle: int
    closed: bool = False
    error: Any = None


@dataclass(kw_only=True, repr=False)
class End(Composite):
    """The end performative (2.7.8)."""

    code, name_, types = 0x17, "end", "*"
    error: Any = None


@dataclass(kw_only=True, repr=False)
class Close(Composite):
    """The close performative (2.7.9)."""

    code, name_, types = 0x18, "close", "*"
    error: Any = None


@dataclass(kw_only=True, repr=False)
class Error(Composite):
    """The error of a detach, end, close or outcome (2.8.14)."""

    code, name_, types = 0x1D, "error", "symbol string map"
    condition: str
    description: str | None = None
    info: dict[Any, Any] | None = None


@dataclass(kw_only=True, repr=False)
class Received(Composite):
    """The received delivery state (3.4.1)."""

    code, name_, types = 0x23, "received", "uint ulong"
    section_number: int
    section_offset: int


@dataclass(kw_only=True, repr=False)
class Accepted(Composite):
    """The accepted outcome (3.4.2)."""

    code, name_ = 0x24, "accepted"


@dataclass(kw_only=True, repr=False)
class Rejected(Composite):
    """The rejected outcome (3.4.3)."""

    code, name_, types = 0x25, "rejected", "*"
    error: Any = None


@dataclass(kw_only=True, repr=False)
class Released(Composite):
    """The released outcome (3.4.4)."""

    code, name_ = 0x26, "released"


@dataclass(kw_only=True, repr=False)
class Modified(Composite):
    """The modified outcome (3.4.5)."""

    code, name_, types = 0x27, "modified", "bool bool map"
    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: dict[Any, Any] | None = None


@dataclass(kw_only=True, repr=False)
class Source(Composite):
    """The source of a link (3.5.3)."""

    code, name_ = 0x28, "source"
    types = "* uint symbol uint bool map symbol map * symbols symbols"
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


@dataclass(kw_only=True, repr=False)
class Target(Composite):
    """The target of a link (3.5.4)."""

    code, name_ = 0x29, "target"
    types = "* uint symbol uint bool map symbols"
    address: Any = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[Any, Any] | None = None
    capabilities: list[str] | None = None


@dataclass(kw_only=True, repr=False)
class Coordinator(Composite):
    """The coordinator target of transactions (4.5.1)."""

    code, name_, types = 0x30, "coordinator", "symbols"
    capabilities: list[str] | None = None


@dataclass(kw_only=True, repr=False)
class SaslMechanisms(Composite):
    """The sasl-mechanisms frame (5.3.3.1)."""

    code, name_, types = 0x40, "sasl-mechanisms", "symbols"
    sasl_server_mechanisms: list[str]


@dataclass(kw_only=True, repr=False)
class SaslInit(Composite):
    """The sasl-init frame (5.3.3.2)."""

    code, name_, types = 0x41, "sasl-init", "symbol binary string"
    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


@dataclass(kw_only=True, repr=False)
class SaslChallenge(Composite):
    """The sasl-challenge frame (5.3.3.3)."""

    code, name_, types = 0x42, "sasl-challenge", "binary"
    challenge: bytes


@dataclass(kw_only=True, repr=False)
class SaslResponse(Composite):
    """The sasl-response frame (5.3.3.4)."""

    code, name_, types = 0x43, "sasl-response", "binary"
    response: bytes


@dataclass(kw_only=True, repr=False)
class SaslOutcome(Composite):
    """The sasl-outcome frame (5.3.3.5).

    Its code: 0 ok, 1 auth, 2 sys, 3 sys-perm, 4 sys-temp (5.3.3.6).
    """

    code, name_, types = 0x44, "sasl-outcome", "ubyte binary"
    outcome: int  # named ``code`` in the specification; here ``code`` is the descriptor
    additional_data: bytes | None = None
