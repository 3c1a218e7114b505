# SPDX-License-Identifier: Apache-2.0

"""Producer flow control by watermarks, as the two Apache Qpid designs describe it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from proton import Delivery, Message

from amqp1_driver.bus.queues import Limits
from tests.bus.memory import Client, MemoryBus, outcome


@pytest.fixture
def bus() -> MemoryBus:
    """Blocked at 4 messages, resumed at 2."""
    return MemoryBus("broker", Limits(capacity=4, resume=2))


@pytest.fixture
def one(bus: MemoryBus) -> Client:
    return bus.client("one")


@pytest.fixture
def two(bus: MemoryBus) -> Client:
    return bus.client("two")


def fill(client: Client, address: str = "queue") -> None:
    sender = client.sender(address)
    for number in range(4):
        assert outcome(sender.send(str(number))) == Delivery.ACCEPTED
    sender.close()


def test_credit_is_never_more_than_fits_below_the_capacity(one: Client) -> None:
    assert one.sender("queue").credit == 4


def test_at_capacity_a_sender_has_no_credit(one: Client) -> None:
    sender = one.sender("queue")
    for _ in range(4):
        assert outcome(sender.send()) == Delivery.ACCEPTED
    assert sender.credit == 0


def test_a_sender_that_attaches_to_a_full_queue_gets_no_credit(one: Client) -> None:
    fill(one)
    assert one.sender("queue").credit == 0


def test_credit_of_other_senders_is_withdrawn_when_the_queue_is_full(
    one: Client, two: Client
) -> None:
    idle = two.sender("queue")
    assert idle.credit == 4
    fill(one)
    assert idle.credit == 0


def test_between_the_watermarks_there_is_still_no_credit(one: Client, two: Client) -> None:
    fill(one)
    sender = one.sender("queue")
    two.receiver("queue", credit=4).accept()
    assert sender.credit == 0


def test_at_the_resume_mark_credit_is_given_again(one: Client, two: Client) -> None:
    fill(one)
    sender = one.sender("queue")
    receiver = two.receiver("queue", credit=4)
    receiver.accept()
    receiver.accept()
    assert sender.credit == 2


def test_delivered_but_unsettled_messages_still_fill_the_queue(one: Client, two: Client) -> None:
    fill(one)
    two.receiver("queue", credit=4)
    assert one.sender("queue").credit == 0


def test_only_the_senders_of_the_full_queue_are_blocked(one: Client) -> None:
    fill(one)
    assert one.sender("other").credit == 4
    assert one.sender(None).credit == 250


def test_an_anonymous_message_to_a_full_queue_waits_without_outcome(
    one: Client, two: Client
) -> None:
    fill(one)
    relay = one.sender(None)
    blocked = relay.send(Message(address="queue", body="4"))
    free = relay.send(Message(address="other"))
    assert outcome(blocked) is None
    assert outcome(free) == Delivery.ACCEPTED
    receiver = two.receiver("queue", credit=10)
    assert receiver.bodies == ["0", "1", "2", "3", "4"]
    receiver.accept()
    receiver.accept()
    assert outcome(blocked) is None
    receiver.accept()
    assert outcome(blocked) == Delivery.ACCEPTED


def test_a_waiting_message_that_leaves_the_queue_is_completed_at_once(
    one: Client, two: Client
) -> None:
    fill(one)
    first, second = two.receiver("queue", credit=4), two.receiver("queue", credit=1)
    blocked = one.sender(None).send(Message(address="queue", body="4"))
    assert second.bodies == ["4"]
    second.accept()
    assert outcome(blocked) == Delivery.ACCEPTED
    assert len(first.arrived) == 4


def test_messages_that_were_on_their_way_when_credit_was_withdrawn_are_stored(
    one: Client, two: Client, bus: MemoryBus
) -> None:
    """Two senders with 4 credit each send 4 at the same time."""
    senders = [one.sender("queue"), two.sender("queue")]
    deliveries = []
    for sender in senders:
        for number in range(4):
            deliveries.append(sender.link.delivery(f"t{number}"))
            sender.link.stream(bytes(Message(body=str(number)).encode()))
            sender.link.advance()
    bus.settle()
    assert bus.behaviour.depth("queue") == 8
    assert [outcome(d) for d in deliveries[4:]] == [None] * 4
    receiver = one.receiver("queue", credit=8)
    for _ in range(6):
        receiver.accept()
    assert [outcome(d) for d in deliveries] == [Delivery.ACCEPTED] * 8
    assert [s.credit for s in senders] == [2, 2]


def test_a_message_that_expires_makes_room(bus: MemoryBus, one: Client) -> None:
    sender = one.sender("queue")
    for _ in range(4):
        sender.send(Message(ttl=5))
    assert sender.credit == 0
    bus.advance(5.0)
    assert sender.credit == 4


def test_a_full_pool_holds_the_senders_of_its_address(one: Client, two: Client) -> None:
    two.receiver("queue::pool", credit=0)
    plain = two.receiver("queue", credit=100)
    sender = one.sender("queue")
    for _ in range(4):
        sender.send()
        plain.accept()
    assert sender.credit == 0


def test_a_subscriber_of_a_topic_that_leaves_unblocks_its_senders(one: Client, two: Client) -> None:
    slow = two.receiver("broadcast.t", credit=0)
    sender = one.sender("broadcast.t")
    for _ in range(4):
        sender.send()
    assert sender.credit == 0
    blocked = one.sender(None).send(Message(address="broadcast.t"))
    assert outcome(blocked) is None
    slow.close()
    assert outcome(blocked) == Delivery.ACCEPTED
    assert sender.credit > 0


def test_a_fast_consumer_keeps_the_credit_going(one: Client, two: Client) -> None:
    receiver = two.receiver("queue", credit=10_000)
    sender = one.sender("queue")
    for _ in range(100):
        assert sender.credit > 0
        sender.send()
        receiver.accept()


@pytest.mark.parametrize("resume", [0, 3])
def test_any_resume_mark_below_the_capacity_works(resume: int) -> None:
    bus = MemoryBus("broker", Limits(capacity=4, resume=resume))
    client = bus.client()
    fill(client)
    sender = client.sender("queue")
    receiver = client.receiver("queue", credit=4)
    for _ in range(4 - resume):
        assert sender.credit == 0
        receiver.accept()
    assert sender.credit == 4 - resume


# -- bytes, limits of one queue, changes, and the log ----------------------------------------------


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    found = [(r.levelno, r.getMessage()) for r in caplog.records if r.name.endswith("broker")]
    caplog.clear()
    return found


BODY = "x" * 1000
#: header with nothing, properties with nothing but an address, body: of a message of proton
SIZE = len(Message(body=BODY).encode())


def test_a_queue_is_full_by_bytes_too() -> None:
    bus = MemoryBus("broker", Limits(capacity_bytes=4 * SIZE, resume_bytes=2 * SIZE))
    one, two = bus.client("one"), bus.client("two")
    sender = one.sender("queue")
    assert sender.credit == 250
    for _ in range(4):
        assert outcome(sender.send(Message(body=BODY))) == Delivery.ACCEPTED
    assert sender.credit == 0
    receiver = two.receiver("queue", credit=10)
    receiver.accept()
    assert sender.credit == 0
    receiver.accept()
    assert sender.credit == 250


def test_with_both_measures_both_have_to_be_down() -> None:
    bus = MemoryBus("broker", Limits(4, 3, 4 * SIZE, SIZE))
    one, two = bus.client("one"), bus.client("two")
    sender = one.sender("queue")
    for _ in range(4):
        sender.send(Message(body=BODY))
    receiver = two.receiver("queue", credit=10)
    receiver.accept()
    receiver.accept()
    assert sender.credit == 0
    receiver.accept()
    assert sender.credit == 3


def test_limits_of_one_queue_are_changed_while_it_runs(bus: MemoryBus, one: Client) -> None:
    full, other = one.sender("queue"), one.sender("other")
    for number in range(4):
        full.send(str(number))
    assert full.credit == 0
    broker: Any = bus.behaviour
    broker.limit("queue", Limits(10, 5))
    bus.settle()
    assert (full.credit, other.credit) == (6, 4)
    broker.limit("queue", Limits(3, 1))
    bus.settle()
    assert (full.credit, other.credit) == (0, 4)
    broker.limit("queue", None)
    broker.limit(None, Limits())
    bus.settle()
    assert (full.credit, other.credit) == (250, 250)


def test_what_was_held_back_is_accepted_when_the_limit_goes_up(bus: MemoryBus, one: Client) -> None:
    sender = one.sender("queue")
    deliveries = [sender.send(str(number)) for number in range(6)]
    assert [outcome(each) for each in deliveries[4:]] == [None, None]
    broker: Any = bus.behaviour
    broker.limit("queue", Limits(100, 50))
    bus.settle()
    assert [outcome(each) for each in deliveries[4:]] == [Delivery.ACCEPTED] * 2


def test_a_full_queue_is_told_reminded_of_and_told_again(
    bus: MemoryBus, one: Client, two: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sender = one.sender("queue")
    for _ in range(4):
        sender.send(Message(body=BODY))
    full = (
        logging.WARNING,
        f"Queue queue is full: it has 4 messages, {4 * SIZE} bytes (limits: "
        "4 messages, 2 to resume); no credit for 1 producer(s)",
    )
    assert said(caplog) == [full]
    bus.advance(9.9)
    assert said(caplog) == []
    bus.advance(0.1)
    assert said(caplog) == [full]
    bus.advance(10)
    assert said(caplog) == [full]
    receiver = two.receiver("queue", credit=10)
    receiver.accept()
    assert said(caplog) == []
    receiver.accept()
    assert said(caplog) == [
        (
            logging.INFO,
            f"Queue queue takes messages again: it has 2 messages, "
            f"{2 * SIZE} bytes, and was full for 20.0 s",
        )
    ]
    bus.advance(60)
    assert said(caplog) == []


def test_a_queue_that_is_full_again_and_again_is_told_once_in_ten_seconds(
    bus: MemoryBus, one: Client, two: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sender, receiver = one.sender("queue"), two.receiver("queue", credit=0)
    for _ in range(5):
        for number in range(4):
            sender.send(str(number))
        receiver.flow(4)
        for _ in range(4):
            receiver.accept()
    assert [level for level, _ in said(caplog)] == [logging.WARNING, logging.INFO]
    bus.advance(10)
    assert said(caplog) == [
        (logging.WARNING, "Queue queue was full 5 times within 10 s, and is not now")
    ]
    bus.advance(60)
    assert said(caplog) == []


def test_a_topic_s_limits_are_those_of_each_subscriber(bus: MemoryBus, one: Client) -> None:
    broker: Any = bus.behaviour
    broker.limit("broadcast.t", Limits(2, 1))
    one.receiver("broadcast.t", credit=0)
    sender = one.sender("broadcast.t")
    assert sender.credit == 2


@pytest.mark.parametrize(
    "marks",
    [
        {"capacity": -1},
        {"capacity": 5, "resume": 5},
        {"capacity": 5, "resume": 6},
        {"resume": 1},
        {"capacity_bytes": -1},
        {"capacity_bytes": 5, "resume_bytes": 5},
        {"resume_bytes": 1},
    ],
)
def test_watermarks_that_make_no_sense(marks: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="resume"):
        Limits.of(**marks)


def test_resume_marks_are_three_quarters_unless_given() -> None:
    assert Limits.of(8, capacity_bytes=1000) == Limits(8, 6, 1000, 750)
    assert Limits.of(8, 2, 1000, 10) == Limits(8, 2, 1000, 10)
    assert Limits.of() == Limits()
