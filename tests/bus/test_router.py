# SPDX-License-Identifier: Apache-2.0

"""Router behaviour, as observed on skupper-router 3.4.2 and qpid-dispatch 1.19.0."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Delivery, Link, Message, symbol

from amqp1_driver.bus.links import Producer
from tests.bus.memory import Client, MemoryBus, is_open, outcome


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus("router")


@pytest.fixture
def one(bus: MemoryBus) -> Client:
    return bus.client("one")


@pytest.fixture
def two(bus: MemoryBus) -> Client:
    return bus.client("two")


def test_open_names_the_product_and_offers_the_anonymous_relay(one: Client) -> None:
    assert one.connection.remote_properties[symbol("product")] == "amqp1-bus-router"
    assert one.connection.remote_properties[symbol("version")] == "0"
    assert list(one.connection.remote_offered_capabilities) == ["ANONYMOUS-RELAY"]


def test_open_advertises_half_the_idle_timeout_and_frames_of_16384(one: Client) -> None:
    assert one.transport.remote_idle_timeout == 8.0
    assert one.transport.remote_max_frame_size == 16384


def test_a_sender_without_a_consumer_attaches_with_no_credit_and_no_error(one: Client) -> None:
    sender = one.sender("queue")
    assert is_open(sender.link)
    assert sender.credit == 0


def test_a_sender_gets_250_credit_when_a_consumer_attaches(one: Client, two: Client) -> None:
    sender = one.sender("queue")
    two.receiver("queue", credit=0)
    assert sender.credit == 250


def test_a_sender_to_an_address_with_a_consumer_has_credit_at_once(
    one: Client, two: Client
) -> None:
    two.receiver("queue")
    assert one.sender("queue").credit == 250


def test_credit_is_not_revoked_when_the_consumer_leaves_and_sends_come_back_released(
    one: Client, two: Client
) -> None:
    sender = one.sender("queue")
    two.receiver("queue").close()
    assert sender.credit == 250
    assert outcome(sender.send()) == Delivery.RELEASED
    assert sender.credit >= 125


def test_a_new_sender_after_the_consumer_has_left_has_no_credit(one: Client, two: Client) -> None:
    two.receiver("queue").close()
    assert one.sender("queue").credit == 0


def test_the_outcome_waits_for_the_consumer(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    delivery = one.sender("queue").send("hello")
    assert receiver.bodies == ["hello"]
    assert outcome(delivery) is None


@pytest.mark.parametrize(
    "state", [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED]
)
def test_every_outcome_passes_end_to_end(one: Client, two: Client, state: int) -> None:
    receiver = two.receiver("queue")
    delivery = one.sender("queue").send()
    receiver.settle(state)
    assert outcome(delivery) == state


def test_the_condition_of_a_rejection_passes_through(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    delivery = one.sender("queue").send()
    receiver.reject("test:bad", "no good")
    assert delivery.remote.condition.name == "test:bad"
    assert delivery.remote.condition.description == "no good"


def test_the_fields_of_modified_pass_through(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    delivery = one.sender("queue").send()
    receiver.settle(
        Delivery.MODIFIED, failed=True, undeliverable=True, annotations={symbol("x-why"): b"\x01"}
    )
    assert delivery.remote.failed is True
    assert delivery.remote.undeliverable is True
    assert bytes(delivery.remote.annotations[symbol("x-why")]) == b"\x01"


def test_a_settlement_without_outcome_passes_through(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    delivery = one.sender("queue").send()
    receiver.settle(0)
    assert delivery.settled
    assert delivery.remote_state == 0


def test_credit_stops_at_250_messages_without_outcome(one: Client, two: Client) -> None:
    two.receiver("queue", credit=0)
    sender = one.sender("queue")
    for _ in range(250):
        sender.send()
    assert sender.credit == 0


def test_a_consumer_without_credit_leaves_messages_waiting(one: Client, two: Client) -> None:
    receiver = two.receiver("queue", credit=0)
    delivery = one.sender("queue").send("later")
    assert receiver.bodies == []
    assert outcome(delivery) is None
    receiver.flow(1)
    assert receiver.bodies == ["later"]


def test_undelivered_messages_are_released_when_the_consumer_closes(
    one: Client, two: Client
) -> None:
    receiver = two.receiver("queue", credit=0)
    delivery = one.sender("queue").send()
    receiver.close()
    assert outcome(delivery) == Delivery.RELEASED


@pytest.mark.parametrize("how", ["link", "session", "connection", "tcp"])
def test_a_consumer_that_vanishes_after_delivery_gives_modified_delivery_failed(
    bus: MemoryBus, one: Client, two: Client, how: str
) -> None:
    receiver = two.receiver("queue", credit=1)
    sender = one.sender("queue")
    delivered, waiting = sender.send(), sender.send()
    ends: dict[str, Any] = {
        "link": receiver.close,
        "session": two.session.close,
        "connection": two.close,
        "tcp": two.vanish,
    }
    ends[how]()
    bus.settle()
    assert outcome(delivered) == Delivery.MODIFIED
    assert delivered.remote.failed is True
    assert delivered.remote.undeliverable is False
    assert outcome(waiting) == Delivery.RELEASED


def test_an_outcome_for_a_producer_that_has_gone_is_ignored(
    bus: MemoryBus, one: Client, two: Client
) -> None:
    receiver = two.receiver("queue")
    one.sender("queue").send()
    one.vanish()
    receiver.accept()
    assert is_open(receiver.link)


def test_the_anonymous_terminus_has_250_credit_at_once(one: Client) -> None:
    assert one.sender(None).credit == 250


def test_a_message_to_nobody_is_released(one: Client) -> None:
    assert outcome(one.sender(None).send(Message(address="nobody"))) == Delivery.RELEASED


def test_a_message_without_to_is_rejected_with_precondition_failed(one: Client) -> None:
    delivery = one.sender(None).send(Message(body="lost"))
    assert outcome(delivery) == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:precondition-failed"


def test_a_message_that_cannot_be_read_is_rejected_with_decode_error(one: Client) -> None:
    delivery = one.sender(None).send(b"\x00\x53\x73\xc0\xff\x01")
    assert outcome(delivery) == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:decode-error"


def test_the_anonymous_terminus_sends_to_the_address_in_to(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    delivery = one.sender(None).send(Message(address="queue", body="relayed"))
    assert receiver.bodies == ["relayed"]
    receiver.accept()
    assert outcome(delivery) == Delivery.ACCEPTED


@pytest.mark.parametrize("to", ["queue", "/queue", "amqp:/queue", "amqp://host:5672/queue"])
def test_scheme_host_and_leading_slash_of_an_address_do_not_count(
    one: Client, two: Client, to: str
) -> None:
    receiver = two.receiver("queue")
    one.sender(None).send(Message(address=to, body=to))
    assert receiver.bodies == [to]


def test_a_dynamic_source_gets_an_address_of_the_topology(one: Client, two: Client) -> None:
    receiver = one.receiver(None, dynamic=True)
    other = one.receiver(None, dynamic=True)
    assert receiver.address.startswith("amqp:/_topo/0/")
    assert "/temp." in receiver.address
    assert receiver.address != other.address
    two.sender(None).send(Message(address=receiver.address, body="reply"))
    assert receiver.bodies == ["reply"]
    assert other.bodies == []


def test_messages_to_a_dynamic_address_whose_owner_has_gone_are_released(
    one: Client, two: Client
) -> None:
    receiver = one.receiver(None, dynamic=True)
    address = receiver.address
    receiver.close()
    assert outcome(two.sender(None).send(Message(address=address))) == Delivery.RELEASED
    assert two.sender(address).credit == 0


def test_anycast_is_balanced_by_the_number_of_unsettled_messages(one: Client, two: Client) -> None:
    slow, fast = two.receiver("queue", credit=100), two.receiver("queue", credit=100)
    sender = one.sender("queue")
    for _ in range(10):
        sender.send()
        while fast.arrived:
            fast.accept()
    assert len(slow.arrived) == 1


def test_idle_consumers_take_turns(one: Client, two: Client) -> None:
    receivers = [two.receiver("queue") for _ in range(3)]
    sender = one.sender("queue")
    for _ in range(6):
        sender.send()
    assert [len(r.arrived) for r in receivers] == [2, 2, 2]


MULTICAST = ["openstack.org/om/rpc/multicast/ex/topic", "broadcast.ex.topic.all"]


@pytest.mark.parametrize("address", MULTICAST)
def test_every_consumer_of_a_multicast_address_gets_the_message(
    one: Client, two: Client, address: str
) -> None:
    receivers = [two.receiver(address) for _ in range(3)]
    one.sender(address).send("all")
    assert [r.bodies for r in receivers] == [["all"]] * 3


def test_the_outcome_of_a_multicast_waits_for_all_consumers(one: Client, two: Client) -> None:
    ready, without_credit = two.receiver(MULTICAST[0]), two.receiver(MULTICAST[0], credit=0)
    delivery = one.sender(MULTICAST[0]).send()
    ready.accept()
    assert outcome(delivery) is None
    without_credit.flow(1)
    without_credit.accept()
    assert outcome(delivery) == Delivery.ACCEPTED


@pytest.mark.parametrize(
    "said, told",
    [
        ((Delivery.ACCEPTED, Delivery.ACCEPTED), Delivery.ACCEPTED),
        ((Delivery.ACCEPTED, Delivery.RELEASED), Delivery.ACCEPTED),
        ((Delivery.MODIFIED, Delivery.ACCEPTED), Delivery.ACCEPTED),
        ((Delivery.REJECTED, Delivery.ACCEPTED), Delivery.REJECTED),
        ((Delivery.RELEASED, Delivery.REJECTED), Delivery.REJECTED),
        ((Delivery.RELEASED, Delivery.RELEASED), Delivery.RELEASED),
        ((Delivery.RELEASED, Delivery.MODIFIED), Delivery.MODIFIED),
    ],
)
def test_the_outcomes_of_a_multicast_are_merged(
    one: Client, two: Client, said: tuple[int, int], told: int
) -> None:
    receivers = [two.receiver(MULTICAST[1]) for _ in said]
    delivery = one.sender(MULTICAST[1]).send()
    for receiver, state in zip(receivers, said, strict=True):
        receiver.settle(state)
    assert outcome(delivery) == told


def test_a_multicast_without_consumers_is_released(one: Client) -> None:
    delivery = one.sender(None).send(Message(address=MULTICAST[0]))
    assert outcome(delivery) == Delivery.RELEASED


def test_a_consumer_of_a_multicast_that_leaves_does_not_block_the_others(
    one: Client, two: Client
) -> None:
    stays, leaves = two.receiver(MULTICAST[0]), two.receiver(MULTICAST[0])
    delivery = one.sender(MULTICAST[0]).send()
    stays.accept()
    leaves.close()
    assert outcome(delivery) == Delivery.ACCEPTED


def test_presettled_messages_arrive_presettled(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    sender = one.sender("queue")
    sender.send("gone", settled=True)
    assert receiver.arrived[0][0].settled
    assert receiver.bodies == ["gone"]


def test_presettled_messages_beyond_250_without_credit_lose_the_oldest(
    bus: MemoryBus, one: Client, two: Client
) -> None:
    receiver = two.receiver("queue", credit=0)
    sender = one.sender("queue")
    for number in range(260):
        sender.send(str(number), settled=True)
    assert bus.counters.dropped == 10
    receiver.flow(1000)
    assert receiver.bodies == [str(n) for n in range(10, 260)]


def test_a_consumer_that_wants_settled_messages_accepts_by_receiving(
    one: Client, two: Client
) -> None:
    receiver = two.receiver("queue", snd_settle_mode=Link.SND_SETTLED)
    delivery = one.sender("queue").send()
    assert receiver.arrived[0][0].settled
    assert outcome(delivery) == Delivery.ACCEPTED


def test_message_bytes_pass_unchanged(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    data = Message(body={"a": [1, 2.5, None]}, id="x", ttl=5, durable=True).encode()
    one.sender("queue").send(data)
    assert receiver.raw == [bytes(data)]


def test_a_message_of_many_frames_arrives_whole(one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    body = "x" * 1_000_000
    one.sender("queue").send(body)
    assert receiver.bodies == [body]


def test_an_aborted_message_is_not_forwarded(bus: MemoryBus, one: Client, two: Client) -> None:
    receiver = two.receiver("queue")
    sender = one.sender("queue")
    delivery = sender.link.delivery("half")
    sender.link.stream(b"\x00\x53\x75")
    bus.settle()
    delivery.abort()
    bus.settle()
    sender.send("whole")
    assert receiver.bodies == ["whole"]


def test_drain_uses_up_the_credit_that_nothing_is_left_for(one: Client, two: Client) -> None:
    receiver = two.receiver("queue", credit=0)
    one.sender("queue").send("last")
    receiver.drain(5)
    assert receiver.bodies == ["last"]
    assert receiver.link.credit == 0


def test_a_source_without_address_is_refused_with_a_null_terminus(one: Client) -> None:
    receiver = one.receiver(None)
    assert not is_open(receiver.link)
    assert receiver.link.remote_condition.name == "amqp:invalid-field"
    assert receiver.link.remote_source.address is None


def adjust(bus: MemoryBus) -> None:
    """What the bus does after a change of what is paused."""
    for client in bus.clients:
        for link in client.engine.links:
            if isinstance(link, Producer):
                link.adjust()


@pytest.mark.parametrize("address", ["queue", None])
def test_pausing_withdraws_credit_and_resuming_gives_it_back(
    bus: MemoryBus, one: Client, two: Client, address: str | None
) -> None:
    two.receiver("queue")
    sender, other = one.sender("queue"), one.sender(None)
    bus.behaviour.pause(address)
    adjust(bus)
    assert (sender.credit, other.credit) == (0, 250 if address else 0)
    assert one.sender("queue").credit == 0
    bus.behaviour.resume(address)
    adjust(bus)
    assert (sender.credit, other.credit) == (250, 250)


def test_ending_a_session_ends_its_links_only(bus: MemoryBus, one: Client, two: Client) -> None:
    extra = two.new_session()
    gone, stays = two.receiver("queue", session=extra), two.receiver("queue")
    extra.close()
    bus.settle()
    one.sender("queue").send("x")
    assert stays.bodies == ["x"]
    assert gone.bodies == []
