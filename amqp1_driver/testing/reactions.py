# SPDX-License-Identifier: Apache-2.0
"""Reactions of a scripted peer to an event: the regular answers and the faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from amqp1_driver.testing.core import (
    MODULUS,
    Event,
    Link,
    PeerCore,
    PeerFailure,
    ReceivedTransfer,
    SentTransfer,
    Session,
    must,
)
from amqp1_driver.wire import performatives as p
from amqp1_driver.wire.frames import SASL_HEADER, Header
from amqp1_driver.wire.messages import Message
from amqp1_driver.wire.types import Symbol


def error(condition: str | None, description: str | None = None) -> p.Error | None:
    """Return the error of a detach, end or close; None without condition."""
    return p.Error(condition=condition, description=description) if condition else None


def respond(event: Event, **overrides: Any) -> None:
    """Send the regular answer to an event; ``overrides`` are fields of the answer."""
    answer = _ANSWERS.get(event.kind)
    if answer is None:
        raise PeerFailure(f"there is no answer to {event}")
    answer(event, **overrides)


def _header(event: Event, *, mechanisms: tuple[str, ...] | None = None) -> None:
    core, got = event.core, event.performative
    if got.protocol not in (0, 3):
        core.send(SASL_HEADER)  # 2.2: answer with what is supported, then close
        return core.finish()
    core.send(got)
    if got == SASL_HEADER:
        names = core.script.defaults.mechanisms if mechanisms is None else mechanisms
        core.send(p.SaslMechanisms(sasl_server_mechanisms=list(names)))
    return None


def _sasl_init(event: Event, *, outcome: int | None = None) -> None:
    if outcome is None:
        outcome = 0 if _known(event) else 1
    event.core.send(p.SaslOutcome(outcome=outcome))
    if outcome != 0:
        event.core.finish()


def _known(event: Event) -> bool:
    users, got = event.core.script.defaults.users, event.performative
    if got.mechanism not in event.core.script.defaults.mechanisms:
        return False
    if users is None or got.mechanism == "EXTERNAL":
        return True
    parts = (got.initial_response or b"").decode().split("\0")
    return got.mechanism == "PLAIN" and len(parts) == 3 and users.get(parts[1]) == parts[2]


def _open(
    event: Event,
    *,
    product: str | None = None,
    version: str | None = None,
    properties: dict[str, Any] | None = None,
    **overrides: Any,
) -> None:
    known = event.core.script.defaults
    about: dict[Any, Any] = {
        Symbol("product"): product or known.product,
        Symbol("version"): version or known.version,
    }
    given: Any = known.properties if properties is None else properties
    if isinstance(given, Mapping):
        for name, value in given.items():
            about[Symbol(name) if isinstance(name, str) else name] = value
    reply = p.Open(
        container_id=known.container_id,
        max_frame_size=known.max_frame_size,
        channel_max=known.channel_max,
        idle_time_out=known.idle_time_out,
        offered_capabilities=list(known.offered_capabilities) or None,
        properties=about if isinstance(given, Mapping) else given,
    )
    reply = dataclasses.replace(reply, **overrides)
    event.core.reader.max_frame_size = reply.max_frame_size
    event.core.send(reply)


def _begin(event: Event, **overrides: Any) -> None:
    session, known = must(event.session), event.core.script.defaults
    reply = p.Begin(
        remote_channel=session.their_channel,
        next_outgoing_id=session.next_outgoing_id,
        incoming_window=known.incoming_window,
        outgoing_window=known.outgoing_window,
        handle_max=known.handle_max,
    )
    reply = dataclasses.replace(reply, **overrides)
    session.window = session.incoming_window = reply.incoming_window
    session.begun = True
    event.core.send(reply, session.our_channel)


def _attach(
    event: Event, *, credit: int | None = None, address: str | None = None, **overrides: Any
) -> None:
    link, script = must(event.link), event.core.script
    got, own = link.attach, link.terminus
    if getattr(own, "dynamic", False):
        link.address = address or next(script.addresses)
        own = dataclasses.replace(own, address=link.address)
    fields: dict[str, Any] = {
        "source": got.source if link.client_sends else own,
        "target": own if link.client_sends else got.target,
        "snd_settle_mode": got.snd_settle_mode,
        "rcv_settle_mode": got.rcv_settle_mode,
        "initial_delivery_count": None if link.client_sends else link.delivery_count,
    }
    fields |= overrides
    reply = p.Attach(name=got.name, handle=link.handle, role=not got.role, **fields)
    link.attached = True
    event.core.send(reply, link.session.our_channel)
    if credit is None:
        credit = script.defaults.credit if script.auto else 0
    if link.client_sends and credit:
        grant(link, credit, window=credit)


def refuse(event: Event, condition: str, description: str | None = None) -> None:
    """Refuse an attach: answer with a null terminus, then detach with the error (2.6.3)."""
    end = {"target": None} if must(event.link).client_sends else {"source": None}
    _attach(event, credit=0, **end)
    detach(must(event.link), condition, description)


def _flow(event: Event) -> None:
    """Answer flow echo and drain requests."""
    got, link = event.performative, event.link
    if link is not None and not link.client_sends and got.drain:
        link.delivery_count = (link.delivery_count + link.credit) % MODULUS
        link.credit = 0
        event.core.flow(must(event.session), link, drain=True)
    elif got.echo:
        event.core.flow(must(event.session), link)


def _transfer(event: Event, **overrides: Any) -> None:
    if not must(event.transfer).settled:
        settle(must(event.transfer), p.Accepted(), **overrides)


def _disposition(event: Event) -> None:
    """Settle deliveries for which the client, as receiver, has sent an outcome without settling."""
    got = event.performative
    if got.role == p.RECEIVER and not got.settled and isinstance(got.state, _OUTCOMES):
        reply = p.Disposition(
            role=p.SENDER, first=got.first, last=got.last, settled=True, state=got.state
        )
        session = must(event.session)
        last = got.first if got.last is None else got.last
        for number in range(got.first, last + 1):
            session.sent.pop(number, None)
        event.core.send(reply, session.our_channel)


def _detach(event: Event, **overrides: Any) -> None:
    link = must(event.link)
    if not link.detached:
        detach(link, closed=overrides.pop("closed", event.performative.closed), **overrides)


def _end(event: Event, **overrides: Any) -> None:
    if not must(event.session).ended:
        end(must(event.session), **overrides)


def _close(event: Event, **overrides: Any) -> None:
    if not event.core.close_sent:
        event.core.send(p.Close(**overrides))


# -- actions on links, transfers, sessions ---------------------------------------------------


def grant(link: Link, credit: int, *, window: int | None = None) -> None:
    """Set the credit of the client's sender to ``credit``.

    :param window: top up the credit to this from now on, 0: not at all, None: as before
    """
    link.credit = credit
    link.window = link.window if window is None else window
    link.session.core.flow(link.session, link)


def settle(transfer: ReceivedTransfer, state: Any, *, settled: bool = True) -> None:
    """Send the outcome of a delivery from the client."""
    transfer.state, transfer.settled = state, settled
    session = transfer.link.session
    reply = p.Disposition(role=p.RECEIVER, first=transfer.delivery_id, settled=settled, state=state)
    session.core.send(reply, session.our_channel)


def detach(
    link: Link, condition: str | None = None, description: str | None = None, *, closed: bool = True
) -> None:
    """Detach a link from our side."""
    reply = p.Detach(handle=link.handle, closed=closed, error=error(condition, description))
    link.detached = True
    link.session.core.send(reply, link.session.our_channel)


def end(session: Session, condition: str | None = None, description: str | None = None) -> None:
    """End a session from our side."""
    session.ended = True
    session.core.send(p.End(error=error(condition, description)), session.our_channel)


def transfer(
    link: Link,
    message: bytes | Message,
    *,
    settled: bool = False,
    delivery_tag: bytes | None = None,
    frame_size: int | None = None,
    **fields: Any,
) -> SentTransfer:
    """Send a delivery to the client, in frames of at most ``frame_size`` bytes of payload."""
    session = link.session
    payload = message.encode() if isinstance(message, Message) else bytes(message)
    number, session.next_delivery_id = session.next_delivery_id, session.next_delivery_id + 1
    tag = b"t%d" % number if delivery_tag is None else delivery_tag
    sent = SentTransfer(link, number, tag, settled)
    first: dict[str, Any] = {
        "delivery_id": number,
        "delivery_tag": tag,
        "message_format": 0,
        "settled": settled,
    }
    first |= fields
    pieces = _pieces(payload, frame_size or _room(session.core))
    for index, piece in enumerate(pieces):
        more = fields.get("more", index < len(pieces) - 1)
        rest = first if index == 0 else {}
        frame = p.Transfer(handle=link.handle, **{**rest, "more": more})
        session.core.send(frame, session.our_channel, piece)
        session.next_outgoing_id = (session.next_outgoing_id + 1) % MODULUS
        session.remote_window -= 1
    link.delivery_count = (link.delivery_count + 1) % MODULUS
    link.credit -= 1
    if not settled:
        session.sent[number] = sent
    session.core.script.sent.append(sent)
    return sent


def _room(core: PeerCore) -> int:
    """Return how many payload bytes fit beside the performative into one frame for the client."""
    largest = core.remote_open.max_frame_size if core.remote_open else 512
    return max(1, largest - 128)


def _pieces(payload: bytes, size: int) -> list[bytes]:
    return [payload[at : at + size] for at in range(0, len(payload), size)] or [b""]


_OUTCOMES = (p.Accepted, p.Rejected, p.Released, p.Modified)
_ANSWERS: dict[type, Callable[..., None]] = {
    Header: _header,
    p.SaslInit: _sasl_init,
    p.Open: _open,
    p.Begin: _begin,
    p.Attach: _attach,
    p.Flow: _flow,
    p.Transfer: _transfer,
    p.Disposition: _disposition,
    p.Detach: _detach,
    p.End: _end,
    p.Close: _close,
}
