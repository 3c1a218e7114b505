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

"""Producer flow control by watermarks, as the two Apache Qpid designs describe it."""

from __future__ import annotations

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
