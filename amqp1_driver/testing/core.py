# SPDX-License-Identifier: Apache-2.0
"""The sans-I/O side of a scripted peer: one AMQP 1.0 connection, seen from the server.

The core keeps the state of sessions and links. It checks that the client obeys the specification.
It passes every event to the script, which decides on the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from amqp1_driver.wire import performatives as p
from amqp1_driver.wire.frames import AMQP, Frame, FrameReader, Header, frame_type
from amqp1_driver.wire.messages import Message, decode
from amqp1_driver.wire.types import WireError

if TYPE_CHECKING:
    from amqp1_driver.testing.script import Script

T = TypeVar("T")
MODULUS = 2**32  # transfer-ids and delivery-ids are serial numbers (2.5.6, RFC 1982)
#: fields of an event that are not fields of its performative
DERIVED = frozenset(("address", "link", "body", "message", "dynamic", "condition"))


def must(value: T | None) -> T:
    """Return a value that the script can rely on; without it, the script fails."""
    assert value is not None
    return value


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
    begin: p.Begin
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
    attach: p.Attach
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
        return self.attach.role == p.SENDER

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
    def message(self) -> Message:
        """Return the decoded payload.

        :raises WireError: the payload is malformed
        """
        return decode(self.payload)

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
        return value.address if isinstance(value, (p.Source, p.Target)) else value

    def __str__(self) -> str:
        what = self.kind.__name__ if self.performative is None else str(self.performative)
        link = f" on {self.link!r}" if self.link is not None else ""
        return f"{what} on channel {self.channel}{link}"


class PeerCore:
    """One connection. ``receive(bytes)`` returns the bytes to send.

    ``ending`` tells the transport how to end the connection after sending the output: "close"
    (orderly) or "reset"; None = not at all. Any thread; every access happens under the lock of the
    script.
    """

    def __init__(self, script: Script, index: int) -> None:
        self.script = script
        self.index = index
        self.reader = FrameReader()
        self.sessions: dict[int, Session] = {}  # by the client's channel
        self.remote_open: p.Open | None = None
        self.close_sent = False
        self.ending: str | None = None
        self.lost = False
        self.silent = False
        self.drop_in: int | None = None
        self.drop_out: int | None = None
        self._output = bytearray()

    # -- transport side -------------------------------------------------------------------

    def receive(self, data: bytes) -> bytes:
        """Process bytes from the client and return the bytes to send."""
        with self.script.changed:
            if self.usable():
                self.script.guard(self._feed, data)
            self.script.pump()
            return self.take_output()

    def take_output(self) -> bytes:
        """Return the bytes to send now."""
        with self.script.changed:
            data = bytes(self._output)
            self._output.clear()
            if self.drop_out is not None and len(data) >= self.drop_out:
                data = data[: self.drop_out]
                self.ending = "reset"
            elif self.drop_out is not None:
                self.drop_out -= len(data)
            return data

    def connection_lost(self) -> None:
        """Report to the script that the client closed or reset the connection."""
        with self.script.changed:
            if not self.lost:
                self.lost = True
                if self.ending != "reset":
                    self.script.guard(self.script.dispatch, Event(self, Disconnect))
                self.script.pump()

    def usable(self) -> bool:
        """Return whether the script can still communicate on this connection."""
        return not (self.silent or self.lost or self.ending)

    def _feed(self, data: bytes) -> None:
        if self.drop_in is not None:
            data = data[: self.drop_in]
            self.drop_in -= len(data)
        self.reader.feed(data)
        while self.usable() and (frame := self.reader.next()) is not None:
            self._handle(frame)
            self.script.pump()
        if self.drop_in == 0:
            self.drop()

    # -- for reactions and actions ---------------------------------------------------------

    def send(self, performative: Any, channel: int = 0, payload: bytes = b"") -> None:
        """Send a frame or a protocol header; None is an empty frame."""
        self.script.log.append(LogEntry(self.index, False, channel, performative, payload))
        if isinstance(performative, Header):
            return self.raw(performative.encode())
        if isinstance(performative, p.Close):
            self.close_sent = True
        self.raw(Frame(channel, performative, payload, frame_type(performative)).encode())

    def raw(self, data: bytes) -> None:
        """Send bytes unchanged."""
        if self.usable():
            self._output += data

    def drop(self) -> None:
        """Reset the TCP connection after the output sent so far."""
        self.ending = "reset"

    def drop_after(self, count: int, received: bool) -> None:
        """Reset the connection after ``count`` more bytes received or sent.

        The received bytes include those of an incomplete frame that have already arrived. The sent
        bytes do not include the output that is pending now.
        """
        if received:
            self.drop_in = count - self.reader.truncate(count)
        else:
            self.drop_out = count + len(self._output)

    def finish(self) -> None:
        """Close the TCP connection after sending the output."""
        self.ending = self.ending or "close"

    def flow(self, session: Session, link: Link | None = None, **overrides: Any) -> None:
        """Send a Flow with the state of session and link; ``overrides`` replace fields of it."""
        fields: dict[str, Any] = {
            "next_incoming_id": session.next_incoming_id,
            "incoming_window": session.incoming_window,
            "next_outgoing_id": session.next_outgoing_id,
            "outgoing_window": self.script.defaults.outgoing_window,
        }
        if link is not None:
            fields |= {
                "handle": link.handle,
                "delivery_count": link.delivery_count,
                "link_credit": link.credit,
            }
        fields |= overrides
        session.incoming_window = fields["incoming_window"]
        self.send(p.Flow(**fields), session.our_channel)

    def find_link(self, which: Link | str | None) -> Link | None:
        """Return an attached link by name or address (None: the newest), or a Link unchanged."""
        if isinstance(which, Link):
            return which
        links = [link for session in self.sessions.values() for link in session.links.values()]
        found = [
            link
            for link in links
            if link.attached and not link.detached and which in (None, link.name, link.address)
        ]
        return found[-1] if found else None

    # -- incoming frames --------------------------------------------------------------------

    def _handle(self, frame: Header | Frame) -> None:
        if isinstance(frame, Header):
            self.script.log.append(LogEntry(self.index, True, 0, frame))
            return self.script.dispatch(Event(self, Header, performative=frame))
        got, channel = frame.performative, frame.channel
        self.script.log.append(LogEntry(self.index, True, channel, got, frame.payload))
        if got is None:
            return self.script.dispatch(Event(self, Heartbeat, channel))
        if self.close_sent and not isinstance(got, p.Close):
            return None  # after our close, ignore everything but the client's close
        event = Event(self, type(got), channel, got)
        if isinstance(got, p.Open):
            self.remote_open = got
        elif isinstance(got, p.Begin):
            self._begin(event)
        elif not isinstance(got, p.Close) and frame.type == AMQP:
            event.session = self.sessions.get(channel)
            if event.session is None:
                raise WireError(f"frame on channel {channel}, which has no session")
            if event.session.ended and not isinstance(got, p.End):
                return None
            if not self._in_session(event, event.session, frame.payload):
                return None
        self.script.dispatch(event)
        self._after(event)

    def _begin(self, event: Event) -> None:
        got, channel = event.performative, event.channel
        if channel in self.sessions:
            raise WireError(f"begin on channel {channel}, which is in use")
        limit = self.remote_open.channel_max if self.remote_open else 0
        used = {session.our_channel for session in self.sessions.values()}
        event.session = Session(self, got, channel, _free("channel", channel + 3, limit, used))
        event.session.next_incoming_id = got.next_outgoing_id
        event.session.remote_window = got.incoming_window
        self.sessions[channel] = event.session

    def _in_session(self, event: Event, session: Session, payload: bytes) -> bool:
        """Update session and link by a frame; return False if the script must not see the frame."""
        got = event.performative
        if isinstance(got, p.Attach):
            event.link = self._attach(session, got)
            return True
        handle = getattr(got, "handle", None)
        if handle is not None:
            event.link = session.links.get(handle)
            if event.link is None:
                raise WireError(f"{type(got).__name__} on handle {handle}, which is not attached")
            if event.link.detached and not isinstance(got, p.Detach):
                return False
        if isinstance(got, p.Flow):
            self._flow(session, event.link, got)
        elif isinstance(got, p.Disposition):
            self._disposition(session, got)
        elif isinstance(got, p.Transfer) and event.link is not None:
            event.transfer = self._transfer(session, event.link, got, payload)
            return event.transfer is not None
        return True

    def _attach(self, session: Session, got: p.Attach) -> Link:
        if got.handle in session.links:
            raise WireError(f"attach on handle {got.handle}, which is in use")
        for other in session.links.values():
            if (other.name, other.attach.role) == (got.name, got.role) and not other.detached:
                raise WireError(f"link name {got.name!r} is in use in this session (2.6.1)")
        used = {link.handle for link in session.links.values()}
        link = Link(session, got, _free("handle", 7, session.begin.handle_max, used))
        link.address = getattr(link.terminus, "address", None)
        if link.client_sends:
            if got.initial_delivery_count is None:
                raise WireError("initial-delivery-count is missing in a sender's attach (2.7.3)")
            link.delivery_count = got.initial_delivery_count
        session.links[got.handle] = link
        return link

    def _flow(self, session: Session, link: Link | None, got: p.Flow) -> None:
        if got.next_incoming_id is None and session.begun and session.next_outgoing_id != 1:
            raise WireError("next-incoming-id is missing in a flow after our begin (2.7.4)")
        base = 1 if got.next_incoming_id is None else got.next_incoming_id
        session.remote_window = (base + got.incoming_window) - session.next_outgoing_id
        if link is not None and not link.client_sends and got.link_credit is not None:
            count = 0 if got.delivery_count is None else got.delivery_count
            link.credit = max(0, count + got.link_credit - link.delivery_count)

    def _transfer(
        self, session: Session, link: Link, got: p.Transfer, payload: bytes
    ) -> ReceivedTransfer | None:
        """Account for a Transfer frame; return the delivery if it is complete now."""
        if session.incoming_window <= 0:
            raise WireError("transfer although the session's incoming-window is 0 (2.5.6)")
        session.incoming_window -= 1
        session.next_incoming_id = (session.next_incoming_id + 1) % MODULUS
        if link.partial is None:
            if got.delivery_id is None or got.delivery_tag is None:
                raise WireError("first transfer of a delivery without delivery-id or -tag (2.7.5)")
            if link.credit <= 0:
                raise WireError(f"transfer without credit on {link!r} (2.6.7)")
            link.credit -= 1
            link.delivery_count = (link.delivery_count + 1) % MODULUS
            link.partial = ReceivedTransfer(link, got.delivery_id, got.delivery_tag, False)
        delivery = link.partial
        delivery.payload += payload
        delivery.settled = delivery.settled or bool(got.settled)
        if got.more and not got.aborted:
            self._keep_window(session)
            return None
        link.partial = None
        return None if got.aborted else delivery

    def _disposition(self, session: Session, got: p.Disposition) -> None:
        last = got.first if got.last is None else got.last
        if (last - got.first) % MODULUS > 2**31:
            raise WireError(f"disposition from {got.first} to {last}")
        numbers = range(got.first, got.first + (last - got.first) % MODULUS + 1)
        for number in numbers if len(numbers) < 100_000 else ():
            delivery: SentTransfer | ReceivedTransfer | None
            if got.role == p.RECEIVER:
                delivery = session.sent.get(number % MODULUS)
                if got.settled:
                    session.sent.pop(number % MODULUS, None)
            else:
                delivery = self.script.received(session, number % MODULUS)
            if delivery is not None:
                delivery.settled = delivery.settled or got.settled
                delivery.state = got.state if got.state is not None else delivery.state

    def _after(self, event: Event) -> None:
        """Update the state again after the script has reacted to a frame.

        A delivery renews credit and session window. A detach or an end removes its link or session.
        A close ends the TCP connection once both sides have sent one.
        """
        session, link = event.session, event.link
        if event.transfer is not None:
            session, link = must(session), must(link)
            if link.window and link.credit <= link.window // 2 and not link.detached:
                link.credit = link.window
                session.incoming_window = max(session.window, session.incoming_window)
                self.flow(session, link)
            self._keep_window(session)
        elif event.kind is p.Detach:
            must(session).links.pop(event.performative.handle, None)
        elif event.kind is p.End:
            self.sessions.pop(event.channel, None)
        elif event.kind is p.Close and self.close_sent:
            self.finish()

    def _keep_window(self, session: Session) -> None:
        if session.window and session.incoming_window <= session.window // 2 and self.usable():
            session.incoming_window = session.window
            self.flow(session)


def _free(what: str, start: int, limit: int, used: Collection[int]) -> int:
    """Return the first unused number from ``start`` on; if there is none, the lowest unused one.

    With the right ``start`` our number usually differs from the client's, and a confusion shows.

    :param limit: the largest number that the client allows
    :raises WireError: all numbers are in use
    """
    for number in itertools.chain(range(start, limit + 1), range(limit + 1)):
        if number not in used:
            return number
    raise WireError(f"all of our {what} numbers up to {limit}, the client's maximum, are in use")
