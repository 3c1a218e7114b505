# SPDX-License-Identifier: Apache-2.0

"""Broker behaviour: what the bus stores, to whom it gives it, and what becomes of it."""

from __future__ import annotations

import pytest
from proton import Delivery, Link, Message, symbol

from tests.bus.memory import Client, MemoryBus, is_open, outcome


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus("broker")


@pytest.fixture
def one(bus: MemoryBus) -> Client:
    return bus.client("one")


@pytest.fixture
def two(bus: MemoryBus) -> Client:
    return bus.client("two")


def test_open_names_the_product_and_offers_the_anonymous_relay(one: Client) -> None:
    assert one.connection.remote_properties[symbol("product")] == "amqp1-bus-broker"
    assert list(one.connection.remote_offered_capabilities) == ["ANONYMOUS-RELAY"]


def test_a_sender_has_credit_and_is_accepted_without_a_consumer(
    bus: MemoryBus, one: Client
) -> None:
    sender = one.sender("queue")
    assert sender.credit == 250
    assert outcome(sender.send()) == Delivery.ACCEPTED
    assert bus.behaviour.depth("queue") == 1


def test_credit_is_renewed_as_messages_are_accepted(one: Client) -> None:
    sender = one.sender("queue")
    for _ in range(1000):
        assert sender.credit > 0
        sender.send()


def test_a_stored_message_goes_to_a_later_consumer_unchanged(one: Client, two: Client) -> None:
    data = bytes(Message(body={"a": [1, None]}, id="x", durable=True).encode())
    one.sender("queue").send(data)
    assert two.receiver("queue").raw == [data]


def test_the_anonymous_terminus_creates_the_queue(bus: MemoryBus, one: Client) -> None:
    delivery = one.sender(None).send(Message(address="queue", body="kept"))
    assert outcome(delivery) == Delivery.ACCEPTED
    assert one.receiver("queue").bodies == ["kept"]


def test_a_message_without_to_is_rejected_with_precondition_failed(one: Client) -> None:
    delivery = one.sender(None).send(Message(body="lost"))
    assert outcome(delivery) == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:precondition-failed"


def test_a_message_that_cannot_be_read_is_rejected_with_decode_error(one: Client) -> None:
    delivery = one.sender("queue").send(b"\xff\xff")
    assert outcome(delivery) == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:decode-error"


def test_competing_consumers_with_credit_take_turns(one: Client, two: Client) -> None:
    first, second, without = (two.receiver("queue", credit=c) for c in (3, 3, 0))
    sender = one.sender("queue")
    for number in range(7):
        sender.send(str(number))
    assert first.bodies == ["0", "2", "4"]
    assert second.bodies == ["1", "3", "5"]
    without.flow(1)
    assert without.bodies == ["6"]


