# SPDX-License-Identifier: Apache-2.0

"""The embedded bus answers who asks how a link or a session stands (AMQP 1.0, 2.7.4)."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message

from amqp1_driver.bus.behaviour import Behaviour
from amqp1_driver.bus.broker import Broker
from amqp1_driver.bus.counters import Counters
from amqp1_driver.bus.engine import Engine
from amqp1_driver.bus.queues import Limits
from amqp1_driver.bus.router import Router
from amqp1_driver.testing import performatives as p
from amqp1_driver.testing.frames import Frame, FrameReader, Header


class Raw:
    """A client that writes frames."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.engine = Engine(
            behaviour,
            container="bus",
            version="0",
            idle_timeout=16.0,
            touched=lambda: None,
        )
        self._reader = FrameReader()
        self.engine.feed(Header().encode())
        self.say(
            p.Open(container_id="raw"),
            p.Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100),
        )

    def say(self, *performatives: Any, payload: bytes = b"") -> list[Any]:
        """Write frames, all at once; returns what the bus says then."""
        self.engine.feed(b"".join(Frame(0, each, payload).encode() for each in performatives))
        return self.hear()

    def hear(self) -> list[Any]:
        while output := self.engine.output():
            self._reader.feed(bytes(output))
            self.engine.sent(len(output))
        heard = []
        while (frame := self._reader.next()) is not None:
            heard.append(frame.performative if isinstance(frame, Frame) else frame)
        return heard

    def attach(self, handle: int, role: bool, address: str = "q") -> list[Any]:
        return self.say(
            p.Attach(
                name=f"link-{handle}",
                handle=handle,
                role=role,
                source=p.Source(address=address),
                target=p.Target(address=address),
                initial_delivery_count=None if role else 0,
            )
        )


def flow(**fields: Any) -> Any:
    return p.Flow(
        next_incoming_id=0, incoming_window=100, next_outgoing_id=0, outgoing_window=100, **fields
    )


def state(frames: list[Any]) -> list[tuple[Any, ...]]:
    """(handle, delivery-count, link-credit, drain, echo) of Flow frames."""
    return [
        (each.handle, each.delivery_count, each.link_credit, bool(each.drain), bool(each.echo))
        for each in frames
        if isinstance(each, p.Flow)
    ]


@pytest.fixture(params=["router", "broker"])
def raw(request: Any) -> Raw:
    counters = Counters()
    behaviour = (
        Router(counters, lambda: 1000.0)
        if request.param == "router"
        else Broker(counters, lambda: 1000.0, Limits(20))
    )
    behaviour.call_at = lambda when, fn: None  # type: ignore[method-assign]
    return Raw(behaviour)


def ours(frames: list[Any]) -> int:
    """The bus's handle in its Attach frame."""
    return next(each.handle for each in frames if isinstance(each, p.Attach))


def send(raw: Raw, handle: int, *numbers: int) -> None:
    for number in numbers:
        raw.say(
            p.Transfer(
                handle=handle,
                delivery_id=number,
                delivery_tag=b"%d" % number,
                message_format=0,
                settled=True,
            ),
            payload=Message(body="hello").encode(),
        )


def test_a_link_to_a_client_says_what_it_has_sent(raw: Raw) -> None:
    raw.attach(7, p.SENDER)
    number = ours(raw.attach(9, p.RECEIVER))
    raw.say(flow(handle=9, delivery_count=0, link_credit=10))
    send(raw, 7, 0, 1, 2)
    assert state(raw.say(flow(handle=9, delivery_count=3, link_credit=7, echo=True))) == [
        (number, 3, 7, False, False)
    ]
    # credit goes on to be counted
    send(raw, 7, 3)
    assert state(raw.say(flow(handle=9, delivery_count=3, link_credit=20, echo=True))) == [
        (number, 4, 19, False, False)
    ]


def test_what_was_drained_counts_as_sent(raw: Raw) -> None:
    number = ours(raw.attach(9, p.RECEIVER))
    assert state(raw.say(flow(handle=9, delivery_count=0, link_credit=10, drain=True))) == [
        (number, 10, 0, True, False)
    ]
    assert state(raw.say(flow(handle=9, delivery_count=10, link_credit=2, echo=True))) == [
        (number, 10, 2, False, False)
    ]


def test_a_link_from_a_client_says_how_much_more_may_come(raw: Raw) -> None:
    raw.attach(9, p.RECEIVER)
    raw.say(flow(handle=9, delivery_count=0, link_credit=10))
    frames = raw.attach(7, p.SENDER)
    ((handle, count, credit, _, _),) = state(frames)
    send(raw, 7, 1)
    assert (handle, count) == (ours(frames), 0)
    # proton tells of a Flow frame for each link of the session that has credit
    assert state(raw.say(flow(handle=7, delivery_count=1, link_credit=credit, echo=True)))[-1:] == [
        (handle, 1, credit - 1, False, False)
    ]


def test_a_session_says_how_it_stands(raw: Raw) -> None:
    assert state(raw.say(flow(echo=True))) == [(None, None, None, False, False)]


def test_who_does_not_ask_hears_nothing(raw: Raw) -> None:
    raw.attach(9, p.RECEIVER)
    assert raw.say(flow(handle=9, delivery_count=0, link_credit=10)) == []


def test_a_question_in_two_pieces_is_answered_once(raw: Raw) -> None:
    number = ours(raw.attach(9, p.RECEIVER))
    data = Frame(0, flow(handle=9, delivery_count=0, link_credit=10, echo=True)).encode()
    for at in range(1, len(data)):
        raw.engine.feed(data[:at])
        raw.engine.feed(data[at:])
        assert state(raw.hear()) == [(number, 0, 10, False, False)]


def test_a_link_that_has_ended_says_nothing(raw: Raw) -> None:
    raw.attach(9, p.RECEIVER)
    assert (
        state(
            raw.say(
                flow(handle=9, delivery_count=0, link_credit=10, echo=True),
                p.Detach(handle=9, closed=True),
            )
        )
        == []
    )


def test_who_does_not_read_is_not_answered_until_he_does(raw: Raw) -> None:
    raw.attach(7, p.SENDER)
    number = ours(raw.attach(9, p.RECEIVER))
    raw.say(flow(handle=9, delivery_count=0, link_credit=10))
    for n in range(9):
        transfer = p.Transfer(
            handle=7, delivery_id=n, delivery_tag=b"%d" % n, message_format=0, settled=True
        )
        raw.engine.feed(Frame(0, transfer, Message(body="x" * 10_000).encode()).encode())
    question = Frame(0, flow(handle=9, delivery_count=0, link_credit=10, echo=True)).encode()
    for _ in range(1000):
        raw.engine.feed(question)
    assert [each for each in state(raw.hear()) if each[0] == number] == []
    raw.engine.feed(question)
    assert state(raw.hear()) == [(number, 9, 1, False, False)]


def test_links_that_are_attached_all_at_once_know_their_handles(raw: Raw) -> None:
    heard = raw.say(
        *(
            p.Attach(
                name=f"link-{n}",
                handle=n,
                role=p.RECEIVER,
                source=p.Source(address="q"),
                target=p.Target(address="q"),
            )
            for n in range(300)
        )
    )
    numbers = {each.name: each.handle for each in heard if isinstance(each, p.Attach)}
    assert state(raw.say(flow(handle=299, delivery_count=0, link_credit=10, echo=True)))[-1:] == [
        (numbers["link-299"], 0, 10, False, False)
    ]
    assert len(numbers) == 300
