# SPDX-License-Identifier: Apache-2.0
"""The state of a scripted peer: connections, sessions, links, transfers, and their events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amqp1_driver.wire import frames, messages
from amqp1_driver.wire.performatives import SENDER, Attach, Begin, Source, Target

if TYPE_CHECKING:
    from amqp1_driver.testing.core import PeerCore


class PeerFailure(AssertionError):
    """A failure: the client violated the script, or the script was not done in time."""


class Heartbeat:
    """Kind of event: an empty frame has arrived."""


class Disconnect:
    """Kind of event: the client closed or reset the TCP connection."""


@dataclass(kw_only=True)
class Defaults:
    """The default answers of the peer.

    ``mechanisms`` leaves out EXTERNAL: Cyrus clients fail when a server without TLS offers it.
    ``users`` None accepts every client. The peer grants ``credit`` to senders in auto mode and tops
    it up at half. ``idle_time_out`` is in milliseconds. ``heartbeats`` False omits the empty frames
    that keep the client from closing an idle connection; only ``ScriptedPeer`` sends them.
    """

    container_id: str = "scripted-peer"
    product: str = "scripted-peer"
    version: str = "1.0"
    properties: Mapping[str, Any] = field(default_factory=dict)
    offered_capabilities: tuple[str, ...] = ("ANONYMOUS-RELAY",)
    max_frame_size: int = 65536
    channel_max: int = 65535
    idle_time_out: int | None = None
    handle_max: int = 255
    incoming_window: int = 2048
    outgoing_window: int = 2048
    credit: int = 100
    mechanisms: tuple[str, ...] = ("ANONYMOUS", "PLAIN")
    users: Mapping[str, str] | None = None
    dynamic_prefix: str = "peer/dynamic/"
    heartbeats: bool = True


@dataclass(frozen=True)
class LogEntry:
    """One frame or protocol header; ``incoming`` from the peer's point of view."""

    connection: int
    incoming: bool
    channel: int
    performative: Any
    payload: bytes = b""

    def __str__(self) -> str:
        arrow = "client->peer" if self.incoming else "peer->client"
        size = f" +{len(self.payload)} bytes" if self.payload else ""
        return f"[{self.connection}:{self.channel}] {arrow} {self.performative}{size}"


@dataclass(eq=False)
class Session:
    """A session; the two channel numbers differ if the client's channel-max allows that."""

    core: PeerCore
    begin: Begin
    their_channel: int
    our_channel: int
    window: int = 0  # size of our incoming window, topped up at half; 0: not topped up
    incoming_window: int = 0  # number of transfers the client may still send
    next_incoming_id: int = 0
    next_outgoing_id: int = 1
    next_delivery_id: int = 1
    begun: bool = False  # we answered
    ended: bool = False  # we sent end
    remote_window: int = 0  # number of transfers we may still send
    links: dict[int, Link] = field(default_factory=dict)  # by the client's handle
    sent: dict[int, SentTransfer] = field(default_factory=dict)  # by our delivery-id, unsettled


@dataclass(eq=False)
class Link:
    """A link; ``credit`` is the remaining credit of its sending side."""

    session: Session
    attach: Attach
    handle: int
    address: Any = None
    credit: int = 0
    delivery_count: int = 0
    window: int = 0  # credit is topped up to this at half; 0: not topped up
    attached: bool = False  # we answered
    detached: bool = False  # we sent detach
    partial: ReceivedTransfer | None = None

    @property
    def name(self) -> str:
        """Return the link name."""
        return self.attach.name

    @property
    def client_sends(self) -> bool:
        """Return whether the client is the sender."""
        return self.attach.role == SENDER

    @property
    def terminus(self) -> Any:
        """Return the terminus at our end as the client asked: Source, Target, other or None."""
        return self.attach.target if self.client_sends else self.attach.source

    def __repr__(self) -> str:
        return f"<Link {self.name!r} address={self.address!r} credit={self.credit}>"


@dataclass(eq=False)
class ReceivedTransfer:
    """A whole delivery from the client; ``state`` and ``settled`` as they are now."""

    link: Link
    delivery_id: int
    delivery_tag: bytes
    settled: bool
    payload: bytes = b""
    state: Any = None

    @property
    def message(self) -> messages.Message:
        """Return the decoded payload.

        :raises WireError: the payload is malformed
        """
        return messages.decode(self.payload)

    @property
    def body(self) -> Any:
        """Return the body of the message."""
        return self.message.body

    @property
    def address(self) -> Any:
        """Return the destination: ``to`` on an anonymous link, otherwise the link's address."""
        return self.link.address if self.link.address is not None else self.message.properties.to


@dataclass(eq=False)
class SentTransfer:
    """A delivery to the client; ``state`` is its last outcome."""

    link: Link
    delivery_id: int
    delivery_tag: bytes
    settled: bool
    state: Any = None


@dataclass(eq=False)
class Event:
    """An event on a connection; fields that do not apply to it are None."""

    core: PeerCore
    kind: type
    channel: int = 0
    performative: Any = None
    session: Session | None = None
    link: Link | None = None
    transfer: ReceivedTransfer | None = None

    def lookup(self, name: str) -> Any:
        """Return a field of the performative, or one of the derived fields (``DERIVED``)."""
        if name == "address":
            return self.transfer.address if self.transfer else getattr(self.link, "address", None)
        if name == "link":
            return getattr(self.link, "name", None)
        if name in ("body", "message"):
            return getattr(self.transfer, name, None)
        if name == "dynamic":
            return bool(getattr(getattr(self.link, "terminus", None), "dynamic", False))
        if name == "condition":
            return getattr(self.performative.error, "condition", None)
        value = getattr(self.performative, name)
        if name == "role":
            return "receiver" if value else "sender"
        return value.address if isinstance(value, (Source, Target)) else value

    def __str__(self) -> str:
        what = self.kind.__name__ if self.performative is None else str(self.performative)
        link = f" on {self.link!r}" if self.link is not None else ""
        return f"{what} on channel {self.channel}{link}"


DERIVED = frozenset(("address", "link", "body", "message", "dynamic", "condition"))
Kind = type[frames.Header] | type[Any]