def test_an_accepted_message_is_gone(bus: MemoryBus, one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    one.sender("queue").send()
    assert bus.behaviour.depth("queue") == 1
    receiver.accept()
    assert bus.behaviour.depth("queue") == 0


def test_a_rejected_message_is_dropped_as_a_dead_letter(
    bus: MemoryBus, one: Client, two: Client
) -> None:
    receiver = two.receiver("queue")
    one.sender("queue").send()
    receiver.reject()
    assert receiver.arrived == []
    assert bus.behaviour.depth("queue") == 0
    assert bus.counters.dead_lettered == 1


def test_a_released_message_comes_again_in_its_place_with_the_same_delivery_count(
    one: Client, two: Client
) -> None:
    receiver = two.receiver("queue", credit=1)
    sender = one.sender("queue")
    sender.send("first")
    sender.send("second")
    assert receiver.release().body == "first"
    receiver.flow(1)
    _, message = receiver.arrived[0]
    assert message.body == "first"
    assert message.delivery_count == 0
    assert message.first_acquirer is False


def test_modified_with_delivery_failed_counts_a_delivery(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    one.sender("queue").send("again")
    receiver.modify(failed=True)
    receiver.modify(failed=True)
    _, message = receiver.arrived[0]
    assert (message.body, message.delivery_count, message.first_acquirer) == ("again", 2, False)


def test_modified_alone_does_not_count_a_delivery(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    one.sender("queue").send()
    receiver.modify()
    assert receiver.arrived[0][1].delivery_count == 0


def test_undeliverable_here_sends_the_message_to_somebody_else(one: Client, two: Client) -> None:
    first = two.receiver("queue")
    sender = one.sender("queue")
    sender.send("not here")
    first.modify(undeliverable=True)
    assert first.arrived == []
    sender.send("next")
    assert first.bodies == ["next"]
    assert two.receiver("queue").bodies == ["not here"]


def test_a_settlement_without_outcome_requeues(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    one.sender("queue").send("again")
    receiver.settle(0)
    assert receiver.bodies == ["again"]


@pytest.mark.parametrize("how", ["link", "session", "connection", "tcp"])
def test_messages_of_a_lost_consumer_are_requeued_in_order_with_delivery_count_1(
    bus: MemoryBus, one: Client, two: Client, how: str
) -> None:
    receiver = two.receiver("queue", credit=2)
    sender = one.sender("queue")
    for number in range(3):
        sender.send(str(number))
    assert receiver.bodies == ["0", "1"]
    {
        "link": receiver.close,
        "session": two.session.close,
        "connection": two.close,
        "tcp": two.vanish,
    }[how]()
    bus.settle()
    again = one.receiver("queue")
    assert again.bodies == ["0", "1", "2"]
    assert [m.delivery_count for _, m in again.arrived] == [1, 1, 0]


def test_a_ttl_that_has_passed_drops_the_message(bus: MemoryBus, one: Client) -> None:
    one.sender("queue").send(Message(body="short", ttl=5))
    one.sender("queue").send(Message(body="long", ttl=60))
    bus.advance(5.0)
    assert bus.behaviour.depth("queue") == 1
    assert bus.counters.expired == 1
    assert one.receiver("queue").bodies == ["long"]


def test_a_waiting_message_is_sent_with_the_ttl_that_is_left(bus: MemoryBus, one: Client) -> None:
    one.sender("queue").send(Message(body="aged", ttl=5))
    bus.advance(2.0)
    assert one.receiver("queue").arrived[0][1].ttl == 3.0


def test_a_requeued_message_still_expires(bus: MemoryBus, one: Client, two: Client) -> None:
    receiver = two.receiver("queue", credit=1)
    one.sender("queue").send(Message(body="x", ttl=5))
    bus.advance(6.0)
    receiver.release()
    bus.advance(0.0)
    assert bus.behaviour.depth("queue") == 0


def test_a_topic_gives_every_subscriber_a_copy(one: Client, two: Client) -> None:
    for address in ("broadcast.ex.topic.all", "a/rpc/multicast/ex/topic"):
        receivers = [two.receiver(address) for _ in range(3)]
        one.sender(address).send("all")
        assert [r.bodies for r in receivers] == [["all"]] * 3


def test_a_topic_accepts_without_subscribers_and_keeps_nothing(bus: MemoryBus, one: Client) -> None:
    delivery = one.sender("broadcast.topic").send("nobody")
    assert outcome(delivery) == Delivery.ACCEPTED
    assert one.receiver("broadcast.topic").bodies == []


def test_a_subscriber_of_a_topic_without_credit_does_not_block_the_others(
    one: Client, two: Client
) -> None:
    slow, fast = two.receiver("broadcast.t", credit=0), two.receiver("broadcast.t")
    delivery = one.sender("broadcast.t").send("x")
    assert outcome(delivery) == Delivery.ACCEPTED
    assert fast.bodies == ["x"]
    slow.flow(1)
    assert slow.bodies == ["x"]


def test_every_pool_gets_each_message_once_and_the_queue_keeps_its_own(
    bus: MemoryBus, one: Client, two: Client
) -> None:
    blue = [two.receiver("topic::blue") for _ in range(2)]
    green = two.receiver("topic::green")
    sender = one.sender("topic")
    for number in range(4):
        sender.send(str(number))
    assert sorted(blue[0].bodies + blue[1].bodies) == ["0", "1", "2", "3"]
    assert len(blue[0].bodies) == 2
    assert green.bodies == ["0", "1", "2", "3"]
    assert one.receiver("topic").bodies == ["0", "1", "2", "3"]


def test_a_pool_collects_while_nobody_listens(bus: MemoryBus, one: Client, two: Client) -> None:
    two.receiver("topic::blue").close()
    one.sender("topic").send("kept")
    assert bus.behaviour.depth("topic::blue") == 1
    assert two.receiver("topic::blue").bodies == ["kept"]


def test_a_message_sent_to_a_pool_goes_to_that_pool_only(bus: MemoryBus, one: Client) -> None:
    one.receiver("topic::green", credit=0)
    one.sender("topic::blue").send()
    one.sender(None).send(Message(address="topic::blue"))
    depths = [bus.behaviour.depth(a) for a in ("topic::blue", "topic::green", "topic")]
    assert depths == [2, 0, 0]


def test_a_dynamic_node_lives_as_long_as_its_link(bus: MemoryBus, one: Client, two: Client) -> None:
    receiver = one.receiver(None, dynamic=True)
    sender = two.sender(receiver.address)
    sender.send("reply")
    assert receiver.bodies == ["reply"]
    address = receiver.address
    receiver.close()
    assert sender.link.remote_condition.name == "amqp:resource-deleted"
    refused = two.sender(address)
    assert refused.link.remote_condition.name == "amqp:not-found"
    assert refused.link.remote_target.address is None


def test_an_anonymous_message_to_a_deleted_dynamic_node_is_released(
    bus: MemoryBus, one: Client, two: Client
) -> None:
    receiver = one.receiver(None, dynamic=True)
    address = receiver.address
    receiver.close()
    delivery = two.sender(None).send(Message(address=address))
    assert outcome(delivery) == Delivery.RELEASED
    assert bus.behaviour.depth(address) == 0


def test_a_presettled_consumer_empties_the_queue(bus: MemoryBus, one: Client) -> None:
    one.sender("queue").send("x")
    receiver = one.receiver("queue", snd_settle_mode=Link.SND_SETTLED)
    assert receiver.arrived[0][0].settled
    assert bus.behaviour.depth("queue") == 0


def test_drain_ends_with_an_empty_queue_and_no_credit(one: Client) -> None:
    sender = one.sender("queue")
    sender.send("1")
    sender.send("2")
    receiver = one.receiver("queue", credit=0)
    receiver.drain(10)
    assert receiver.bodies == ["1", "2"]
    assert receiver.link.credit == 0
    sender.send("3")
    assert receiver.bodies == ["1", "2"]


def test_a_transaction_coordinator_is_refused(one: Client) -> None:
    link = one.session.sender("tx")
    link.target.type = 3  # coordinator
    link.open()
    one.bus.settle()
    assert not is_open(link)
    assert link.remote_condition.name == "amqp:not-implemented"


def test_an_empty_queue_without_links_is_forgotten(bus: MemoryBus, one: Client) -> None:
    sender, receiver = one.sender("queue"), one.receiver("queue")
    sender.send()
    receiver.accept()
    sender.close()
    receiver.close()
    assert bus.behaviour._nodes == {}  # type: ignore[attr-defined]
